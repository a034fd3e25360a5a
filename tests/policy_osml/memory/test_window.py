"""Nothing is taken from a service for a while after its load fell, where no job could use it."""

from __future__ import annotations

from dataclasses import replace as replace_facts

import pytest
from msgspec.structs import replace

from osml.decide.state import open_state
from osml.domain import Service
from osml.policies.osml import Osml
from osml.policies.osml.memory.state import Track
from osml.policies.osml.settings import DEFAULT
from tests.kit.fake_models import Run, job, needs, service
from tests.kit.osml_facts import facts

MODELS = needs(rate_1000=12.0, rate_100=4.0)
WINDOW = int(DEFAULT.window_s)


def burst(run: Run, *others: Service) -> None:
    """A load of 1000 requests/s for a while, then 100."""
    run(service("a", rate=1000.0), service("b", rate=100.0), *others, times=20)
    assert run.cores()["a"] >= 12
    run(service("a", rate=100.0), service("b", rate=100.0), *others, times=10)


def test_a_cell_stays_for_the_window_after_its_load_fell_and_no_longer() -> None:
    run = Run(Osml(MODELS, without=["probe"]))
    burst(run)
    run(service("a", rate=100.0), service("b", rate=100.0), times=WINDOW - 15)
    assert run.cores()["a"] == 12
    run(service("a", rate=100.0), service("b", rate=100.0), times=30)
    assert run.cores()["a"] <= 6


def test_jobs_get_at_once_what_a_load_does_not_need_any_more() -> None:
    run = Run(Osml(MODELS, without=["probe"]))
    burst(run, job())
    assert run.cores()["a"] < 12


@pytest.mark.parametrize("by", [1000, -1000])
def test_a_clock_that_jumps_ends_the_window(by: int) -> None:
    run = Run(Osml(MODELS, without=["probe"]))
    run.seq = 2000  # its time follows
    burst(run)
    run.seq += by
    run(service("a", rate=100.0), service("b", rate=100.0), times=30)
    assert run.cores()["a"] <= 6


def test_what_drains_from_a_queue_of_the_start_is_no_load() -> None:
    run = Run(Osml(MODELS, without=["probe"]))
    run(service("a", rate=1000.0), service("b", rate=100.0), times=3)
    run(service("a", rate=100.0), service("b", rate=100.0), times=30)
    assert run.cores()["a"] <= 6


def test_a_burst_that_was_missed_counts_too() -> None:
    run = Run(Osml(MODELS, without=["probe"]))
    run(service("a", rate=100.0), service("b", rate=100.0), times=20)
    run(service("a", 1.2, rate=1000.0), service("b", rate=100.0), times=6)
    held = run.cores()["a"]
    run(service("a", rate=100.0), service("b", rate=100.0), times=WINDOW - 5)
    assert run.cores()["a"] == held
    run(service("a", rate=100.0), service("b", rate=100.0), times=30)
    assert run.cores()["a"] < held


def test_another_target_starts_no_window_and_ends_none() -> None:
    run = Run(Osml(MODELS, without=["probe"]))
    run(service("a", rate=1000.0), service("b", rate=100.0), times=20)
    tracks = facts_after(run, replace(service("a", rate=999.0), target_ms=11.0))
    assert tracks["a"].fell_s is None
    burst(run)
    fell_s = facts_after(run, service("a", rate=100.0))["a"].fell_s
    assert fell_s is not None
    assert facts_after(run, replace(service("a", rate=100.0), target_ms=11.0))["a"].fell_s == fell_s


def facts_after(run: Run, a: Service) -> dict[str, Track]:
    run(a, service("b", rate=100.0))
    state, why = open_state(run.decision.policy_state, run.policy)
    assert why is None
    return state.tracks


def test_who_is_set_aside_gets_at_once_what_a_load_does_not_need_any_more() -> None:
    seen = facts(service("a", 0.3), service("b", 3.0), cells={"a": (30, 10), "b": (6, 10)})
    seen.tracks["a"] = replace(seen.tracks["a"], fell_s=seen.observation.time_s - 1.0)
    assert seen.in_window("a")
    assert not replace_facts(seen, set_aside=["b"]).in_window("a")
