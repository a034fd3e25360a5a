"""Predictions of cells with intervals, and the simplest predictors beside them."""

from __future__ import annotations

import math
import time
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osml.lab.validation.cells import Cell, Predicted, Range, Row
from osml.lab.validation.profiles import Profile
from osml.lab.validation.simulate import simulate_cell

DRAWS = 12
CONFIDENCE = 0.9
LEAST_WIDTH = 0.03
"""Half an interval is at least this share: no measurement is repeated more exactly."""

NEVER_MS = 1e9
"""Stands for an infinite time, which JSON has no number for."""

_MOST_LOG = 700.0  # exp() of more overflows

KINDS = ("p50_ms", "p95_ms", "p99_ms", "throughput", "cpu")


@dataclass(frozen=True)
class Margins:
    """Half-widths of the intervals by kind of figure: distances from the prediction on a logarithmic scale."""

    widths: tuple[float, float, float, float, float]


def predict(
    cell: Cell,
    rate: float,
    profile: Profile,
    known: list[Row],
    seconds: float,
    seed: int,
    other: tuple[Profile, float] | None = None,
    margins: Margins | None = None,
) -> Predicted:
    """Simulate the measurement some times, each with other draws of what calibration leaves open, and other requests.

    `known` are the measured cells that the simple predictors may use, the ideal one first. The same seed gives the same
    but for `at`.
    """
    own = zlib.crc32(cell.key.encode())  # a cell's draws do not depend on which others there are
    rng = np.random.default_rng([seed, own])
    figures = np.empty((DRAWS, len(KINDS)))
    seeds: list[int] = rng.integers(2**31 - 2, size=DRAWS).tolist()
    for draw, own_seed in enumerate(seeds):
        scale = [math.exp(error * rng.standard_normal()) for error in (profile.work_error, profile.base_error)]
        seen = simulate_cell(cell, rate, profile, seconds, own_seed, other, (scale[0], scale[1]))
        figures[draw] = (*seen.quantiles(), seen.throughput, seen.cpu)
    widths = [None] * len(KINDS) if margins is None else margins.widths
    ranges = [_range(figures[:, column], width) for column, width in enumerate(widths)]
    return Predicted(*ranges, nearest_ms=nearest(cell, known), mm1_ms=ideal_over_idle(cell, known[0]), at=time.time())


def _range(values: NDArray[np.float64], width: float | None) -> Range:
    """The median of the draws. Its interval has this half-width, or is that of the draws where none is known yet."""
    tail = 50.0 * (1.0 - CONFIDENCE)
    known = np.minimum(values, NEVER_MS)  # between two infinite values there is no number
    low, middle, high = (float(value) for value in np.percentile(known, (tail, 50.0, 100.0 - tail)))
    if width is None or not 0.0 < middle < NEVER_MS:
        return Range(middle, low, high)
    width = max(width, LEAST_WIDTH)
    return Range(middle, middle * math.exp(-width), min(middle * math.exp(min(width, _MOST_LOG)), NEVER_MS))


def distance(one: Cell, other: Cell) -> float:
    """How different two cells' conditions are: other company or quota counts more than any difference of load."""
    return (
        abs(one.load - other.load)
        + 1.0 * (one.company.split(":")[0] != other.company.split(":")[0])
        + 1.0 * (one.quota != other.quota)
        + 0.5 * (one.cpus != other.cpus)
        + 0.5 * ((one.scheduling, one.weight) != (other.scheduling, other.weight))
    )


def nearest(cell: Cell, known: list[Row]) -> tuple[float, float, float]:
    """The latencies of the nearest measured cell (the simplest predictor)."""
    latencies = [row for row in known if not row.cell.saturated]
    row = min(latencies, key=lambda each: distance(cell, each.cell))
    return _latencies(row)


def ideal_over_idle(cell: Cell, ideal: Row) -> tuple[float, float, float]:
    """Latency at low load over the idle share, as of a queue M/M/1; NEVER_MS at saturation."""
    idle = max(1.0 - cell.load, 0.0)
    first, second, third = _latencies(ideal)
    return (first / idle, second / idle, third / idle) if idle > 0.0 else (NEVER_MS, NEVER_MS, NEVER_MS)


def _latencies(row: Row) -> tuple[float, float, float]:
    seen = row.measured
    return (seen.p50_ms or math.nan, seen.p95_ms or math.nan, seen.p99_ms or math.nan)


def _score(said: Range, seen: float | None) -> float:
    """Distance of a measurement from its prediction; infinite where one of the two only is no number, or never."""
    known, told = seen is not None and seen > 0.0, 0.0 < said.value < NEVER_MS
    if seen is not None and known and told:
        return abs(math.log(seen / said.value))
    return math.inf if known or told else 0.0


def margins_of(rows: list[Row]) -> Margins:
    """Widths with which the intervals of these rows would have held what was measured, at the promised confidence.

    Split conformal prediction: the score of a row is the distance of its measurement from the prediction; a half-width
    is the quantile of the scores at the rank ceil((n + 1) * 0.9). Infinite where there are fewer scores than that:
    nothing is known of so rare an error.
    """
    widths: list[float] = []
    for kind in KINDS:
        scores: list[float] = []
        for row in rows:
            if row.predicted is None or row.measured.noisy or (row.cell.saturated and kind != "throughput"):
                continue
            if kind == "throughput" and not row.cell.saturated:
                continue
            scores.append(_score(getattr(row.predicted, kind), getattr(row.measured, kind)))
        rank = math.ceil((len(scores) + 1) * CONFIDENCE)
        widths.append(math.inf if rank > len(scores) else sorted(scores)[rank - 1])
    return Margins((widths[0], widths[1], widths[2], widths[3], widths[4]))
