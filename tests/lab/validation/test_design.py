"""Which cells a validation has, and what the service can do in each."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from pathlib import Path

import pytest

from osml.base.failure import Failure, InputError
from osml.lab.trials.live.jobs import job_named, jobs
from osml.lab.trials.live.services import service_named, services
from osml.lab.validation import curve as curves
from osml.lab.validation import design
from osml.lab.validation.cells import Cell, Measured
from osml.lab.validation.curve import STEPS, knee, rising
from osml.lab.validation.stage import Load, Quiet
from osml.lab.validation.statistics import order_interval, quantiles_of

WORK = dict.fromkeys(services(), 0.3)


def test_lab_has_the_papers_services_and_finds_each_by_its_file() -> None:
    assert {"redis", "memcached", "nginx", "mariadb", "node", "search", "speech", "image"} <= set(services())
    assert {"stress", "stress-stream", "triad", "xz", "compiler"} <= set(jobs())
    with pytest.raises(InputError, match="service 'mongo' is unknown, expected one of image, mariadb"):
        service_named("mongo")
    with pytest.raises(InputError, match="job 'sleep' is unknown"):
        job_named("sleep")


def test_same_seed_draws_the_same_cells_and_none_is_a_calibration_cell() -> None:
    chosen = list(services().values())
    drawn = design.drawn_cells(chosen, WORK, WORK, 20, 3, 5)
    assert drawn == design.drawn_cells(chosen, WORK, WORK, 20, 3, 5)
    assert drawn != design.drawn_cells(chosen, WORK, WORK, 20, 3, 6)
    margin, held_out, fit = (
        {cell.key for cell in cells}
        for cells in (*drawn, [cell for service in chosen for cell in design.fit_cells(service, 0.3)])
    )
    assert len(held_out) == len(drawn.held_out) == 23 * len(chosen)
    assert len(margin) == len(drawn.margin) == (design.MARGIN + design.MARGIN_SATURATED) * len(chosen)
    assert not (margin & held_out or margin & fit or held_out & fit)


def test_margin_cells_are_of_the_same_kinds_as_the_held_out_ones() -> None:
    """Else the promise of the intervals does not hold: split conformal prediction takes both for one draw."""
    draws = [design.drawn_cells(list(services().values()), WORK, WORK, 20, 3, seed) for seed in range(12)]
    for kind in ("load", "company", "cpus", "quota"):
        shares = [
            Counter(str(getattr(cell, kind)).split(":")[0] for cells in (one[part] for one in draws) for cell in cells)
            for part in (0, 1)
        ]
        for value, count in shares[1].items():
            expected = count / shares[1].total()
            assert shares[0][value] / shares[0].total() == pytest.approx(expected, abs=0.1), (kind, value)


def test_no_cell_asks_more_of_the_generator_than_it_can_do() -> None:
    chosen = list(services().values())
    for work in (0.02, 0.3, 18.0):
        works, busy = dict.fromkeys(services(), work), dict.fromkeys(services(), 0.7 * work)
        for cell in (cell for cells in design.drawn_cells(chosen, works, busy, 30, 5, 1) for cell in cells):
            rate = design.rate_of(cell, service_named(cell.service).threads, 0.7 * work)
            assert rate <= (20_000.0 if cell.saturated and cell.cpus == 1 else 8000.0)


@pytest.mark.parametrize(
    ("cell", "threads", "cpus"),
    [
        (Cell("s", 2, None, 0.5), 1, 1.0),
        (Cell("s", 2, None, 0.5), 4, 2.0),
        (Cell("s", 1, None, 0.5), 4, 1.0),
        (Cell("s", 2, 0.3, 0.5), 4, 0.3),
        (Cell("s", 1, None, 0.5, "stress", 1.0), 1, 0.5),
        (Cell("s", 1, None, 0.5, "stress", 0.25), 1, 0.8),
        (Cell("s", 2, None, 0.5, "stress", 1.0), 1, 2.0 / 3.0),
        (Cell("s", 2, None, 0.5, "stress", 1.0), 4, 1.0),
        (Cell("s", 1, None, 0.5, "stress", 1.0, "idle"), 1, 1024.0 / 1027.0),
        (Cell("s", 2, None, 0.5, "service:x"), 1, 1.0),
        (Cell("s", 2, None, 0.5, "service:x"), 4, 1.75),
        (Cell("s", 1, None, 0.5, "service:x"), 4, 0.75),
    ],
)
def test_capacity_is_quota_threads_and_share_of_the_weights(cell: Cell, threads: int, cpus: float) -> None:
    assert design.capacity(cell, threads) == pytest.approx(cpus)


def test_quotas_are_at_least_the_kernels_millisecond_a_period() -> None:
    for service in services().values():
        for work in (0.01, 0.1, 1.0, 30.0):
            tight, wide = design.quotas_of(service, work)
            assert 0.1 <= tight <= wide <= 1.2


def test_knee_is_where_the_curve_turns_up() -> None:
    rates = [float(rate) for rate in range(1, 11)]
    assert knee(rates, [1.0] * 7 + [1.5, 8.0, 40.0]) == 7
    assert knee(rates, [1.0] * 10) == 9


def test_a_cold_first_point_is_neither_the_ideal_nor_hides_the_knee() -> None:
    seen = [1.36, 0.25, 0.26, 0.28, 0.30, 0.33, 0.4, 0.6, 0.8, 1.1, 1.4]
    found = rising(seen)
    assert found == [0.25, *seen[1:]]
    assert 0.25 < found[knee(list(STEPS), found)] < 0.9


class NoTail:
    """A stage on which the second load, after the probe, has no p99."""

    def __init__(self, *_: object) -> None:
        self.seen = 0

    def __enter__(self) -> NoTail:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def measure(self, cell: Cell, load: Load, seconds: float) -> Measured:
        self.seen += 1
        p99_ms = None if self.seen == 3 else 1.0
        return Measured(
            seconds, load.rate, 0.5, 0.9, p99_ms, None, None, load.rate, 100, 0, 0.1, 0.0, 0.0, 0.0, None, None,
            0.0, 0.0, 0.0, 0.0, "",
        )  # fmt: skip


def test_a_curve_with_a_load_without_p99_gives_no_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A latency of 0 there would be that of all lower loads, too."""
    monkeypatch.setattr(curves, "Stage", NoTail)
    monkeypatch.setattr(curves, "sole_use", lambda *_: contextlib.nullcontext())  # pyright: ignore
    with pytest.raises(Failure, match=r"service 'redis' has no p99 at \d+ requests/s, expected one from each load"):
        curves.curve(service_named("redis"), tmp_path, 0, 1.0, Quiet(), lambda _: None)


def test_a_knee_needs_three_points_of_each() -> None:
    with pytest.raises(InputError, match="at least three points, got 2 rates"):
        knee([1.0, 2.0], [1.0, 2.0])


def test_quantiles_of_a_histogram_are_those_of_its_samples() -> None:
    histogram = [(1.0, 50), (2.0, 45), (5.0, 4), (9.0, 1)]
    assert quantiles_of(histogram, (0.5, 0.51, 0.95, 0.99, 1.0)) == [1.0, 2.0, 2.0, 5.0, 9.0]
    assert quantiles_of([], (0.5,)) == [None]


def test_interval_of_a_quantile_narrows_with_samples() -> None:
    few = [(float(value), 1) for value in range(1, 101)]
    many = [(float(value), 100) for value in range(1, 101)]
    assert order_interval(few, 0.9, 0.9) == (85.0, 96.0)
    low, high = order_interval(many, 0.9, 0.9)
    assert low is not None
    assert high is not None
    assert 89.0 <= low <= high <= 92.0
    assert order_interval([], 0.99, 0.9) == (None, None)


@pytest.mark.parametrize(("n", "level"), [(100, 0.9), (120, 0.99), (700, 0.99)])
def test_each_end_of_an_interval_is_missed_as_seldom_as_promised(n: int, level: float) -> None:
    """By the binomial law itself: the quantile lies below the sample of rank l where fewer than l samples are below."""
    low, high = order_interval([(float(value), 1) for value in range(1, n + 1)], level, 0.9)
    assert low is not None and high is not None
    chance = [math.comb(n, k) * level**k * (1.0 - level) ** (n - k) for k in range(n + 1)]
    assert sum(chance[: int(low)]) <= 0.05
    assert sum(chance[int(high) :]) <= 0.05 or high == n


@pytest.mark.parametrize("names", [tuple(services()), ("redis",), ("redis", "memcached")])
def test_a_default_draw_has_enough_margin_cells_and_leaves_cells_to_judge(names: tuple[str, ...]) -> None:
    """Where a light service spends half as much a request at saturation, too: then rates come near to the limit."""
    work = dict.fromkeys(services(), 0.3) | {"redis": 0.1, "memcached": 0.018}
    busy = {name: 0.5 * value for name, value in work.items()}
    chosen = [service_named(name) for name in names]
    drawn = design.drawn_cells(chosen, work, busy, 44, 6, 1)
    for cells, least in zip(drawn, (9, 4), strict=True):
        saturated = sum(cell.saturated for cell in cells)
        assert saturated >= least
        assert len(cells) - saturated >= 9


def test_seconds_give_slow_services_longer() -> None:
    assert design.seconds_of(1000.0, 5.0, 12.0) == 5.0
    assert design.seconds_of(50.0, 5.0, 12.0) == pytest.approx(10.0)
    assert design.seconds_of(1.0, 5.0, 12.0) == 12.0
    assert math.isfinite(design.seconds_of(0.0, 5.0, 12.0))
