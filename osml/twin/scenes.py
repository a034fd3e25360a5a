"""A record condensed: who is on the machine, and scenes, in which allocations and loads are alike."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from osml.base.failure import InputError
from osml.domain import Assignment, Observation, Service
from osml.records import Record, only_watched
from osml.simulator.columns import FloatArray
from osml.twin.stolen import robbed_intervals

LATENCIES = ("p50", "p95", "p99", "mean")
COUNTERS = ("cpu", "ipc", "mpki", "occupancy", "bandwidth", "speed")
SEEN = (*LATENCIES, *COUNTERS)
"""What is compared: latencies in ms, CPUs used, instructions per cycle, misses of the last-level cache per 1000
instructions, MiB of that cache, GB/s, a job's rate of work over its rate alone."""

SETTLING = 3
"""Intervals after a change of the allocation, or after a gap, that are left out: sensors may be late."""

MOST_SCENES = 10
_LEAST = 5  # intervals of a scene
_PATIENCE = ((SETTLING, _LEAST), (1, 3), (0, 2))
"""Intervals to settle and intervals of a scene, in the order in which they are tried."""

_MOVES = 20
_ENOUGH = 60  # intervals of all scenes
_EMPTY = 1e-9


@dataclass(frozen=True)
class Tenant:
    """A service or job as the record describes it. `threads` is None where nobody counted them.

    `min_cores` to `max_ways` are the operator's limits, as in `osml.domain.Service`.
    """

    name: str
    kind: str
    target_ms: float | None
    percentile: str
    threads: int | None
    min_cores: int = 1
    max_cores: int | None = None
    min_ways: int = 1
    max_ways: int | None = None


@dataclass(frozen=True)
class Reading:
    """Mean and spread of the logarithm of one measured quantity over the intervals of a scene."""

    log: float
    spread: float
    count: int


@dataclass(frozen=True)
class Scene:
    """Intervals with one allocation and similar loads. `rates` are requests/s, `throttled` shares of the time.

    `seen[tenant][quantity]` is what was measured; `missed` are the tenants' shares of intervals above the target.
    `slowed` is whether the slowdown of a job was known, which E_S then has a part of.
    """

    intervals: tuple[int, ...]
    present: tuple[str, ...]
    grants: Mapping[str, Assignment]
    rates: Mapping[str, float]
    seen: Mapping[str, Mapping[str, Reading]]
    throttled: Mapping[str, float]
    missed: Mapping[str, float]
    slowed: bool = True


def check_one_cache(observations: Iterable[Observation]) -> None:
    """Raise InputError where services were placed in cache domains: a twin knows one cache."""
    for one in observations:
        if one.partition is not None and one.partition.by_domain:
            raise InputError(
                f"node '{one.node}' has services in several cache domains (interval {one.seq}); a twin knows one cache"
            )


def check_one_class(record: Record) -> None:
    """Raise InputError where somebody was a service and then a job, or a job and then a service: a twin knows one."""
    kinds: dict[str, str] = {}
    for number, line in enumerate(record.lines, start=1):
        for service in line.observation.services:
            before = kinds.setdefault(service.name, service.kind)
            if service.kind != before:
                raise InputError(
                    f"'{service.name}' has class {service.kind} in line {number} and {before} before; "
                    "give a record of one of them"
                )


def tenants_of(record: Record) -> tuple[Tenant, ...]:
    """Everybody who was on the machine, services first, as last described."""
    last: dict[str, Service] = {}
    threads: dict[str, int] = {}
    for line in record.lines:
        for service in line.observation.services:
            last[service.name] = service
            if service.counters.threads:
                threads[service.name] = max(threads.get(service.name, 0), service.counters.threads)
    found = [
        Tenant(
            one.name, one.kind, one.target_ms, one.percentile, threads.get(one.name), one.min_cores, one.max_cores,
            one.min_ways, one.max_ways,
        )
        for one in last.values()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: one.kind == "be"))


def measured(service: Service) -> dict[str, float]:
    """What was measured of a tenant in one interval, by the names of SEEN; only numbers above 0."""
    latency, counters = service.latency, service.counters
    found: dict[str, float | None] = {
        "cpu": counters.cpu_usage_cores, "ipc": counters.ipc, "occupancy": counters.llc_occupancy_mib,
        "bandwidth": counters.bandwidth_gbps,
    }  # fmt: skip
    if latency is not None and service.kind == "lc":
        found |= {"p50": latency.p50_ms, "p95": latency.p95_ms, "p99": latency.p99_ms, "mean": latency.mean_ms}
    if counters.llc_misses is not None and counters.instructions:
        found["mpki"] = 1000.0 * counters.llc_misses / counters.instructions
    if service.kind == "be" and counters.work_rate is not None and service.work_rate_solo:
        found["speed"] = counters.work_rate / service.work_rate_solo
    return {name: value for name, value in found.items() if value is not None and math.isfinite(value) and value > 0}


def rate_of(service: Service) -> float | None:
    """Requests/s of a service; None where nobody counted them."""
    return None if service.latency is None else service.latency.requests_per_s


def grants_in(observation: Observation) -> dict[str, Assignment]:
    """What was in force in an interval; nothing is known to be where the agent only watched."""
    return {} if only_watched(observation) else {one.service: one for one in observation.assignments}


def scenes_of(record: Record, *, seed: int = 0, most: int = MOST_SCENES) -> tuple[Scene, ...]:
    """At most so many scenes: allocations that were long in force, each divided by load. The same seed, the same.

    Where a policy moves all the time, shorter stays and less settled intervals have to do.
    """
    groups, least = _longest(record, most)
    total = sum(len(group) for group in groups)
    found: list[Scene] = []
    for group in groups:
        parts = max(1, min(round(most * len(group) / total), len(group) // _LEAST))
        found += [_scene(record, part, least) for part in _by_load(record, group, parts, seed)]
    return tuple(sorted(found, key=lambda scene: scene.intervals[0])[: 2 * most])


def last_scene(record: Record) -> Scene | None:
    """What is in force at the end of a record, as one scene; None where it is too new, or was robbed of CPU time.

    What was before the last gap does not count: loads may have been others.
    """
    first = max(record.gaps, default=0)
    newest = _key(record.lines[-1].observation)
    for settling, least in _PATIENCE:
        group: list[int] = []
        for at in reversed(list(usable_intervals(record, settling))):
            if at < first or _key(record.lines[at].observation) != newest:
                break
            group.insert(0, at)
        if len(group) >= least:
            return _scene(record, group, least)
    return None


def _longest(record: Record, most: int) -> tuple[list[list[int]], int]:
    """The allocations that were longest in force, and how many intervals a scene has to have."""
    groups: list[list[int]] = []
    least = _LEAST
    for settling, least in _PATIENCE:
        groups = sorted(_groups(record, settling).values(), key=lambda group: (-len(group), group[0]))
        groups = [group for group in groups if len(group) >= least][:most]
        if sum(len(group) for group in groups) >= min(_ENOUGH, 0.2 * len(record.lines)):
            break
    return groups, least


def usable_intervals(record: Record, settling: int = SETTLING) -> Iterator[int]:
    """Intervals that are long enough after a change of the allocation, a coming or going, or a gap.

    What a hypervisor took much from is left out.
    """
    before, since = b"", 0
    robbed = robbed_intervals(record)
    for at, line in enumerate(record.lines):
        key = _key(line.observation)
        since = 0 if key != before or at in record.gaps else since + 1
        before = key
        if since >= settling and at not in robbed:
            yield at


def _groups(record: Record, settling: int) -> dict[bytes, list[int]]:
    groups: dict[bytes, list[int]] = defaultdict(list)
    for at in usable_intervals(record, settling):
        groups[_key(record.lines[at].observation)].append(at)
    return groups


def _key(observation: Observation) -> bytes:
    """The same for intervals with the same tenants, of the same classes, and the same allocation."""
    names = sorted((service.name, service.kind) for service in observation.services)
    grants = grants_in(observation)
    return msgspec.json.encode([names, [grants[name] for name in sorted(grants)]])


def _by_load(record: Record, group: Sequence[int], parts: int, seed: int) -> list[list[int]]:
    """The intervals of a group, those with similar loads together."""
    if parts == 1:
        return [list(group)]
    loads: list[list[float]] = []
    for at in group:
        services = sorted(record.lines[at].observation.services, key=lambda one: one.name)
        loads.append([math.log(max(rate_of(one) or 0.0, 1e-3)) for one in services if one.kind == "lc"])
    data = np.array(loads)
    if data.size == 0 or np.ptp(data, axis=0).max() < 0.02:
        return [list(group)]
    labels = _clusters(data, parts, seed)
    found = [[at for at, label in zip(group, labels, strict=True) if label == k] for k in range(parts)]
    return [part for part in found if len(part) >= _LEAST] or [list(group)]


def _clusters(data: FloatArray, parts: int, seed: int) -> list[int]:
    """The cluster of each row (k-means, from rows drawn by seed)."""
    rng = np.random.default_rng(seed)
    centres = data[rng.choice(len(data), parts, replace=False)]
    labels = np.zeros(len(data), np.int64)
    for _ in range(_MOVES):
        labels = np.argmin(((data[:, None, :] - centres[None]) ** 2).sum(axis=2), axis=1)  # (rows,)
        centres = np.array(
            [data[labels == k].mean(axis=0) if (labels == k).any() else centres[k] for k in range(parts)]
        )
    return labels.tolist()


def _scene(record: Record, intervals: Sequence[int], least: int) -> Scene:
    logs: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rates: dict[str, list[float]] = defaultdict(list)
    throttled: dict[str, list[float]] = defaultdict(list)
    missed: dict[str, list[bool]] = defaultdict(list)
    for at in intervals:
        observation = record.lines[at].observation
        for service in observation.services:
            for name, value in measured(service).items():
                logs[service.name][name].append(math.log(value))
            if (rate := rate_of(service)) is not None:
                rates[service.name].append(rate)
            if service.counters.throttled_s is not None:
                throttled[service.name].append(service.counters.throttled_s / observation.interval_s)
            if service.slack is not None:
                missed[service.name].append(service.slack < 0)
    first = record.lines[intervals[0]].observation
    return Scene(
        tuple(intervals),
        tuple(service.name for service in first.services),
        grants_in(first),
        {name: statistics.fmean(values) for name, values in rates.items()},
        {
            tenant: {name: _reading(values) for name, values in found.items() if len(values) >= min(least, _LEAST)}
            for tenant, found in logs.items()
        },
        {name: statistics.fmean(values) for name, values in throttled.items()},
        {name: statistics.fmean(values) for name, values in missed.items()},
        any(
            one.kind == "be" and one.slowdown is not None
            for at in intervals
            for one in record.lines[at].observation.services
        ),
    )


def _reading(logs: Sequence[float]) -> Reading:
    return Reading(statistics.fmean(logs), max(statistics.pstdev(logs), _EMPTY), len(logs))
