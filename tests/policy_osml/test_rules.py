"""The osml policy with models of known answers: algorithms 1 to 4, the shield, and what lies beyond them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.decide.decide import decide_by
from osml.domain import Counters, Latency, MbaRange, Observation, Outcome, Platform, partition_error
from osml.policies.osml import Osml
from osml.policies.osml.answers.models import Models
from tests.kit.fake_models import FEATURES, PLATFORM, Fake, Run, Values, job, metadata, needs, observe, service
from tests.kit.strategies import platforms, tenants


def test_the_first_decision_gives_everybody_its_need_and_what_is_left_in_proportion() -> None:
    run = Run(Osml(needs(rate_10=4.0, rate_50=8.0)))
    decision = run(service("a"), service("b", rate=50.0))
    assert run.cores() == {"a": 12, "b": 24}
    assert decision.infeasible is None
    assert "a gets 12 cores and 10 ways, it needs 4 and 1 (OAA 4.0, 1.0; RCliff 3.0, 1.0)" in run.words()
    assert [forecast.oaa.cores for forecast in decision.forecasts] == [4.0, 8.0]
    assert decision.forecasts[0].rcliff_upper.cores == 3.5  # point + upper factor x spread


def test_when_all_is_calm_everybody_goes_to_the_oaa_in_one_step() -> None:
    run = Run(Osml(needs(rate_10=4.0, rate_50=8.0)))
    run(service("a"), service("b", rate=50.0), times=4)
    assert run.cores() == {"a": 4, "b": 8}
    before = run.decision.partition
    run(service("a"), service("b", rate=50.0), times=30)
    assert run.decision.partition == before


def test_best_effort_jobs_get_all_that_is_left() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), job(), times=20)
    assert run.cores() == {"a": 4, "b": 4, "job": 28}


def test_what_best_effort_jobs_get_is_given_half_of_the_way_at_a_time_and_predicted_anew_each_time() -> None:
    """A' that sees the job as it is: the more CPUs the job has, the more a service needs."""
    features = (*FEATURES, "neighbour_cores")
    fake: Any = Fake(lambda row: [3.0, 1.0, 4.0 + 0.25 * (row[4] - 18.0), 1.0, 1.0], metadata(features=features))
    run = Run(Osml(Models(a=fake, a2=fake)))
    jobs: list[int] = []
    for _ in range(30):
        run(service("a"), job())
        if not jobs or run.cores()["job"] != jobs[-1]:
            jobs.append(run.cores()["job"])
    steps = [after - before for before, after in pairwise(jobs)]
    assert steps[0] <= (36 - jobs[0]) // 2 + 1
    assert steps == sorted(steps, reverse=True)
    need = 4.0 + 0.25 * (run.cores()["job"] - 18.0)
    assert need <= run.cores()["a"] <= need + 1.5


def test_where_the_node_has_priorities_best_effort_jobs_run_behind_the_services_too() -> None:
    run = Run(Osml(needs(rate_10=4.0)), replace(PLATFORM, realtime=True))
    run(service("a"), service("b"), job(), times=20)
    partition = run.decision.partition
    assert partition.cores_of("job") == 36
    assert partition.ways_of("job") == 18
    assert partition.cores_of("a") == 4
    assert set(partition.knobs) == {"a", "b"}


def test_a_load_that_rises_is_answered_in_the_same_interval() -> None:
    run = Run(Osml(needs(rate_1000=4.0, rate_5000=9.0)))
    run(service("a", rate=1000.0), service("b", rate=1000.0), times=6)
    assert run.cores() == {"a": 4, "b": 4}
    run(service("a", 0.8, rate=5000.0), service("b", rate=1000.0))
    assert run.cores()["a"] == 9


def test_a_missed_target_gets_more_and_the_cell_is_not_tried_again() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=5)
    assert run.cores()["a"] == 4
    run(service("a", 3.0), service("b"), times=2)
    assert run.cores()["a"] > 4
    run(service("a"), service("b"), times=40)
    assert run.cores()["a"] > 4


def test_a_service_close_to_its_target_gives_nothing_more_whatever_is_predicted() -> None:
    cores = [8.0]
    fake: Any = Fake(lambda row: [cores[0] - 1.0, 1.0, cores[0], 1.0, 1.0])
    run = Run(Osml(Models(a=fake, a2=fake)))
    run(service("a"), service("b"), times=6)
    cores[0] = 4.0
    run(service("a", 0.95), service("b"), times=40)
    assert run.cores() == {"a": 8, "b": 4}


def test_a_queue_that_drains_is_left_alone() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=9)
    run(service("a", 40.0), service("b"))
    after = run.decision.partition
    assert run.cores() == {"a": 32, "b": 4}  # all that was idle, until it has caught up
    for ratio in (30.0, 20.0, 10.0, 2.0):
        assert run(service("a", ratio), service("b")).partition == after
    run(service("a"), service("b"), times=3)
    assert run.cores() == {"a": 5, "b": 4}


def test_noise_of_a_tail_of_few_requests_is_no_missed_target() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=5)
    few = Latency(p99_ms=12.0, requests_per_s=10.0, samples=10)
    run(replace(service("a"), latency=few), service("b"))
    assert run.cores()["a"] == 4
    many = Latency(p99_ms=12.0, requests_per_s=10.0, samples=1_000_000)
    run(replace(service("a"), latency=many), service("b"))
    assert run.cores()["a"] > 4


def test_a_newcomer_gets_its_need_out_of_what_is_idle() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=5)
    run(service("a"), service("b"), service("c"))
    assert min(run.cores().values()) >= 4
    assert "c is new on the node" in run.words()
    run(service("a"), service("b"), service("c"), times=5)
    assert run.cores() == {"a": 4, "b": 4, "c": 4}


@pytest.mark.parametrize("ratio", [0.8, 20.0])
def test_a_load_that_rises_while_somebody_comes_is_answered_with_it(ratio: float) -> None:
    run = Run(Osml(needs(rate_1000=4.0, rate_5000=7.0, rate_50=20.0, rate_90=8.0)))
    run(service("a", rate=1000.0), service("b", rate=50.0), times=6)
    assert run.cores() == {"a": 4, "b": 20}
    run(service("a", ratio, rate=5000.0), service("b", rate=50.0), service("c", rate=90.0))
    assert run.cores()["a"] >= 7
    assert run.cores()["b"] >= 20
    assert run.cores()["c"] >= 8


def test_nobody_gets_a_cell_while_a_queue_drains_that_all_share_for() -> None:
    """What a service with a queue needs is guessed too low: all would fit, and it missed its target with as much."""
    run = Run(Osml(needs(rate_1000=10.0, rate_5000=10.0, rate_50=20.0, rate_90=5.0)))
    run(service("a", rate=1000.0), service("b", rate=50.0), times=6)
    assert run.cores() == {"a": 10, "b": 20}
    others = [service("b", rate=50.0), service("c", rate=90.0)]
    for ratio in (20.0, 10.0):
        run(service("a", ratio, rate=5000.0), *others)
        assert set(run.cores().values()) == {36}
    assert "queues may still become shorter" in run.words()


def test_who_has_gone_leaves_its_part() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), service("c"), times=5)
    run(service("a"), service("c"))
    assert run.cores() == {"a": 4, "c": 4}
    assert "b is no longer on the node" in run.words()


def test_needs_that_do_not_fit_are_shared_while_all_targets_are_met() -> None:
    run = Run(Osml(needs(rate_10=14.0)))
    run(service("a"), service("b"), service("c"), times=3)
    assert run.cores() == {"a": 36, "b": 36, "c": 36}
    assert run.decision.infeasible is None


def test_where_sharing_fails_one_is_set_aside_and_the_scheduler_above_hears_what_is_missing() -> None:
    run = Run(Osml(needs(rate_10=4.0, rate_50=16.0, rate_90=30.0)))
    worse = [service("a", 2.0), service("b", 3.0, rate=50.0), service("c", 4.0, rate=90.0)]
    run(*worse, times=8)
    cores = run.cores()
    assert cores["a"] >= 4
    assert cores["b"] >= 16
    assert cores["c"] < 30
    assert sum(cores.values()) == 36
    assert run.decision.infeasible.services
    assert "only have what the others leave" in run.decision.infeasible.message


def test_a_target_that_changes_is_a_new_question() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=5)
    run(replace(service("a"), target_ms=1.0), service("b"), times=3)
    assert run.cores()["a"] > 4


@pytest.mark.parametrize("count", [1, 8])
def test_one_service_and_eight(count: int) -> None:
    run = Run(Osml(needs(rate_10=3.0)))
    all_of_them = [service(name) for name in "abcdefgh"[:count]]
    run(*all_of_them, times=6)
    assert set(run.cores().values()) == {3 if count == 1 else run.cores()["a"]}
    assert sum(run.cores().values()) <= 36


def test_intervals_without_latency_change_nothing() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=5)
    before = run.decision.partition
    blank = [service(name, None, counters=Counters()) for name in "ab"]
    run(*blank, times=5)
    assert run.decision.partition == before


def test_operators_limits_hold() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a", min_cores=6), service("b", max_cores=2), times=6)
    assert run.cores()["a"] == 6
    assert run.cores()["b"] == 2


def test_slices_of_cpu_time_are_units_and_a_cache_that_can_not_be_parted_is_left_alone() -> None:
    platform = Platform("p", 80, "0-7", core_quantum=0.1)
    run = Run(Osml(needs(rate_10=2.5)), platform)
    run(service("a"), service("b"), times=6)
    assert run.cores() == {"a": 25, "b": 25}


def test_bandwidth_is_split_by_predicted_need_where_the_platform_throttles_it() -> None:
    platform = replace(PLATFORM, mba=MbaRange(10, 100, 10))
    run = Run(Osml(needs(rate_10=4.0, rate_50=12.0)), platform)
    decision = run(service("a"), service("b", rate=50.0), job())
    assert decision.partition.mba == {
        "a": 30,
        "b": 80,
        "job": 70,
    }  # 25, 75 % up; 76.8 - 1.2 x 16 GB/s, down


def test_model_c_corrects_a_missed_target_and_the_decision_says_so() -> None:
    known = needs(rate_10=4.0)
    with_c: Any = Values(2, 0)
    run = Run(Osml(Models(a=known.a, a2=known.a2, c=with_c)))
    run(service("a"), service("b"), times=9)
    decision = run(service("a", 1.5), service("b"))
    assert run.cores()["a"] == 6
    assert "Model-C <+2, +0> Q=5.00" in run.words()
    forecast = next(f for f in decision.forecasts if f.service == "a")
    assert forecast.action == (2, 0)
    assert forecast.q == 5.0


def test_model_b_says_what_neighbours_can_spare_for_a_newcomer() -> None:
    known = needs(rate_10=16.0, rate_50=6.0)
    points = tuple(f"{kind}_{what}" for kind in ("balanced", "core_dominated", "way_dominated") for what in ("c", "w"))
    b: Any = Fake(lambda row: [2.0, 0.0, 3.0, 0.0, 0.0, 1.0], metadata(points, ("slowdown", "cores"), kind="b"), 0.0)
    assert known.a2 is not None
    known.a2.spread = 3.0  # the bound of RCliff is two cores below the OAA: the shield lets B take two
    low: Any = Fake(lambda row: [10.0, 1.0, 16.0 if row[2] < 30 else 6.0, 1.0, 1.0], spread=0.5)
    run = Run(Osml(Models(a=low, a2=low, b=b)))
    run(service("a", 0.2), service("b", 0.2), times=5)
    assert run.cores() == {"a": 16, "b": 16}
    run(service("a", 0.2), service("b", 0.2), service("c", 0.2, rate=50.0))
    assert run.cores()["c"] >= 6
    assert "can give" in run.words()
    assert "(Model-B)" in run.words()


def test_model_b2_finds_whom_to_share_with_and_reports_it() -> None:
    known = needs(rate_10=18.0)
    b2: Any = Fake(lambda row: [5.0], metadata(("qos_reduction_pct",), ("expected_cores", "expected_cache_mib")), 0.0)
    run = Run(Osml(Models(a=known.a, a2=known.a2, b2=b2)), replace(PLATFORM, ways=None))
    run(service("a", max_cores=34), service("b"), times=6)
    decision = run(service("a", 1.5, max_cores=34), service("b"))
    assert "shares" in run.words()
    assert "Model-B' expects b to be 5 % slower" in run.words()
    assert any(set(region.owners) == {"a", "b"} for region in decision.partition.regions)
    assert decision.infeasible.services == ["a"]


predictions = st.lists(st.one_of(st.floats(0, 40), st.just(float("nan"))), min_size=5, max_size=5)


@settings(max_examples=150, deadline=None)
@given(
    platforms,
    st.lists(
        st.tuples(tenants(), st.floats(0.1, 40), st.sampled_from(["applied", "refused", "lost"])),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.lists(st.floats(0, 20), min_size=5, max_size=5), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_every_decision_is_legal_and_repeats_itself_whatever_the_models_say(
    platform: Platform, steps: list[Any], answers: list[list[float]], seed: int
) -> None:
    fake: Any = Fake(lambda row: answers[int(np.nan_to_num(row[1])) % len(answers)])
    policy = Osml(Models(a=fake, a2=fake, c=None))
    time_s, state, partition, assignments, outcome = 5.0, None, None, [], None
    for seq, (services, interval_s, fate) in enumerate(steps):
        time_s += interval_s
        observation = Observation(
            "n",
            seq,
            time_s,
            interval_s,
            platform,
            services,
            partition=partition,
            assignments=assignments,
            policy_state=state,
            outcome=outcome,
        )
        decision = decide_by(policy, observation, seed=seed)
        assert decide_by(policy, observation, seed=seed) == decision
        names = [s.name for s in services]
        assert partition_error(decision.partition, platform, names) is None
        assert decision.reasons
        if decision.infeasible is None:
            for one in services:
                assert decision.partition.cores_of(one.name) >= min(one.min_cores, platform.cores)
                assert decision.partition.cores_of(one.name) <= (one.max_cores or platform.cores)
        state = decision.policy_state
        outcome = Outcome(seq, "refused" if fate == "refused" else "applied")
        if fate == "applied":
            partition, assignments = decision.partition, decision.assignments
        elif fate == "lost":
            partition, assignments = None, []


def test_the_state_travels_in_a_few_kilobytes() -> None:
    run = Run(Osml(needs(rate_10=3.0)))
    run(*(service(name, 1.2) for name in "abcdefgh"), times=40)
    assert len(run.decision.policy_state) < 16_000


def test_an_observation_of_jobs_alone_is_left_to_arqs_rules() -> None:
    decision = decide_by(Osml(needs(rate_10=3.0)), observe(job("x"), job("y")))
    assert "there is no LC service" in decision.reasons[0].text
