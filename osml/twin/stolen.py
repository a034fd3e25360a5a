"""What a hypervisor took from the machine, and what that cost: measured, not modelled."""

from __future__ import annotations

import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict

import msgspec

from osml.domain import Service
from osml.records import Record

ABOVE = 0.05
"""Share of CPU time, above the usual one of the record, from which on an interval counts as robbed."""

_ALIKE = 0.2  # relative difference of loads that are compared
_FEW = 10  # intervals
_MOST = 300  # robbed intervals that are compared


class Stolen(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shares of CPU time: the usual one, and the mean of the robbed intervals, which are `robbed` of all.

    `ms` is by how much the latency of a service is higher in robbed intervals than in others with the same load, the
    median of them; a service with too few to compare is not in it.
    """

    usual: float
    mean_robbed: float
    robbed: float
    ms: dict[str, float]


def robbed_intervals(record: Record) -> frozenset[int]:
    """Intervals in which the hypervisor took much more than usual: what they show is not of the services."""
    shares = {at: line.observation.host.steal for at, line in enumerate(record.lines)}
    known = [share for share in shares.values() if share is not None]
    if not known:
        return frozenset()
    most = statistics.median(known) + ABOVE
    return frozenset(at for at, share in shares.items() if share is not None and share >= most)


def stolen_of(record: Record) -> Stolen | None:
    """What was taken over the whole record; None where the agent could not tell."""
    shares = [line.observation.host.steal for line in record.lines]
    known = [share for share in shares if share is not None]
    if not known:
        return None
    robbed = robbed_intervals(record)
    taken = [share for at in robbed if (share := shares[at]) is not None]
    return Stolen(
        round(statistics.median(known), 4),
        round(statistics.fmean(taken), 4) if taken else 0.0,
        round(len(robbed) / len(known), 4),
        _costs(record, robbed),
    )


def _costs(record: Record, robbed: frozenset[int]) -> dict[str, float]:
    """Medians over the robbed intervals of the latency above that of others with a load that is alike, ms."""
    seen: dict[str, list[tuple[float, float, bool]]] = defaultdict(list)
    for at, line in enumerate(record.lines):
        for service in line.observation.services:
            found = _load_and_latency(service)
            if found is not None:
                seen[service.name].append((*found, at in robbed))
    costs: dict[str, float] = {}
    for name, points in seen.items():
        quiet = sorted((load, ms) for load, ms, taken in points if not taken)
        loads = [load for load, _ in quiet]
        stolen = [(load, ms) for load, ms, taken in points if taken]
        more: list[float] = []
        for load, ms in stolen[:: max(1, len(stolen) // _MOST)]:
            alike = quiet[bisect_left(loads, (1 - _ALIKE) * load) : bisect_right(loads, (1 + _ALIKE) * load)]
            if len(alike) >= _FEW:
                more.append(ms - statistics.median(other for _, other in alike))
        if len(more) >= _FEW:
            costs[name] = round(statistics.median(more), 6)
    return costs


def _load_and_latency(service: Service) -> tuple[float, float] | None:
    latency_ms = service.latency_ms
    if service.kind != "lc" or latency_ms is None or service.latency is None:
        return None
    rate = service.latency.requests_per_s
    return None if not rate else (rate, latency_ms)
