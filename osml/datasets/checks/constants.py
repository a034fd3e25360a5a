"""Columns that say nothing: constant although the allocation changes, or 0 where null was meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from osml.datasets.arrow import numbers
from osml.datasets.checks.columns import Floats
from osml.datasets.checks.finding import Finding, Place
from osml.datasets.schema import PERCENTILES

VARYING = (
    "ipc",
    "llc_misses_per_s",
    "cpu_usage_cores",
    "bandwidth_gbps",
    "mean_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "requests_per_s",
)
"""What no sensor reads the same in every interval. Memory and clock may stay."""

_ENOUGH = 20


class Constants:
    """Ranges of the varying columns of a file while its row groups come by."""

    def __init__(self) -> None:
        self._low: dict[str, float] = {}
        self._high: dict[str, float] = {}
        self._rows: dict[str, int] = {}
        self._cells: set[tuple[float, float]] = set()
        self._targets: set[str] = set()  # latencies that a target speaks of

    def add(self, table: Any) -> None:
        """Look at one row group."""
        for name in VARYING:
            if name not in table.column_names:
                continue
            known: Floats = numbers(table, name)
            known = known[np.isfinite(known)]
            if len(known):
                self._low[name] = min(self._low.get(name, np.inf), float(known.min()))
                self._high[name] = max(self._high.get(name, -np.inf), float(known.max()))
                self._rows[name] = self._rows.get(name, 0) + len(known)
        if "percentile" in table.column_names:
            kinds = table.column("percentile").unique().to_pylist()
            self._targets.update(PERCENTILES.get(kind or "p99", "") for kind in kinds)
        if {"cores", "ways"} <= set(table.column_names) and len(self._cells) < _ENOUGH:
            pairs = np.stack([numbers(table, "cores"), np.nan_to_num(numbers(table, "ways"))], axis=1)
            self._cells.update(map(tuple, np.unique(pairs, axis=0)[:_ENOUGH].tolist()))

    def findings(self, place: Place) -> Iterator[Finding]:
        """After the last row group."""
        for name, low in self._low.items():
            if self._high[name] != low or self._rows[name] < _ENOUGH or len(self._cells) < 2:
                continue
            if low == 0.0:
                yield place.error(
                    name, f"all {self._rows[name]} rows are 0, expected null for values that were not measured"
                )
            elif name in PERCENTILES.values() and name not in self._targets:
                yield place.warning(
                    name, f"all {self._rows[name]} rows are {low:g} for all allocations: is the histogram too coarse?"
                )
            else:
                yield place.error(name, f"all {self._rows[name]} rows are {low:g} for all allocations: constant sensor")
