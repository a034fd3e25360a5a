"""Nothing is taken from a service for a while after its load fell, where no job could use it."""

from __future__ import annotations

import pytest

from osml.domain import Service
from osml.policies.osml import Osml
from osml.policies.osml.settings import DEFAULT
from tests.kit.fake_models import Run, job, needs, service

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
