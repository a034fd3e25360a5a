"""Waits beyond saturation beside the distribution of reflected Brownian motion, and beside each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

from osml.simulator.queueing.distribution import normal_tail
from osml.simulator.queueing.overload import (
    longest_wait,
    positive_mean,
    reflected_mean,
    reflected_quantile,
    spread_wait,
)
from osml.simulator.queueing.transient import young_level

BACKLOGS = (0.0, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0)
ALL = math.nan
"""The score of no queue: all that could be."""


def exceeded(queue: float, backlog: float) -> float:
    """P(queue > this), begun empty with a mean of `backlog` deviations (Harrison 1985, section 1.8)."""
    return normal_tail(queue - backlog) + math.exp(2.0 * backlog * queue) * normal_tail(queue + backlog)


@pytest.mark.parametrize("backlog", BACKLOGS)
def test_mean_is_that_of_the_distribution(backlog: float) -> None:
    at = np.linspace(0.0, backlog + 8.0, 20_001)
    tail = np.array([exceeded(float(x), backlog) for x in at])
    area = float(((tail[1:] + tail[:-1]) / 2.0 * np.diff(at)).sum())
    assert reflected_mean(backlog) == pytest.approx(area, rel=1e-5)


@pytest.mark.parametrize("backlog", BACKLOGS)
@pytest.mark.parametrize("score", [0.0, 1.0, 1.6449, 2.3263])
def test_quantile_is_close_to_that_of_the_distribution(backlog: float, score: float) -> None:
    low, high = 0.0, backlog + 8.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exceeded(middle, backlog) > normal_tail(score) else (low, middle)
    assert reflected_quantile(backlog, score) == pytest.approx(low, rel=0.035 if score < 1.0 else 0.011)


@pytest.mark.parametrize("score", [-8.0, -3.0, 0.0, 3.0, 8.0, 30.0])
def test_quantiles_are_numbers_however_rare(score: float) -> None:
    for backlog in BACKLOGS:
        assert 0.0 <= reflected_quantile(backlog, score) < math.inf


def test_the_positive_part_of_a_normal_number() -> None:
    drawn = np.random.default_rng(1).standard_normal(1_000_000)
    for backlog in (-1.0, 0.0, 2.0):
        assert positive_mean(backlog) == pytest.approx(np.maximum(drawn + backlog, 0.0).mean(), abs=5e-3)
    assert positive_mean(-50.0) == 0.0
    assert positive_mean(50.0) == pytest.approx(50.0)


@pytest.mark.parametrize("growing", [True, False])
def test_without_spread_a_wait_is_the_backlog(growing: bool) -> None:
    assert spread_wait(100.0, 10.0, 1.0, growing, 0.0, 0.0, 1.0, ALL) == pytest.approx((100.0, 110.0), rel=1e-6)


def test_more_backlog_and_more_spread_wait_longer() -> None:
    for growing in (True, False):
        grid = np.array(
            [
                [spread_wait(middle, 5.0, 1.0, growing, spread, 10.0, 1.0, ALL) for spread in (1.0, 1e2, 1e4)]
                for middle in (0.0, 10.0, 100.0)
            ]
        )
        assert (np.diff(grid, axis=0) > 0.0).all()
        assert (np.diff(grid, axis=1) >= 0.0).all()


@pytest.mark.parametrize("growing", [True, False])
def test_single_queues_are_together_all_that_could_be(growing: bool) -> None:
    rng = np.random.default_rng(2)
    means = [spread_wait(50.0, 1.0, 1.0, growing, 900.0, 10.0, 1.0, float(x))[0] for x in rng.standard_normal(20_000)]
    mean, p99 = spread_wait(50.0, 1.0, 1.0, growing, 900.0, 10.0, 1.0, ALL)
    assert np.mean(means) == pytest.approx(mean, rel=0.05)
    assert np.quantile(means, 0.99) == pytest.approx(p99, rel=0.03)


def test_a_young_queue_has_no_longer_tail_than_at_saturation() -> None:
    assert longest_wait(4.0) == pytest.approx(2.0 * 2.5758, rel=1e-4)
    assert young_level(0.5, 10.0, 100.0) == 0.0  # 39 by itself
    level = young_level(0.5, 10.0, 20.0)
    assert level * 5.0 + (1.0 - level) * 10.0 * math.log(50.0) == pytest.approx(20.0)
    assert young_level(0.5, 10.0, 1.0) == 1.0
    assert young_level(0.005, 10.0, 0.0) == 0.0
