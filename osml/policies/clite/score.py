"""CLITE's score of a partition (HPCA 2020, equation 3): up to 1/2 while a target is missed, above where all hold."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

from osml.domain import Service

MET = 0.5  # from here on all targets hold
_LEAST = 1e-6  # a job that stands still: the geometric mean must not be zero whatever the others do


def score(services: Sequence[Service]) -> float | None:
    """Half the geometric mean of target/latency (each at most 1), or 1/2 plus half that of the jobs' performance.

    Performance is the speed relative to running alone: of BE jobs; without them (or where no speed of theirs is known)
    of LC services. None where some LC service has no latency, or there is nothing to judge by.
    """
    lc = [service for service in services if service.kind == "lc"]
    slacks = [service.slack for service in lc]
    if any(slack is None for slack in slacks):
        return None
    slowdowns = [slow for service in services if service.kind == "be" and (slow := service.slowdown) is not None]
    if any(slack is not None and slack < 0 for slack in slacks):
        return MET * geometric_mean([_target_ratio(service) for service in lc])
    performance = [1.0 / slowdown for slowdown in slowdowns] or [_lc_performance(service) for service in lc]
    if not performance:
        return None
    return MET + (1.0 - MET) * geometric_mean([min(1.0, max(_LEAST, value)) for value in performance])


def leader(services: Sequence[Service]) -> str | None:
    """The LC service that is furthest below its target, or nearest to it; None where none has a latency."""
    slacks = {one.name: slack for one in services if one.kind == "lc" and (slack := one.slack) is not None}
    return max(slacks, key=lambda name: slacks[name], default=None)


def _target_ratio(service: Service) -> float:
    latency_ms, target_ms = service.latency_ms or 0.0, service.target_ms or 0.0
    return 1.0 if latency_ms <= target_ms else max(_LEAST, target_ms / latency_ms)


def _lc_performance(service: Service) -> float:
    """Ideal over measured latency; where the ideal is not known, the slack."""
    latency_ms = service.latency_ms or 0.0
    if service.ideal_ms is None or latency_ms <= 0:
        return service.slack or 0.0
    return service.ideal_ms / latency_ms
