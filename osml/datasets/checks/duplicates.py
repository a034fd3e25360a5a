"""Rows that are there twice: in one run, or copied between runs, files and so between any two splits."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.datasets.arrow import numbers
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
        out = _mixed(out, values)
    return np.where(known >= 3, out, np.uint64(0))


def key_hashes_of(table: Any) -> Hashes:
    """One number a row over run, cores, ways and sample, which name a row."""
    runs = table.column("run").combine_chunks().dictionary_encode("encode")
    texts = [str(run).encode("utf-8", "replace") for run in runs.dictionary.to_pylist()]
    named = np.array([int.from_bytes(blake2b(text, digest_size=8).digest()) for text in texts], np.uint64)
    out = named[runs.indices.to_numpy(zero_copy_only=False)]
    for name in ("cores", "ways", "sample"):
        out = _mixed(out, numbers(table, name))
    return out


def _mixed(hashes: Hashes, values: NDArray[np.float64]) -> Hashes:
    bits = np.nan_to_num(values).view(np.uint64)
    with np.errstate(over="ignore"):
        out = (hashes ^ bits ^ (bits >> np.uint64(31))) * _MIX
    return out ^ (out >> np.uint64(29))


class _Seen:
    """Hashes so far: all of them up to `most`, then every second, fourth, ... in bounded memory."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._stride = np.uint64(1)
        # Sorted runs of falling size, merged like the digits of a binary counter: every hash is sorted log n times.
        self._levels: list[Hashes] = []

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def _kept(self, hashes: Hashes) -> Hashes:
        return hashes[(hashes != 0) & ((hashes >> np.uint64(5)) % self._stride == 0)]

    def add(self, hashes: Hashes) -> tuple[int, int]:
        """Remember those of a row group: how many there were before or twice, and how many were looked at."""
        new = self._kept(hashes)
        distinct = _distinct(new)
        copies = len(new) - len(distinct) + sum(_common(distinct, level) for level in self._levels)
        if len(distinct):
            self._remember(distinct)
        return copies, len(new)

    def _remember(self, hashes: Hashes) -> None:
        self._levels.append(hashes)
        while len(self._levels) > 1 and len(self._levels[-2]) < 2 * len(self._levels[-1]):
            self._levels.append(_distinct(np.concatenate([self._levels.pop(), self._levels.pop()])))
        while len(self) > self._most:
            self._stride *= np.uint64(2)
            self._levels = [self._kept(level) for level in self._levels]


class Duplicates:
    """Rows of a data set by their keys and by what was measured, in bounded memory: `most` numbers of each."""

    def __init__(self, most: int = 4_000_000) -> None:
        self.keys, self.measured = _Seen(most), _Seen(most)

    def add(self, table: Any, place: Place, noisy: bool) -> Iterator[Finding]:
        """Look at one row group; without measurement noise samples of a cell are equal, and that is a warning only."""
        if {"run", "cores", "ways", "sample"} <= set(table.column_names):
            again, _ = self.keys.add(key_hashes_of(table))
            if again:
                yield place.error("sample", f"{again} rows repeat the run, allocation and sample of another row")
        copies, rows = self.measured.add(hashes_of(table))
        if copies > max(1.0, _FEW * rows):
            message = f"{copies} of {rows} rows repeat the measurements of another row of the data set"
            if noisy:
                yield place.error(None, message + ": copies leak between splits, keep one of each")
            else:
                yield place.warning(None, message + ", as in data without measurement noise: keep one sample per cell")


def _distinct(hashes: Hashes) -> Hashes:
    """Sorted, each once. Not np.unique: its hash table is ten times slower than sorting on numbers like these."""
    ordered = np.sort(hashes)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _common(hashes: Hashes, known: Hashes) -> int:
    """How many of some sorted numbers are among others."""
    places = np.minimum(np.searchsorted(known, hashes), max(len(known) - 1, 0))
    return int((known[places] == hashes).sum()) if len(known) else 0
