"""Predictions of cells with intervals, and the simplest predictors beside them."""

from __future__ import annotations

import math
import time
import zlib

import numpy as np
from numpy.typing import NDArray

from osml.lab.validation.cells import KINDS, NEVER_MS, Cell, Predicted, Range, Row
from osml.lab.validation.learn import CONFIDENCE, Learned, teaches
from osml.lab.validation.profiles import Profile
from osml.lab.validation.simulate import simulate_cell

DRAWS = 12
LEAST_WIDTH = 0.03
"""Half an interval is at least this share: no measurement is repeated more exactly."""

LEAST_SPREAD = 0.3
"""Added to the spread of the draws as an independent error of this size: the simulation leaves things out. The cells of
seed 5150 chose it (0.1 and 0.5 gave intervals that are wider)."""

_MOST_LOG = 700.0  # exp() of more overflows
_LEAST = 1e-9  # of less there is no logarithm that means something


def predict(
    cell: Cell,
    rate: float,
    profile: Profile,
    known: list[Row],
    seconds: float,
    seed: int,
    other: tuple[Profile, float] | None = None,
    taught: Learned | None = None,
) -> Predicted:
    """Simulate the measurement some times, each with other draws of what calibration leaves open, and other requests.

    `known` are the measured cells that the simple predictors may use, the ideal one first. `taught` is what the same
    cells teach; without it the prediction is the simulation's, and the interval that of its draws. The same seed gives
    the same but for `at`.
    """
    own = zlib.crc32(cell.key.encode())  # a cell's draws do not depend on which others there are
    rng = np.random.default_rng([seed, own])
    figures = np.empty((DRAWS, len(KINDS)))
    seeds: list[int] = rng.integers(2**31 - 2, size=DRAWS).tolist()
    for draw, own_seed in enumerate(seeds):
        scale = [math.exp(error * rng.standard_normal()) for error in (profile.work_error, profile.base_error)]
        seen = simulate_cell(cell, rate, profile, seconds, own_seed, other, (scale[0], scale[1]))
        figures[draw] = (*seen.quantiles(), seen.throughput, seen.cpu)
    ranges: list[Range] = []
    for column, kind in enumerate(KINDS):
        applies = taught is not None and teaches(kind, saturated=cell.saturated)
        shift = taught.shifts[column] if taught is not None and applies else 0.0
        ranges.append(_range(figures[:, column], shift, None if taught is None else taught.widths[column]))
    return Predicted(*ranges, nearest_ms=nearest(cell, known), mm1_ms=ideal_over_idle(cell, known[0]), at=time.time())


def _range(values: NDArray[np.float64], shift: float, width: float | None) -> Range:
    """The median of the draws, shifted. Its interval is `width` spreads to each side, or that of the draws."""
    tail = 50.0 * (1.0 - CONFIDENCE)
    known = np.minimum(values, NEVER_MS)  # between two infinite values there is no number
    low, middle, high = (float(value) for value in np.percentile(known, (tail, 50.0, 100.0 - tail)))
    spread = math.hypot(float(np.std(np.log(np.maximum(known, _LEAST)))), LEAST_SPREAD)
    if width is None or not 0.0 < middle < NEVER_MS:
        return Range(middle, low, high, middle, spread)
    value = min(middle * math.exp(shift), NEVER_MS)
    half = max(width * spread, LEAST_WIDTH)
    high = min(value * math.exp(min(half, _MOST_LOG)), NEVER_MS)
    return Range(value, value * math.exp(-half), high, middle, spread)


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
    quiet = [row for row in latencies if not row.measured.noisy]
    row = min(quiet or latencies, key=lambda each: distance(cell, each.cell))
    return _latencies(row)


def ideal_over_idle(cell: Cell, ideal: Row) -> tuple[float, float, float]:
    """Latency at low load over the idle share, as of a queue M/M/1; NEVER_MS at saturation."""
    idle = max(1.0 - cell.load, 0.0)
    first, second, third = _latencies(ideal)
    return (first / idle, second / idle, third / idle) if idle > 0.0 else (NEVER_MS, NEVER_MS, NEVER_MS)


def _latencies(row: Row) -> tuple[float, float, float]:
    seen = row.measured
    return (seen.p50_ms or math.nan, seen.p95_ms or math.nan, seen.p99_ms or math.nan)
