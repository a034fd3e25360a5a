"""The osml policy goes a core below the OAA where every witness agrees, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.domain import Counters, Service
from osml.policies.osml import Osml
from osml.policies.osml.answers.models import Models
from osml.policies.osml.cliff_shield import units
from osml.policies.osml.steps.below_oaa import BUSY, FAR_BELOW
from tests.kit.fake_models import PLATFORM, Fake, Run, job, needs, service

WHY = "one core below the OAA is enough"


def using(name: str, cpus: float | None, ratio: float = 0.4, **more: Any) -> Service:
    return service(name, ratio, counters=Counters(cpu_usage_cores=cpus), **more)


def _said(run: Run, *services: Service, times: int) -> list[str]:
    found: list[str] = []
    for _ in range(times):
        run(*services)
        found += [reason.text for reason in run.decision.reasons if WHY in reason.text]
    return found


def test_one_core_below_the_oaa_and_no_more_where_it_is_used_little_and_the_tail_is_far_below_the_target() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    said = _said(run, using("a", 1.0), using("b", 2.0), times=10)
    assert run.cores() == {"a": 4, "b": 4}  # it takes eight quiet intervals in that cell
    assert said == []
    said = _said(run, using("a", 1.0), using("b", 2.0), times=60)
    assert run.cores() == {"a": 3, "b": 4}
    assert len(said) == 1
    assert "a changes by -1 cores" in said[0]
    assert "1.0 CPUs are used" in said[0]


NOT_SURE: dict[str, tuple[Service, Service]] = {
    "CPU use is not measured": (using("a", None), using("b", 2.0)),
    "half of the CPUs would be used": (using("a", 1.5), using("b", 2.0)),
    "the tail is near its cliff": (using("a", 1.0, 0.65), using("b", 2.0)),
    "a neighbour was not measured": (using("a", 1.0), replace(using("b", 2.0), latency=None)),
    "the operator gives it so much at least": (using("a", 1.0, min_cores=4), using("b", 2.0)),
}


@pytest.mark.parametrize("services", NOT_SURE.values(), ids=NOT_SURE.keys())
def test_one_witness_against_it_is_enough(services: tuple[Service, Service]) -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(using("a", 1.5), using("b", 2.0), times=5)
    assert _said(run, *services, times=40) == []
    assert run.cores()["a"] == 4


def test_the_bound_of_rcliff_is_not_crossed() -> None:
    fake: Any = Fake(lambda row: [3.2, 1.0, 4.0, 1.0, 1.0])  # with its margin 3.7 cores
    run = Run(Osml(Models(a=fake, a2=fake)))
    assert _said(run, using("a", 0.5), using("b", 0.5), times=40) == []
    assert run.cores() == {"a": 4, "b": 4}


def test_a_neighbour_that_misses_its_target_now_and_then_leaves_no_quiet() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(using("a", 1.0), using("b", 2.0), times=5)
    for _ in range(8):
        run(using("a", 1.0), using("b", 2.0, 1.05), times=1)
        run(using("a", 1.0), using("b", 2.0), times=5)
    assert run.cores()["a"] == 4


def test_a_miss_takes_the_core_back_and_the_smaller_cell_is_not_tried_again() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(using("a", 1.0), using("b", 2.0), times=20)
    assert run.cores()["a"] == 3
    run(using("a", 1.0, 1.5), using("b", 2.0), times=2)
    assert run.cores()["a"] == 4
    run(using("a", 1.0), using("b", 2.0), times=60)
    assert run.cores()["a"] == 4


def test_a_load_that_rises_gives_the_core_back_before_a_target_is_missed() -> None:
    run = Run(Osml(needs(rate_1000=4.0, rate_5000=9.0)))
    run(using("a", 1.0, rate=1000.0), using("b", 2.0, rate=1000.0), times=20)
    assert run.cores()["a"] == 3
    run(using("a", 3.0, rate=5000.0), using("b", 2.0, rate=1000.0))
    assert run.cores()["a"] == 9


@pytest.mark.parametrize(("neighbour", "cores"), [(0.5, 3), (0.75, 4)])
def test_a_job_gets_the_core_where_nobody_is_near_its_target(neighbour: float, cores: int) -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(using("a", 1.5), using("b", 2.0), job(), times=15)
    run(using("a", 1.0), using("b", 2.0, neighbour), job(), times=40)
    assert run.cores() == {"a": cores, "b": 4, "job": 32 - cores}


def test_no_core_is_given_for_jobs_that_run_behind_the_services_anyway() -> None:
    run = Run(Osml(needs(rate_10=4.0)), replace(PLATFORM, realtime=True))
    assert _said(run, using("a", 0.5), using("b", 0.5), job(), times=40) == []


def test_slices_of_cpu_time_are_given_one_at_a_time_too() -> None:
    slices = replace(PLATFORM, cores=72, core_quantum=0.5)
    run = Run(Osml(needs(rate_10=4.0)), slices)
    run(using("a", 1.0), using("b", 2.0), times=60)
    assert run.cores() == {"a": 7, "b": 8}


@settings(deadline=None, max_examples=40)
@given(st.floats(0.0, 6.0), st.floats(0.05, 0.95), st.floats(0.0, 6.0), st.integers(2, 9))
def test_never_more_than_one_core_and_never_against_a_witness(
    used: float, ratio: float, cliff: float, oaa: int
) -> None:
    fake: Any = Fake(lambda row: [min(cliff, oaa - 0.5), 1.0, float(oaa), 1.0, 1.0])
    run = Run(Osml(Models(a=fake, a2=fake)))
    run(using("a", used, ratio), using("b", 5.0), times=30)
    cell = run.cores()["a"]
    if cell < oaa:
        assert cell == oaa - 1
        assert used <= BUSY * cell + 1e-9
        assert ratio < FAR_BELOW
        assert cell >= units(min(cliff, oaa - 0.5) + 0.5, 1.0)
