"""A service without a neighbour, read from measurements: capacity, and quantiles of the response over load.

Rates are in requests/ms (thousands a second), times in ms.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from osml.simulator.calibration.measured.memcached.turns import LEVELS
from osml.simulator.calibration.measured.table import Row
from osml.simulator.columns import FloatArray

REACHED = 0.97
"""Share of the target rate from which on a run counts as not saturated."""

_QUANTILES = ("min_us", "p5_us", "p50_us", "p75_us", "p90_us", "p95_us", "p99_us", "p999_us")
_BELOW_KNEE = 0.93  # of the capacity: measured quantiles above it have the queue of the closed loop in them
_U_MAX = 0.97


@dataclass(frozen=True)
class Unsaturated:
    """How the capacity is guessed where the scan of load ends below it (fitted on n2-highcpu-2, beside l2)."""

    work: float = 18.5
    """Capacity x p50 at 10 to 20 thousand requests/s: fitted; ties the network's time to the machine's speed."""
    beyond: float = 1.25
    """Capacity over the highest load, as the second of two guesses, whose geometric mean counts: fitted."""


@dataclass(frozen=True)
class Alone:
    """Capacity in requests/ms and response quantiles over load, without the queue near the knee."""

    capacity: float
    loads: FloatArray  # requests/ms, rising
    quantiles: FloatArray  # ms: (loads, LEVELS)

    def at(self, load: float) -> FloatArray:
        """Response quantiles in ms at a load; beyond the last load they go on with the slope of the last third."""
        last = self.loads[-1]
        found = np.array([np.interp(load, self.loads, self.quantiles[:, k]) for k in range(len(LEVELS))])
        if load > last:
            first = 2 * len(self.loads) // 3
            slope = (self.quantiles[-1] - self.quantiles[first]) / max(last - self.loads[first], 1.0)
            found = found + np.maximum(slope, 0.0) * (load - last)
        return found


def queue_ms(service_ms: float, utilisation: float, strength: float) -> float:
    """What the queue adds to p95 near the knee: `strength` service times x u/(1 - u), u up to 0.97."""
    u = min(utilisation, _U_MAX)
    return strength * service_ms * u / (1.0 - u)


def by_target(rows: Sequence[Row]) -> dict[float, list[Row]]:
    """Rows of each target rate, in requests/ms."""
    cells: dict[float, list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["qps_target"] / 1000.0].append(row)
    return dict(sorted(cells.items()))


def saturated(rows: Sequence[Row]) -> list[float]:
    """Rates in requests/ms of the runs that did not reach their target."""
    return [row["qps"] / 1000.0 for row in rows if row["qps"] < REACHED * row["qps_target"]]


def _capacity(rows: Sequence[Row], guess: Unsaturated) -> float:
    full = saturated(rows)
    if sum(row.get("runs") or 1.0 for row in rows if row["qps"] < REACHED * row["qps_target"]) >= 2:
        return median(full)
    cells = by_target(rows)
    top = max(median(row["qps"] for row in cell) for cell in cells.values()) / 1000.0
    middle = [
        row["p50_us"] / 1000.0 for t, cell in cells.items() for row in cell if 10.0 <= t <= 20.0 and row["p50_us"]
    ]
    if not middle:
        return guess.beyond * top
    return max(math.sqrt(guess.work / median(middle) * guess.beyond * top), 1.04 * top)


def alone(rows: Sequence[Row], knee: float, guess: Unsaturated | None = None) -> Alone | None:
    """From the rows without a neighbour; None where none of them is below the knee. `knee` is the queue's strength."""
    capacity = _capacity(rows, guess or Unsaturated())
    cells = {
        load: cell
        for load, cell in by_target(rows).items()
        if load < _BELOW_KNEE * capacity and median(row["qps"] for row in cell) > REACHED * 1000.0 * load
    }
    if not cells:
        return None
    table = np.array([_quantiles(cell) for cell in cells.values()])  # (loads, LEVELS)
    for i, load in enumerate(cells):
        table[i] -= queue_ms(1.0 / capacity, load / capacity, knee) * np.clip(LEVELS / 0.95, 0.0, 1.0)
    smooth = table.copy()
    smooth[1:-1] = (table[:-2] + table[1:-1] + table[2:]) / 3.0
    return Alone(capacity, np.array(list(cells)), np.maximum.accumulate(smooth, axis=1))


def _quantiles(cell: Sequence[Row]) -> FloatArray:
    """Medians over runs in ms; levels that a source lacks are interpolated."""
    known: dict[float, float] = {}
    for level, name in zip(LEVELS, _QUANTILES, strict=True):
        values = [row[name] for row in cell if row.get(name) is not None]
        if values:
            known[float(level)] = median(values) / 1000.0
    return np.interp(LEVELS, list(known), list(known.values()))
