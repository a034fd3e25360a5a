"""The osml policy where all needs fit: who gets how much, who comes and goes, what is taken back (algorithms 1, 3)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from osml.domain import Counters, MbaRange, Partition, Platform, Region
from osml.policies.osml import Osml
from osml.policies.osml.answers.models import Models
from tests.kit.fake_models import FEATURES, PLATFORM, Fake, Run, job, metadata, needs, observe, service


def cells(**cores: float) -> Osml:
    """The policy without steps below the need."""
    return Osml(needs(**cores), without=["probe"])


def test_the_first_decision_gives_everybody_its_need_and_what_is_left_in_proportion() -> None:
    run = Run(cells(rate_10=4.0, rate_50=8.0))
    decision = run(service("a"), service("b", rate=50.0))
    assert run.cores() == {"a": 12, "b": 24}
    assert decision.infeasible is None
    assert "a gets 12 cores and 10 ways, it needs 4 and 1: " in run.words()
    assert [forecast.oaa.cores for forecast in decision.forecasts] == [4.0, 8.0]
    assert decision.forecasts[0].rcliff_upper.cores == 3.5  # point + upper factor x spread


def test_who_shares_cores_under_another_policy_gets_its_need_not_what_is_its_own_there() -> None:
    run = Run(cells(rate_10=8.0))
    under_arq = Partition([Region(["a"], 1, 1), Region(["b"], 1, 1), Region(["a", "b", "job"], 34, 18)])
    run(service("a"), service("b"), job(), partition=under_arq)
    assert min(run.cores()[name] for name in "ab") >= 8


def test_what_jobs_have_is_not_called_idle() -> None:
    run = Run(cells(rate_10=4.0))
    run(service("a"), job(), times=20)
    assert "32 cores and 2 ways are for the jobs" in run.words()


def test_where_the_cache_has_no_ways_no_reason_speaks_of_them() -> None:
    run = Run(cells(rate_10=4.0, rate_50=8.0), replace(PLATFORM, ways=None))
    said: list[str] = []
    for rate in (50.0, 10.0, 50.0):
        for _ in range(20):
            run(service("a"), service("b", rate=rate), job())
            said += run.words().split(" | ")
    assert any(text.startswith("a gets ") for text in said)
    assert any(" changes by " in text for text in said)
    assert any(text.startswith("no change: ") for text in said)
    assert [text for text in said if "way" in text] == []


def test_ways_that_can_not_be_divided_are_told() -> None:
    run = Run(cells(rate_10=4.0), replace(PLATFORM, max_groups=3))
    decision = run(service("a"), service("b"), service("c"))
    assert decision.infeasible is not None
    assert decision.infeasible.message == (
        "3 services need one cache group each, but only 2 are free; all services share the ways"
    )


def test_when_all_is_calm_everybody_goes_to_the_oaa_in_one_step() -> None:
    run = Run(cells(rate_10=4.0, rate_50=8.0))
    run(service("a"), service("b", rate=50.0), times=4)
    assert run.cores() == {"a": 4, "b": 8}
    before = run.decision.partition
    run(service("a"), service("b", rate=50.0), times=30)
    assert run.decision.partition == before


def test_best_effort_jobs_get_all_that_is_left() -> None:
    run = Run(cells(rate_10=4.0))
    run(service("a"), service("b"), job(), times=20)
    assert run.cores() == {"a": 4, "b": 4, "job": 28}


def test_what_jobs_get_is_given_half_of_the_way_at_a_time_and_predicted_anew_each_time() -> None:
    """A' that sees the job as it is: the more CPUs the job has, the more a service needs."""
    features = (*FEATURES, "neighbour_cores")
    fake: Any = Fake(lambda row: [3.0, 1.0, 4.0 + 0.25 * (row[4] - 18.0), 1.0, 1.0], metadata(features=features))
    run = Run(Osml(Models(a=fake, a2=fake), without=["probe"]))
    jobs: list[int] = []
    for _ in range(30):
        run(service("a"), job())
        if not jobs or run.cores()["job"] != jobs[-1]:
            jobs.append(run.cores()["job"])
    steps = [after - before for before, after in pairwise(jobs)]
    assert len(steps) > 2
    assert steps[0] <= (36 - jobs[0]) // 2 + 1
    need = 4.0 + 0.25 * (run.cores()["job"] - 18.0)
    assert need - 1.0 <= run.cores()["a"] <= need + 1.5


def test_a_service_close_to_its_target_gives_nothing_more_whatever_is_predicted() -> None:
    cores = [8.0]
    fake: Any = Fake(lambda row: [cores[0] - 1.0, 1.0, cores[0], 1.0, 1.0])
    run = Run(Osml(Models(a=fake, a2=fake), without=["probe"]))
    run(service("a"), service("b"), times=6)
    cores[0] = 4.0
    run(service("a", 0.95), service("b"), times=40)
    assert run.cores()["a"] >= 7  # at most one step, while the mean latency was still low
    run(service("a", 0.5), service("b"), times=60)
    assert run.cores()["a"] < 7


def test_a_newcomer_gets_its_need_out_of_what_is_idle() -> None:
    run = Run(cells(rate_10=4.0))
    run(service("a"), service("b"), times=5)
    run(service("a"), service("b"), service("c"))
    assert min(run.cores().values()) >= 4
    assert "c is new here" in run.words()
    run(service("a"), service("b"), service("c"), times=5)
    assert run.cores() == {"a": 4, "b": 4, "c": 4}


@pytest.mark.parametrize("need", [4.0, 18.0, 30.0])
@pytest.mark.parametrize("most", [None, 20])
def test_a_newcomer_leaves_nobody_without_a_core(need: float, most: int | None) -> None:
    run = Run(cells(rate_10=need))
    run(service("a", max_cores=most), service("b"), times=6)
    for _ in range(4):
        run(service("a", max_cores=most), service("b"), service("c"), service("d"))
        assert set(run.cores()) == {"a", "b", "c", "d"}
        assert min(run.cores().values()) >= 1
        assert run.cores()["a"] <= (most or 36)


def test_who_comes_back_under_its_old_name_is_new() -> None:
    run = Run(cells(rate_10=4.0))
    run(service("a"), service("b"), times=6)
    run(service("a", 3.0), service("b"), times=3)
    assert run.cores()["a"] > 4
    run(service("b"), times=6)
    assert run.cores() == {"b": 4}
    run(service("a"), service("b"))
    assert "a is new here" in run.words()
    run(service("a"), service("b"), times=5)
    assert run.cores() == {"a": 4, "b": 4}  # what its predecessor missed is forgotten


def test_a_service_that_becomes_a_job_is_one() -> None:
    run = Run(cells(rate_10=4.0))
    run(service("a"), service("b"), times=5)
    run(service("a"), job("b"), times=20)
    assert run.cores() == {"a": 4, "b": 32}


@pytest.mark.parametrize("ratio", [0.8, 20.0])
def test_a_load_that_rises_while_somebody_comes_is_answered_with_it(ratio: float) -> None:
    run = Run(cells(rate_1000=4.0, rate_5000=7.0, rate_50=20.0, rate_90=8.0))
    run(service("a", rate=1000.0), service("b", rate=50.0), times=6)
    assert run.cores() == {"a": 4, "b": 20}
    run(service("a", ratio, rate=5000.0), service("b", rate=50.0), service("c", rate=90.0))
    assert run.cores()["a"] >= 7
    assert run.cores()["b"] >= 20
    assert run.cores()["c"] >= 8


def test_who_has_gone_leaves_its_part() -> None:
    run = Run(cells(rate_10=4.0))
    run(service("a"), service("b"), service("c"), times=5)
    run(service("a"), service("c"))
    assert run.cores() == {"a": 4, "c": 4}
    assert "b is no longer here" in run.words()


@pytest.mark.parametrize("count", [1, 8])
def test_one_service_and_eight(count: int) -> None:
    run = Run(cells(rate_10=3.0))
    run(*(service(name) for name in "abcdefgh"[:count]), times=6)
    assert set(run.cores().values()) == ({3} if count == 1 else {3, 36} & set(run.cores().values()))


def test_intervals_without_latency_change_nothing() -> None:
    run = Run(cells(rate_10=4.0))
    run(service("a"), service("b"), times=5)
    before = run.decision.partition
    run(*(service(name, None, counters=Counters()) for name in "ab"), times=5)
    assert run.decision.partition == before


def test_operators_limits_hold() -> None:
    run = Run(cells(rate_10=4.0))
    run(service("a", min_cores=6), service("b", max_cores=2), times=6)
    assert run.cores() == {"a": 6, "b": 2}


def test_slices_of_cpu_time_are_units_and_a_cache_that_can_not_be_parted_is_left_alone() -> None:
    run = Run(cells(rate_10=2.5), Platform("p", 80, "0-7", core_quantum=0.1))
    run(service("a"), service("b"), times=6)
    assert run.cores() == {"a": 25, "b": 25}


def test_cells_that_give_way_to_the_minimum_of_a_job_say_so() -> None:
    run = Run(cells(rate_10=16.0))
    run(service("a"), service("b"), times=6)
    run(service("a"), service("b"), replace(job(), min_cores=20))
    assert run.cores() == {"a": 8, "b": 8, "job": 20}
    assert "a changes by -8 cores and +0 ways: the limits or the BE jobs changed" in run.words()


def test_a_partition_of_somebody_else_is_no_obstacle() -> None:
    run = Run(cells(rate_10=4.0))
    odd = Partition([Region(["a", "b"], 3, 2), Region(["a"], 5, 5), Region(["b"], 5, 5)])
    run(service("a"), service("b"), partition=odd)
    assert run.cores()["a"] >= 4


def test_bandwidth_is_split_by_predicted_need_where_the_platform_throttles_it() -> None:
    run = Run(cells(rate_10=4.0, rate_50=12.0), replace(PLATFORM, mba=MbaRange(10, 100, 10)))
    decision = run(service("a"), service("b", rate=50.0), job())
    assert decision.partition.mba == {"a": 30, "b": 80, "job": 70}  # 25, 75 % up; 76.8 - 1.2 x 16 GB/s, down


def test_nothing_is_observed_of_a_node_without_a_partition_twice() -> None:
    """The same question has the same answer, whoever asked first: what is kept of nodes is no memory."""
    policy = cells(rate_10=4.0)
    first = policy.decide(observe(service("a")), policy.initial(observe(service("a")), 0))
    policy.decide(observe(service("a", max_cores=2)), policy.initial(observe(), 0))
    assert policy.decide(observe(service("a")), policy.initial(observe(service("a")), 0)) == first


def test_each_cell_that_changes_for_a_newcomer_has_its_reason() -> None:
    run = Run(Osml(needs(rate_10=4.0, rate_50=8.0)))
    run(service("a"), times=8)
    before = run.cores()["a"]
    decision = run(service("a"), service("b", rate=50.0))
    assert run.cores()["a"] != before
    assert {"a", "b"} <= {reason.service for reason in decision.reasons if reason.change}
