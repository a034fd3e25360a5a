"""What the policy `osml` remembers of each service between two decisions, and how a new interval changes it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from osml.domain import Service
from osml.policies.osml.answers.forecast import Answer
from osml.policies.osml.node import Cell
from osml.policies.osml.remembered.backoff import MOVED, Ban

_NOISE = 4.0  # standard deviations of a counted rate
_MEMORY = 8  # intervals that a mean goes over
_OVER = 3  # intervals in a row with the target met after which earlier misses are over

EASING = 0.9
"""Of the latency before: a queue drains, and what the models say of it is no need."""

OUTDATED = 15
"""Intervals among all others after which what a service's own cell has shown is forgotten: it may have been a bad time
for that, and whoever is thought to need too much for a cell never gets one again."""

ENDURED = 8
"""So many more missed than met intervals in a cell are no noise, however small each miss was: were the tail really at
its target, each would be one or the other by the toss of a coin."""


class Known(Struct, frozen=True, array_like=True):
    """A service as the last intervals showed it. Needs are means of predictions, in logical CPUs and ways.

    - `settled`: intervals since its own cell changed. `missed`, `met`: intervals in a row with a missed or met target.
    - `missed_balance`: missed intervals minus met ones. `loads`: changes of load or target.
    - `level`: mean of latency over target. `used`: mean of the CPUs that it used in this cell.
    - `confined`: predicted while it had a cell of its own, where the models are most accurate.
    - `before`: its cell before the last step down; `underway`: that step went half of the way.
    """

    oaa: tuple[float, float]
    oaa_upper: tuple[float, float]
    cliff: tuple[float, float]
    upper: tuple[float, float]
    gbps: float | None
    count: int
    confined: bool
    target_ms: float | None
    rate: float | None = None
    loads: int = 0
    cell: tuple[int, int] | None = None
    settled: int = 0
    missed: int = 0
    met: int = 0
    latency_ms: float | None = None
    level: float | None = None
    bans: list[Ban] = []
    before: tuple[int, int] | None = None
    missed_balance: int = 0
    underway: bool = False
    used: float | None = None


def learned(known: Known | None, answer: Answer, service: Service, cell: Cell | None, interval_s: float) -> Known:
    """The memory of a service after one more interval in `cell` (None: it shares)."""
    rate = None if service.latency is None else service.latency.requests_per_s
    slack = service.slack
    if known is None or known.target_ms != service.target_ms:
        bans, loads = ([], 0) if known is None else (known.bans, known.loads + 1)
        if known is not None and (known.target_ms or 0.0) < (service.target_ms or 0.0):
            bans = []  # what missed a stricter target may meet this one
        fresh = _fresh(answer, service, cell, rate)
        missed, met = int(slack is not None and slack < 0), int(slack is not None and slack >= 0)
        return replace(fresh, bans=bans, loads=loads, missed=missed, met=met)
    here = None if cell is None else (cell.cores, cell.ways)
    settled = known.settled + 1 if here == known.cell else 0
    missed, met, owed = known.missed, known.met, known.missed_balance
    if slack is not None:
        missed, met = (missed + 1, 0) if slack < 0 else (0, met + 1)
        owed = max(0, min(owed + (1 if slack < 0 else -1), ENDURED))
    if settled == 0 or met >= _OVER:
        owed = 0
    latency_ms = service.latency_ms
    now = replace(
        known,
        cell=here,
        settled=settled,
        missed=missed,
        met=met,
        missed_balance=owed,
        latency_ms=latency_ms if latency_ms is not None else known.latency_ms,
        level=_level(None if settled == 0 else known.level, latency_ms, service.target_ms),
        used=_faded(None if settled == 0 else known.used, service.counters.cpu_usage_cores),
    )
    if slack is None:
        return now
    # While a queue drains, completions are not arrivals: more of them say nothing of the load beyond what a wait so
    # long as the tail can hold back, and fewer say nothing at all.
    rises = (rate or 0.0) > (known.rate or 0.0)
    queued_s = 0.0 if known.missed == 0 else (known.latency_ms or math.inf) / 1000.0
    if (rises or known.missed == missed == 0) and _moved(known.rate, rate, interval_s, queued_s):
        fresh = _fresh(answer, service, cell, rate)
        return replace(
            fresh,
            settled=settled,
            missed=missed,
            met=met,
            bans=known.bans,
            loads=known.loads + 1,
            level=now.level,
            used=now.used,
        )
    better = cell is not None and not known.confined
    eases = latency_ms is not None and known.latency_ms is not None and latency_ms < EASING * known.latency_ms
    if missed and (eases or not (better and settled)):
        return now  # starved services, and queues that drain, look alike whatever the load
    if settled == 0 and known.count:
        return now  # a part of the interval was under the old allocation
    if better:
        fresh = replace(_predicted(now, answer), count=1, confined=True, rate=rate)
        return _at_least(fresh, known) if missed else fresh
    if known.confined and cell is None:
        if settled < OUTDATED:
            return now
        return replace(_predicted(now, answer), count=1, confined=False)
    # Half of the way down the neighbours are others than they were: what was predicted above is over.
    share = 1.0 if known.underway and settled == 1 else 1.0 / min(known.count + 1, _MEMORY)
    return replace(
        now,
        oaa=_mean(known.oaa, answer.oaa, share),
        oaa_upper=_mean(known.oaa_upper, answer.oaa_upper, share),
        cliff=_mean(known.cliff, answer.cliff, share),
        upper=_mean(known.upper, answer.upper, share),
        gbps=answer.gbps,
        count=known.count + 1,
        rate=rate if known.rate is None else known.rate if rate is None else known.rate + share * (rate - known.rate),
    )


def without_prediction(known: Known, answer: Answer) -> Known:
    """The memory of a service that no model is believed about: its need is that of `answer`, until one is again."""
    return replace(_predicted(known, answer), count=0)


def _predicted(known: Known, answer: Answer) -> Known:
    return replace(
        known, oaa=answer.oaa, oaa_upper=answer.oaa_upper, cliff=answer.cliff, upper=answer.upper, gbps=answer.gbps
    )


def _fresh(answer: Answer, service: Service, cell: Cell | None, rate: float | None) -> Known:
    return Known(
        oaa=answer.oaa,
        oaa_upper=answer.oaa_upper,
        cliff=answer.cliff,
        upper=answer.upper,
        gbps=answer.gbps,
        count=1,
        confined=cell is not None,
        target_ms=service.target_ms,
        rate=rate,
        cell=None if cell is None else (cell.cores, cell.ways),
        latency_ms=service.latency_ms,
    )


def _level(before: float | None, latency_ms: float | None, target_ms: float | None) -> float | None:
    """Latency over target, faded."""
    if latency_ms is None or target_ms is None:
        return before
    return _faded(before, min(latency_ms / target_ms, 1.3))  # what a queue was once is forgotten soon


def _faded(before: float | None, now: float | None) -> float | None:
    """A mean in which an interval counts less the older it is."""
    if before is None or now is None:
        return now if before is None else before
    return before + 0.3 * (now - before)


def _at_least(now: Known, before: Known) -> Known:
    """A service that misses its target does not need less than was thought before."""
    return replace(
        now,
        oaa=(max(now.oaa[0], before.oaa[0]), max(now.oaa[1], before.oaa[1])),
        oaa_upper=(max(now.oaa_upper[0], before.oaa_upper[0]), max(now.oaa_upper[1], before.oaa_upper[1])),
    )


def _mean(old: Sequence[float], new: Sequence[float], share: float) -> tuple[float, float]:
    return old[0] + share * (new[0] - old[0]), old[1] + share * (new[1] - old[1])


def _moved(before: float | None, now: float | None, interval_s: float, queued_s: float) -> bool:
    """Whether a rate has changed by more than its own noise (requests that come at random), the queue and MOVED."""
    if not before or now is None:
        return False
    noise = _NOISE / math.sqrt(max(1.0, before * interval_s))
    return abs(now / before - 1.0) > MOVED + noise + queued_s / interval_s
