"""What a series of intervals of one service says that a single one doesn't: which were read twice, under which load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

Row = dict[str, Any]

_LATENCY = ("mean_ms", "p50_ms", "p95_ms", "p99_ms", "samples", "requests_per_s")
_WINDOW = 4
"""Intervals before and after one whose rates say its load: the arrivals of one second are few."""

_BAND = 1.25
"""Loads within this factor are one load. Rates of independent arrivals differ by less after `_WINDOW`, above 30/s."""

_BUSY = 0.85
"""From this share of its CPUs on a service may answer less than it is asked: its rate is no load then."""


ESTIMATED = (
    "offered_per_s of services without a known generator is estimated from the answered requests: loads within a "
    "quarter of each other are one load, and a service without CPU time left has the last load known"
)
"""A note of traces whose loads nobody told."""


class Left(NamedTuple):
    """Intervals that are no cases, and why."""

    repeated: int = 0  # the latencies are those of the interval before: no new line had come
    settling: int = 0  # just after another allocation, while the queue of the last one drains
    in_domains: int = 0  # services were placed on cache domains: the policy saw each domain, the record has the node
    only_watched: int = 0  # a dry run: the allocations were never in force
    damaged: int = 0  # half lines that a power cut leaves

    def plus(self, other: Left) -> Left:
        """Those of both."""
        return Left(*(mine + more for mine, more in zip(self, other, strict=True)))


def repeats(rows: Sequence[Row]) -> list[bool]:
    """Which rows have the latencies of the row before, so that nothing new was measured."""
    out: list[bool] = []
    last: tuple[Any, ...] | None = None
    for row in rows:
        now = tuple(row.get(name) for name in _LATENCY)
        out.append(bool(row.get("samples")) and now == last)
        last = now
    return out


def settling(cells: Sequence[Any], intervals: int) -> list[bool]:
    """Which rows come within `intervals` of a change of the cell, the row of the change included."""
    out: list[bool] = []
    since = intervals
    for k, cell in enumerate(cells):
        since = 0 if k and cell != cells[k - 1] else since + 1
        out.append(since < intervals)
    return out


def estimated_loads(rows: Sequence[Row], cores: Sequence[float]) -> list[float | None]:
    """Requests per second that were asked for in each interval, where no generator tells it; None where unknown.

    While the service has CPU time left, it answers what it is asked. Where it has not, the load is at least the last
    one known. Loads within a quarter of each other are one load: the median of theirs.
    """
    known: list[float | None] = []
    last: float | None = None
    for row, has in zip(rows, cores, strict=True):
        rate, used = row.get("requests_per_s"), row.get("cpu_usage_cores")
        if rate is None or not math.isfinite(rate) or rate <= 0:
            known.append(None)
        elif used is not None and used >= _BUSY * has:
            known.append(None if last is None else max(last, rate))
        else:
            last = rate
            known.append(rate)
    smooth = [None if value is None else _around(known, k) for k, value in enumerate(known)]
    bands = _bands([value for value in smooth if value is not None])
    return [None if value is None else bands[value] for value in smooth]


def _around(known: Sequence[float | None], k: int) -> float:
    return median(value for value in known[max(0, k - _WINDOW) : k + _WINDOW + 1] if value is not None)


def _bands(values: list[float]) -> dict[float, float]:
    """The load of each value: values from the smallest of a band to _BAND times it are one."""
    out: dict[float, float] = {}
    band: list[float] = []
    for value in [*sorted(values), math.inf]:
        if band and value > _BAND * band[0]:
            out.update(dict.fromkeys(band, float(f"{median(band):.4g}")))
            band = []
        band.append(value)
    return out
