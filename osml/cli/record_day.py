"""A day of the agent out of its record: what it did or, of a dry run, what it would have done."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec

from osml.base.failure import InputError
from osml.domain import DRY_RUN, Decision, Observation, Partition, Platform, Service, usable_domains
from osml.records import Line, only_watched

_CELLS = 3


class ServiceDay(msgspec.Struct, frozen=True):
    """One service with a target. `cells`: (CPUs, ways, share of the decisions), the most frequent first."""

    name: str
    target_ms: float
    percentile: str
    measured: int  # intervals with a latency
    missed: int  # of these, above the target
    median_ms: float | None
    worst_ms: float | None
    cells: list[tuple[float, int | None, float]]
    source: str | None = None  # pod or LatencyTarget that asks for it; None: the configuration of the agent


class Day(msgspec.Struct, frozen=True):
    """What a record says. Of a record that was a dry run for a while only, `decisions` and what follows from them are
    those that were applied. `free_cpus` and `free_ways`: outside of the regions of services with a target, median.
    """

    node: str
    platform: str
    dry_run: bool
    intervals: int
    seconds: float
    restarts: int
    decisions: int
    changes: int
    policies: list[str]
    infeasible: int
    services: list[ServiceDay]
    cpus: float
    ways: int | None
    free_cpus: float | None
    free_cpus_least: float | None
    free_ways: float | None
    not_known: list[str]
    only_watched: int  # intervals in which nothing was applied


class _Watched:
    """Sums over the lines, for one service."""

    def __init__(self) -> None:
        self.target_ms, self.percentile = 0.0, "p99"
        self.source: str | None = None
        self.latencies: list[float] = []
        self.missed = 0

    def see(self, service: Service, target_ms: float) -> None:
        self.target_ms, self.percentile, self.source = target_ms, service.percentile, service.source
        if service.latency_ms is not None:
            self.latencies.append(service.latency_ms)
            self.missed += service.latency_ms > target_ms

    def day(self, name: str, cells: Counter[tuple[float, int | None]]) -> ServiceDay:
        total = sum(cells.values())
        return ServiceDay(
            name, self.target_ms, self.percentile, len(self.latencies), self.missed,
            median(self.latencies) if self.latencies else None, max(self.latencies, default=None),
            [(cpus, ways, count / total) for (cpus, ways), count in cells.most_common(_CELLS)], self.source,
        )  # fmt: skip


class _Clock:
    """Time over the lines. The clock of the agent begins anew with each of its runs."""

    def __init__(self) -> None:
        self.intervals = self.restarts = self.watched = 0
        self.seconds = 0.0
        self.last: Observation | None = None

    def see(self, now: Observation) -> None:
        if self.last is not None:
            again = now.seq <= self.last.seq or now.time_s <= self.last.time_s
            self.seconds += now.interval_s if again else now.time_s - self.last.time_s
            self.restarts += again
        self.last = now
        self.intervals += 1
        self.watched += only_watched(now)


class _Decided:
    """Sums over decisions: those that were applied, or those of a dry run."""

    def __init__(self) -> None:
        self.cells: defaultdict[str, Counter[tuple[float, int | None]]] = defaultdict(Counter)
        self.count = self.changes = self.infeasible = 0
        self.policies: Counter[str] = Counter()
        self.free_cpus: list[float] = []
        self.free_ways: list[int] = []
        self.node_ways: int | None = None
        self._before: Partition | None = None

    def see(self, now: Observation, decision: Decision, watched: dict[str, _Watched]) -> None:
        partition, platform = decision.partition, now.platform
        self.changes += partition != (self._before if self.count else now.partition)
        self._before = partition
        self.count += 1
        self.infeasible += decision.infeasible is not None
        self.policies[decision.policy] += 1
        for name in watched.keys() & {service.name for service in now.services}:  # who is away has no cell
            cpus = round(platform.core_quantum * partition.cores_of(name), 6)
            self.cells[name][cpus, None if platform.ways is None else partition.ways_of(name)] += 1
        own = [region for region in partition.regions if set(region.owners) <= watched.keys()]
        self.free_cpus.append(platform.core_quantum * (platform.cores - sum(region.cores for region in own)))
        if platform.ways is not None:
            self.node_ways = _ways_of(platform, partition)
            self.free_ways.append(self.node_ways - sum(region.ways for region in own))


def _ways_of(platform: Platform, partition: Partition) -> int:
    """Ways of all caches that the partition divides: of each domain where regions name one."""
    return (platform.ways or 0) * (len(usable_domains(platform)) if partition.by_domain else 1)


def summarise(lines: Iterator[Line | Exception], file: Path) -> Day:
    """The day of a record, without lines that are damaged. InputError where it has no whole line."""
    watched: dict[str, _Watched] = {}
    clock, applied, supposed = _Clock(), _Decided(), _Decided()
    damaged: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, Line):
            damaged.append(f"line {number} is not a line of `osml-agent run --record` ({line})")
            continue
        clock.see(line.observation)
        for service in line.observation.services:
            if service.kind == "lc" and service.target_ms is not None:
                watched.setdefault(service.name, _Watched()).see(service, service.target_ms)
        if line.decision is not None:
            kind = supposed if only_watched(line.observation) else applied
            kind.see(line.observation, line.decision, watched)
    last = clock.last
    if last is None:
        why = damaged[0] if damaged else "has no whole line, expected a record of `osml-agent run --record`"
        raise InputError(f"{file}: {why}")
    dry_run = clock.watched == clock.intervals
    decided = supposed if dry_run else applied
    cpus, ways = decided.free_cpus, decided.free_ways
    return Day(
        node=last.node,
        platform=last.platform.id,
        dry_run=dry_run,
        intervals=clock.intervals,
        seconds=round(clock.seconds, 6),
        restarts=clock.restarts,
        decisions=decided.count,
        changes=decided.changes,
        policies=[policy for policy, _ in decided.policies.most_common()],
        infeasible=decided.infeasible,
        services=[found.day(name, decided.cells[name]) for name, found in watched.items()],
        cpus=last.platform.cores * last.platform.core_quantum,
        ways=decided.node_ways or last.platform.ways,
        free_cpus=round(median(cpus), 6) if cpus else None,
        free_cpus_least=round(min(cpus), 6) if cpus else None,
        free_ways=median(ways) if ways else None,
        not_known=_not_known(clock, watched, clock.intervals - applied.count - supposed.count, len(damaged)),
        only_watched=clock.watched,
    )


def _not_known(clock: _Clock, watched: dict[str, _Watched], unanswered: int, damaged: int) -> list[str]:
    out: list[str] = []
    if clock.watched:
        whole = clock.watched == clock.intervals
        when = "" if whole else f" in {clock.watched:,} of {clock.intervals:,} intervals"
        out.append(
            f"latencies under these allocations: nothing was applied{when}, so the latencies there are those of the "
            "node as it is; a policy that moves step by step may have gone further than it would have had to"
        )
        if not whole:
            out.append("decisions of those intervals: all that is said of allocations is of the others")
    missing = {} if clock.last is None else clock.last.missing
    out += [f"{name}: it never had a latency" for name, found in watched.items() if not found.latencies]
    out += [f"{what}: {why}" for what, why in sorted(missing.items()) if what != DRY_RUN]
    if damaged:
        out.append(f"{damaged} lines are damaged, and were left out")
    if unanswered:
        out.append(f"decisions of {unanswered} intervals: the server did not answer")
    return out
