"""Rates that jump: the rate to be ready for before the next jump is seen.

An allocator that is told the rate of the last interval is an interval late. In R seconds a rate q over a capacity c
builds up a wait of R (q/c - 1) (the reasoning of `adaptive`), so a wait of no more than w asks for capacity for
q / (1 + w/R) at all times. Which q? The highest of the n jumps seen lately, times 1 + 1/n: the expected end of a
uniform range of which n were drawn. Where no rate ever jumped, nothing is kept ready.
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

MOST_GROWTH = 0.2
"""Of the rate: what it may grow in an interval without being a jump."""

MEMORY_S = 300.0
"""A jump so long ago counts no more."""

WAIT_SHARE = 0.7
"""Of the SLO: the wait that may build up before a jump is seen; the rest is for the decision to be in force."""

_DEVIATIONS = 4.0  # of a Poisson count: no jump, but noise
_MOST_SEEN = 32


class Jumps(Struct, frozen=True):
    """The last rate that no backlog hid, and the (time in s, rate) of the jumps seen lately."""

    settled_qps: float | None = None
    seen: list[tuple[float, float]] = []


def watched(before: Jumps, time_s: float, qps: float, interval_s: float) -> Jumps:
    """After one more interval whose rate no backlog hides."""
    old = before.settled_qps
    kept = [jump for jump in before.seen if 0.0 <= time_s - jump[0] <= MEMORY_S]
    if old is not None and is_jump(old, qps, interval_s):
        kept = [*kept[1 - _MOST_SEEN :], (time_s, qps)]
    if kept == before.seen:
        return replace(before, settled_qps=qps)
    return Jumps(qps, kept)


def crept(before: Jumps, qps: float) -> Jumps:
    """After an interval in which requests queued: as many were answered, so no fewer came; that much is no jump."""
    return before if before.settled_qps is None else replace(before, settled_qps=max(before.settled_qps, qps))


def is_jump(old_qps: float, qps: float, interval_s: float) -> bool:
    """Whether a rate rose by more than it may grow in an interval, and by more than noise."""
    return qps > (1.0 + MOST_GROWTH) * old_qps + noise_qps(old_qps, interval_s)


def noise_qps(qps: float, interval_s: float) -> float:
    """How far a rate counted in an interval may be from the true one by chance alone."""
    return _DEVIATIONS * math.sqrt(max(qps, 1.0) / interval_s)


def ready_qps(jumps: Jumps, slo_ms: float, interval_s: float, most_qps: float) -> float:
    """The rate whose bandwidth bounds the wait after the next jump; 0 where none is to be expected.

    `most_qps` is the highest profiled rate: more is not expected.
    """
    if not jumps.seen:
        return 0.0
    highest = max(qps for _, qps in jumps.seen) * (1.0 + 1.0 / len(jumps.seen))
    return min(highest, most_qps) / (1.0 + WAIT_SHARE * slo_ms / 1e3 / interval_s)
