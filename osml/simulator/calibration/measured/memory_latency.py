"""Latency of loads over memory traffic, relative to an idle memory (reads only).

latency/idle = 1 + a u^b, where u is traffic over the most that was read. A pole at u = 1 is wrong: that much was read
at a finite latency. Source: outputs of Intel's Memory Latency Checker that owners of machines published.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import optimize

from osml.simulator.calibration.measured.machines import Machines
from osml.simulator.calibration.measured.outcome import Pair, Rule, Test
from osml.simulator.calibration.measured.table import Columns, Row
from osml.simulator.columns import FloatArray

COLUMNS = Columns(positive=("max_read_gbps", "idle_ns", "read_gbps", "latency_ns"), texts=("machine",))


class Rise(NamedTuple):
    """latency/idle = 1 + a u^b."""

    a: float
    b: float

    def at(self, u: float) -> float:
        """Latency over that of an idle memory."""
        return 1.0 + self.a * u**self.b


def fit(rows: Sequence[Row]) -> Rise:
    """Least squares of the relative error."""
    u = np.array([row["read_gbps"] / row["max_read_gbps"] for row in rows])
    y = np.array([row["latency_ns"] / row["idle_ns"] for row in rows])

    def residuals(x: FloatArray) -> FloatArray:
        return (1.0 + x[0] * u ** x[1]) / y - 1.0

    a, b = cast(Any, optimize).least_squares(residuals, [0.6, 1.3], bounds=([0.0, 0.1], [10.0, 10.0])).x
    return Rise(float(a), float(b))


def _machine(row: Row) -> tuple[float, float]:
    """What tells a machine, whatever a file calls it."""
    return row["max_read_gbps"], row["idle_ns"]


def tests(rows: Sequence[Row], machines: Machines, shipped: Sequence[Row]) -> list[Test]:
    """Every row from the shipped rows of other machines; `machines` have no part in it."""
    pairs: list[Pair] = []
    pole: list[float | None] = []
    rises = {key: fit([other for other in shipped if _machine(other) != key]) for key in map(_machine, rows)}
    for row in rows:
        u = row["read_gbps"] / row["max_read_gbps"]
        key = f"{row['machine']} {row['read_gbps']:g} GB/s"
        pairs.append(Pair(key, row["latency_ns"], row["idle_ns"] * rises[_machine(row)].at(u), row["idle_ns"]))
        pole.append(row["idle_ns"] * (1.0 + 0.109 * u**0.087 / (1.0 - u)) if u < 1.0 else None)
    note = "Fitted on the shipped rows of the other machines; the form was chosen on all rows."
    with_pole = Rule("1 + 0.109 u^0.087/(1 - u)", pole)
    return [Test("memory latency over traffic", "ns", "factor", 1.3, pairs, "idle latency", None, note, (with_pole,))]
