"""Whatever platform, services, models and outcomes are: each decision of the osml policy is legal and repeatable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.allocation.apart import JOB_WAYS
from osml.decide.decide import decide_by
from osml.domain import Counters, Observation, Outcome, Platform, Service, partition_error
from osml.policies.osml import Osml, OsmlFormula
from osml.policies.osml.answers.models import Models
from osml.policies.osml.node import node_of
from tests.kit.fake_models import PLATFORM, Fake, Run, job, needs, observe, service
from tests.kit.strategies import platforms, tenants

FATES = ["applied", "refused", "rolled_back", "lost"]


def _within_limits(decision: Any, services: list[Service], platform: Platform) -> None:
    """The operator's limits of cores hold wherever the scheduler above is not told that the node lacks something."""
    if decision.infeasible is None:
        for one in services:
            cores = decision.partition.cores_of(one.name)
            assert cores >= min(one.min_cores, platform.cores)
            assert one.kind == "be" or cores <= (one.max_cores or platform.cores)


@settings(max_examples=150, deadline=None)
@given(
    platforms,
    st.lists(st.tuples(tenants(), st.floats(0.1, 40), st.sampled_from(FATES)), min_size=1, max_size=8),
    st.lists(st.lists(st.floats(0, 20), min_size=5, max_size=5), min_size=1, max_size=4),
    st.booleans(),
)
def test_every_decision_is_legal_and_repeats_itself_whatever_the_models_say(
    platform: Platform, steps: list[Any], answers: list[list[float]], modelled: bool
) -> None:
    fake: Any = Fake(lambda row: answers[int(np.nan_to_num(row[1])) % len(answers)])
    policy = Osml(Models(a=fake, a2=fake)) if modelled else OsmlFormula(Models())
    time_s, state, partition, assignments, outcome = 5.0, None, None, [], None
    for seq, (services, interval_s, fate) in enumerate(steps):
        time_s += interval_s
        observation = Observation(
            "n", seq, time_s, interval_s, platform, services, partition=partition, assignments=assignments,
            policy_state=state, outcome=outcome,
        )  # fmt: skip
        decision = decide_by(policy, observation)
        assert decide_by(policy, observation) == decision
        assert partition_error(decision.partition, platform, [s.name for s in services]) is None
        assert decision.reasons
        _within_limits(decision, services, platform)
        state = decision.policy_state
        outcome = Outcome(seq, fate if fate in ("refused", "rolled_back") else "applied")
        if fate == "applied":
            partition, assignments = decision.partition, decision.assignments
        elif fate == "lost":
            partition, assignments = None, []


@settings(max_examples=60, deadline=None)
@given(platforms, tenants(), st.floats(0, 40))
def test_at_constant_load_limits_hold_for_every_service_that_has_a_cell(
    platform: Platform, services: list[Service], need: float
) -> None:
    fake: Any = Fake(lambda row: [max(0.0, need - 1.0), 1.0, need, 1.0, 1.0])
    run = Run(Osml(Models(a=fake, a2=fake)), platform)
    for _ in range(12):
        decision = run(*services)
        assert partition_error(decision.partition, platform, [s.name for s in services]) is None
        _within_limits(decision, services, platform)
        node = node_of(observe(*services, platform=platform))
        for region in decision.partition.regions:
            if node.obstacle is None and len(region.owners) == 1 and region.cores:
                name = region.owners[0]
                assert node.leasts[name].cores <= region.cores <= node.mosts[name].cores


@pytest.mark.parametrize("cpus", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_more_services_than_cpus_share_them_and_the_scheduler_above_hears_it(cpus: int, count: int) -> None:
    platform = replace(PLATFORM, cores=cpus, cpus=f"0-{cpus - 1}" if cpus > 1 else "0")
    run = Run(Osml(needs(rate_10=1.0)), platform)
    services = [service(name) for name in "abcde"[:count]]
    run(*services, job(), times=5)
    assert min(run.cores().values()) >= 1
    assert run.cores()["a"] >= cpus - 1 or count + 1 <= cpus
    assert (run.decision.infeasible is not None) == (count + 1 > cpus)
    if run.decision.infeasible is not None:
        assert run.decision.infeasible.services == [one.name for one in services]


def test_minimums_that_do_not_fit_are_ignored_and_reported() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    decision = run(service("a", min_cores=20), service("b", min_cores=10), replace(job(), min_cores=10), times=3)
    assert decision.infeasible.services == ["a", "b"]
    assert "don't fit" in decision.infeasible.message
    assert run.cores() == {"a": 26, "b": 26, "job": 10}


def test_where_services_are_too_many_their_minimums_come_before_those_of_jobs() -> None:
    platform = replace(PLATFORM, cores=10, cpus="0-9")
    run = Run(Osml(needs(rate_10=1.0)), platform)
    run(*(service(f"s{k}", min_cores=3 if k == 5 else 1) for k in range(12)), replace(job(), min_cores=9))
    assert run.cores()["s5"] == 3
    assert run.cores()["job"] == 7


def test_where_a_maximum_is_below_the_node_nobody_shares_all_of_it_though_needs_do_not_fit() -> None:
    run = Run(Osml(needs(rate_10=20.0)))
    for ratio in (0.5, 0.5, 1.5, 2.0, 3.0, 0.5, 0.5):
        run(service("a", ratio, max_cores=10), service("b", ratio), service("c", ratio), times=6)
        assert run.cores()["a"] <= 10
        assert run.decision.infeasible is not None or ratio < 3.0
    assert run.decision.infeasible is None  # though one is set aside: it meets its target


def test_maximums_that_leave_room_for_jobs_only_are_no_reason_not_to_share() -> None:
    run = Run(Osml(needs(rate_10=20.0)))
    run(service("a", 1.2, max_cores=35, max_ways=18), service("b", 1.2), job())
    assert run.cores() == {"a": 35, "b": 35, "job": 1}


@pytest.mark.parametrize("services", [7, 15])
def test_jobs_keep_a_few_ways_and_every_service_one(services: int) -> None:
    """16 ways and 15 services: two ways for the jobs would leave somebody none."""
    platform = replace(PLATFORM, ways=16)
    run = Run(Osml(needs(rate_10=1.0)), platform)
    run(*(service(name) for name in "abcdefghijklmno"[:services]), job(), times=3)
    partition = run.decision.partition
    assert partition.ways_of("job") >= min(JOB_WAYS, 16 - services)
    assert partition.ways <= 16
    assert len(partition.regions) == services + 1


def test_jobs_do_not_get_more_cache_than_the_operator_lets_them_where_the_cache_is_common() -> None:
    run = Run(Osml(needs(rate_10=4.0)), replace(PLATFORM, max_groups=3))
    run(service("a"), service("b"), replace(job(), max_ways=1), times=4)
    assert run.decision.partition.ways_of("job") == 1
    assert run.decision.partition.ways_of("a") == run.decision.partition.ways_of("b") == 19


@pytest.mark.parametrize(("max_groups", "own"), [(4, True), (3, False), (2, False), (1, False)])
def test_few_cache_groups_leave_cells_of_cores(max_groups: int, own: bool) -> None:
    run = Run(Osml(needs(rate_10=4.0), without=["probe"]), replace(PLATFORM, max_groups=max_groups))
    run(service("a"), service("b"), job(), times=20)
    assert {name: run.cores()[name] for name in "ab"} == {"a": 4, "b": 4}
    regions = [region for region in run.decision.partition.regions if region.ways and "a" in region.owners]
    assert (regions[0].owners == ["a"]) == own


def test_thirty_services_have_a_core_each_and_a_state_of_a_few_kilobytes() -> None:
    run = Run(Osml(needs(rate_10=1.0, rate_50=3.0)), replace(PLATFORM, max_groups=16))
    many = [service(f"s{k:02}", 1.4 if k % 7 == 0 else 0.5, 50.0 if k % 5 == 0 else 10.0) for k in range(30)]
    for _ in range(25):
        run(*many)
        assert min(run.cores().values()) >= 1
    assert len(run.decision.policy_state) < 40_000


def test_an_observation_without_services_or_with_jobs_alone_is_decided_on() -> None:
    policy = Osml(needs(rate_10=3.0))
    assert decide_by(policy, observe()).partition.regions == []
    decision = decide_by(policy, observe(job("x"), job("y")))
    assert "there is no LC service" in decision.reasons[0].text
    assert decision.partition.cores_of("x") == decision.partition.cores_of("y") == 36
    assert decision.infeasible is None


odd = st.one_of(st.none(), st.sampled_from([0.0, -1.0, 1e9, 1e300, float("nan"), float("inf"), -float("inf")]))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(odd, odd, odd), min_size=2, max_size=8), st.booleans())
def test_counters_and_rates_that_are_no_amounts_are_decided_on(amounts: list[Any], modelled: bool) -> None:
    run = Run(Osml(needs(rate_10=4.0)) if modelled else OsmlFormula(Models()))
    for used, rate, ipc in amounts:
        one = service("a", counters=Counters(cpu_usage_cores=used, ipc=ipc))
        run(replace(one, latency=replace(one.latency, requests_per_s=rate)), service("b"), job())
        assert run.cores()["a"] >= 1


def test_jobs_alone_have_parts_of_their_own_where_their_limits_contradict() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    decision = run(replace(job("a"), min_cores=2), replace(job("b"), max_cores=1))
    assert decision.infeasible is None
    assert run.cores() == {"a": 35, "b": 1}


def test_no_cpu_is_idle_where_one_of_the_jobs_alone_has_a_maximum() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(replace(job("a"), max_cores=3), job("b"))
    assert run.cores() == {"a": 3, "b": 33}
