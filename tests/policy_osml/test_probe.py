"""The osml policy goes below the need, a unit at a time, where latency and CPU time allow it, and nowhere else."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.decide.state import open_state
from osml.domain import Counters, Service
from osml.policies.osml import Osml
from osml.policies.osml.answers.models import Models
from osml.policies.osml.facts import units
from osml.policies.osml.memory.state import Correction
from osml.policies.osml.settings import DEFAULT
from tests.kit.fake_models import PLATFORM, Fake, Run, job, needs, service


def using(name: str, cpus: float | None, ratio: float = 0.4, **more: Any) -> Service:
    return service(name, ratio, counters=Counters(cpu_usage_cores=cpus), **more)


def deep() -> Models:
    """Models by which everybody has an OAA of 8 cores and RCliff, at most, at 4."""
    fake: Any = Fake(lambda row: [3.5, 1.0, 8.0, 1.0, 1.0])
    return Models(a=fake, a2=fake)


def correction(run: Run, name: str = "a") -> Correction:
    state, why = open_state(run.decision.policy_state, run.policy)
    assert why is None
    return state.tracks[name].correction


def test_a_unit_at_a_time_down_to_the_bound_of_rcliff() -> None:
    run, seen = Run(Osml(deep())), []
    for _ in range(80):
        run(using("a", 1.0), using("b", 7.0))
        if not seen or seen[-1] != run.cores()["a"]:
            seen.append(run.cores()["a"])
    assert seen == [18, 8, 7, 6, 5, 4]
    assert run.cores()["b"] == 8  # 7 of 7 CPUs would be in use
    assert correction(run).cores == -4


NOT_SURE: dict[str, tuple[Service, Service]] = {
    "its CPUs would be in use": (using("a", 6.9), using("b", 1.0)),
    "the mean latency is near the target": (using("a", 1.0, 0.95), using("b", 1.0)),
    "a neighbour misses its target": (using("a", 1.0), using("b", 1.0, 1.02)),
    "a neighbour was not measured": (using("a", 1.0), replace(using("b", 1.0), latency=None)),
    "the operator gives it so much at least": (using("a", 1.0, min_cores=8), using("b", 1.0)),
}


@pytest.mark.parametrize("services", NOT_SURE.values(), ids=NOT_SURE.keys())
def test_one_witness_against_it_is_enough(services: tuple[Service, Service]) -> None:
    run = Run(Osml(deep()))
    run(using("a", 7.3), using("b", 7.3), times=4)
    assert run.cores()["a"] == 8
    run(*services, times=5)  # a mean latency follows within some intervals
    before = run.cores()["a"]
    run(*services, times=40)
    assert run.cores()["a"] >= before >= 7


def test_a_miss_takes_the_unit_back_and_it_is_not_tried_for_a_while() -> None:
    run = Run(Osml(deep()))
    while run.decision is None or run.cores()["a"] != 6:
        run(using("a", 1.0), using("b", 7.3))
    run(using("a", 1.0, 1.5), using("b", 7.3), times=2)
    assert run.cores()["a"] == 7
    assert correction(run).until_s >= run.seq + DEFAULT.retry_s
    run(using("a", 1.0), using("b", 7.3), times=int(DEFAULT.retry_s) - 20)
    assert run.cores()["a"] == 7
    run(using("a", 1.0), using("b", 7.3), times=40)
    assert run.cores()["a"] < 7


@pytest.mark.parametrize("company", ["comes", "goes", "has another load"])
def test_what_measurements_allowed_they_allowed_in_this_company(company: str) -> None:
    run = Run(Osml(deep()))
    mates = [using("b", 7.3), using("c", 7.3)]
    run(using("a", 1.0), *mates, times=50)
    assert run.cores()["a"] == 4
    assert correction(run).cores < 0
    changed = {
        "comes": [*mates, using("d", 1.0)],
        "goes": mates[:1],
        "has another load": [using("b", 7.3, rate=1e4), mates[1]],
    }[company]
    run(using("a", 1.0), *changed)
    assert correction(run).cores == 0


def test_a_load_that_rises_gives_the_units_back_before_a_target_is_missed_for_long() -> None:
    run = Run(Osml(needs(rate_1000=4.0, rate_5000=9.0)))
    run(using("a", 1.0, rate=1000.0), using("b", 3.9, rate=1000.0), times=20)
    assert run.cores()["a"] == 3
    run(using("a", 3.0, 1.2, rate=5000.0), using("b", 3.9, rate=1000.0))
    assert run.cores()["a"] >= 9


def test_a_job_gets_what_is_probed() -> None:
    run = Run(Osml(deep()))
    run(using("a", 1.0), using("b", 7.3), job(), times=60)
    assert run.cores() == {"a": 4, "b": 8, "job": 24}


def test_slices_of_cpu_time_are_given_one_at_a_time_too() -> None:
    run, seen = Run(Osml(deep()), replace(PLATFORM, cores=72, core_quantum=0.5)), []
    for _ in range(30):
        run(using("a", 1.0), using("b", 7.8))
        seen.append(run.cores()["a"])
    steps = [before - after for before, after in pairwise(seen[4:])]
    assert max(steps) == 1


@settings(deadline=None, max_examples=40)
@given(st.floats(0.0, 9.0), st.floats(0.05, 1.2), st.floats(0.0, 6.0), st.integers(2, 9))
def test_never_below_rcliff_and_never_against_a_witness(used: float, ratio: float, cliff: float, oaa: int) -> None:
    low = min(cliff, oaa - 0.5)
    fake: Any = Fake(lambda row: [low, 1.0, float(oaa), 1.0, 1.0])
    run = Run(Osml(Models(a=fake, a2=fake)))
    run(using("a", used, ratio), using("b", 5.0), times=40)
    cell = run.cores()["a"]
    if cell < oaa:
        assert ratio <= DEFAULT.close
        assert used <= DEFAULT.full * cell + 1e-9
        assert cell >= units(low + 0.5, 1.0, DEFAULT.round_bound)
