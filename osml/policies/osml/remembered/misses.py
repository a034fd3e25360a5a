"""Which missed targets are real, and which are about to be over."""

from __future__ import annotations

import math

from osml.domain import Service
from osml.policies.osml.remembered.service_memory import ENDURED, Known

SETTLE = 2
"""Intervals after which a cell, or a way to run the node, shows what it is worth."""

CALM = 2
"""Intervals with all targets met before anything is taken back, and before a miss is over for the scheduler above."""

PATIENCE = 40
"""Intervals that a queue may take to drain before more is asked for."""

BAD = 0.1
"""A target missed by more than this is acted upon at once, by less in the second interval."""

CLOSE, CLOSE_TO_JOBS = 0.8, 0.7
"""Latency over target, in the mean, beyond which a service gives nothing after its first step, whatever is predicted:
PARTIES' slack of 20 % for giving (section 4.3), and more where BE jobs get it, which make it slower with that."""

ONCE, LASTING = 1.0, 0.25
"""A tail of n requests has an error of about 0.3 / sqrt(n): three times that for one interval, twice for the mean."""

_BEYOND = {"p99": 0.01, "p95": 0.05}
"""Share of the requests that are slower than the percentile."""


def really_missed(known: Known, service: Service) -> bool:
    """Whether a missed target is more than the noise of a tail that few requests made."""
    if not known.missed:
        return False
    latency_ms, target_ms = service.latency_ms, service.target_ms
    if latency_ms is None or target_ms is None or service.latency is None:
        return False
    samples = service.latency.samples
    tail = math.inf if samples is None else max(1.0, _BEYOND.get(service.percentile, 0.5) * samples)
    if known.missed_balance >= ENDURED:
        return True
    once = latency_ms > (1.0 + ONCE / math.sqrt(tail)) * target_ms
    return once or (known.settled >= SETTLE and (known.level or 0.0) > 1.0 + LASTING / math.sqrt(tail))


def drains(before: Known | None, service: Service) -> bool:
    """Whether the latency of a service falls so that it meets its target within PATIENCE intervals."""
    latency_ms, target_ms = service.latency_ms, service.target_ms
    if before is None or before.latency_ms is None or latency_ms is None or target_ms is None:
        return False
    fall = before.latency_ms - latency_ms
    return fall > 0.01 * before.latency_ms and latency_ms - target_ms <= PATIENCE * fall


def alarming(known: Known, before: Known | None, service: Service) -> bool:
    """Whether a missed target is worth acting on: not just after a change, not getting better, not slight and new."""
    slack = service.slack
    if slack is None or known.settled < 1 or drains(before, service):
        return False
    return slack < -BAD or known.missed > 1 or known.missed_balance >= ENDURED


def over(service: Service) -> float | None:
    """Latency over target; None where one is missing."""
    latency_ms, target_ms = service.latency_ms, service.target_ms
    return None if latency_ms is None or target_ms is None else latency_ms / target_ms
