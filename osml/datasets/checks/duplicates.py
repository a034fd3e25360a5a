"""Rows that are there twice: in one run, or copied between runs, files and so between any two splits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.datasets.checks.columns import numbers
from osml.datasets.checks.finding import Finding, Place

Hashes = NDArray[np.uint64]

_MEASURED = (
    "ipc",
    "llc_misses_per_s",
    "cpu_usage_cores",
    "bandwidth_gbps",
    "mean_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "requests_per_s",
    "frequency_ghz",
)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_FEW = 0.01
"""Share of copied rows that chance and rounding may make."""


def hashes_of(table: Any) -> Hashes:
    """One number a row over what was measured; 0 where fewer than three columns were."""
    known = np.zeros(len(table), np.int64)
    out = np.zeros(len(table), np.uint64)
    for name in _MEASURED:
        if name not in table.column_names:
            continue
        values = numbers(table, name)
        known += ~np.isnan(values)
        bits = np.nan_to_num(values).view(np.uint64)
        with np.errstate(over="ignore"):
            out = (out ^ bits ^ (bits >> np.uint64(31))) * _MIX
            out ^= out >> np.uint64(29)
    return np.where(known >= 3, out, np.uint64(0))


class Duplicates:
    """Hashes of all rows so far: all of them up to `most`, then every second, fourth, ... in bounded memory."""

    def __init__(self, most: int = 4_000_000) -> None:
        self._most = most
        self._stride = np.uint64(1)
        # Sorted runs of falling size, merged like the digits of a binary counter: every hash is sorted log n times.
        self._levels: list[Hashes] = []

    def _kept(self, hashes: Hashes) -> Hashes:
        return hashes[(hashes != 0) & ((hashes >> np.uint64(5)) % self._stride == 0)]

    def add(self, table: Any, place: Place, noisy: bool) -> Iterator[Finding]:
        """Look at one row group; without measurement noise samples of a cell are equal, and that is a warning only."""
        keys = _key_duplicates(table)
        if keys:
            yield place.error("sample", f"{keys} rows repeat the run, allocation and sample of another row")
        new = self._kept(hashes_of(table))
        if len(new) == 0:
            return
        distinct = _distinct(new)
        copies = len(new) - len(distinct) + sum(_common(distinct, level) for level in self._levels)
        if copies > max(1.0, _FEW * len(new)):
            message = f"{copies} of {len(new)} rows repeat the measurements of another row of the data set"
            if noisy:
                yield place.error(None, message + ": copies leak between splits, keep one of each")
            else:
                yield place.warning(None, message + ", as in data without measurement noise: keep one sample per cell")
        self._remember(distinct)

    def _remember(self, hashes: Hashes) -> None:
        self._levels.append(hashes)
        while len(self._levels) > 1 and len(self._levels[-2]) < 2 * len(self._levels[-1]):
            self._levels.append(_distinct(np.concatenate([self._levels.pop(), self._levels.pop()])))
        while sum(len(level) for level in self._levels) > self._most:
            self._stride *= np.uint64(2)
            self._levels = [self._kept(level) for level in self._levels]


def _distinct(hashes: Hashes) -> Hashes:
    """Sorted, each once. Not np.unique: its hash table is ten times slower than sorting on numbers like these."""
    ordered = np.sort(hashes)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _common(hashes: Hashes, known: Hashes) -> int:
    """How many of some sorted numbers are among others."""
    places = np.minimum(np.searchsorted(known, hashes), max(len(known) - 1, 0))
    return int((known[places] == hashes).sum()) if len(known) else 0


def _key_duplicates(table: Any) -> int:
    """Rows with the same run, cores, ways and sample as another one of the group."""
    if not {"run", "cores", "ways", "sample"} <= set(table.column_names):
        return 0
    runs = table.column("run").combine_chunks().dictionary_encode().indices.fill_null(-1)
    keys = np.stack(
        [
            runs.to_numpy(zero_copy_only=False).astype(np.float64),
            *(np.nan_to_num(numbers(table, name)) for name in ("cores", "ways", "sample")),
        ]
    )
    order = np.lexsort(keys)
    ordered = keys[:, order]
    return int((ordered[:, 1:] == ordered[:, :-1]).all(axis=0).sum())
