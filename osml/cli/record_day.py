"""A day of the agent out of its record: what it did or, of a dry run, what it would have done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec

from osml.base.failure import InputError
from osml.cli.record_decisions import Decisions
from osml.domain import DRY_RUN, Observation, Service
from osml.records import Line, check_same_machine, only_watched

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
    not_applied: dict[str, int]  # further decisions, by their outcome: refused, rolled_back, failed


class _Watched:
    """Sums over the lines, for one service."""

    def __init__(self) -> None:
        self.target_ms, self.percentile = 0.0, "p99"
        self.source: str | None = None
        self.latencies: list[float] = []
        self.missed = self.intervals = 0

    def see(self, service: Service, target_ms: float) -> None:
        self.target_ms, self.percentile, self.source = target_ms, service.percentile, service.source
        self.intervals += 1
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
        self.missing: Counter[str] = Counter()  # intervals
        self.why: dict[str, str] = {}  # as it was said last

    def see(self, now: Observation) -> bool:
        """See the next line. Returns whether another run of the agent begins with it."""
        again = False
        if self.last is not None:
            again = now.seq <= self.last.seq or now.time_s <= self.last.time_s
            self.seconds += now.interval_s if again else now.time_s - self.last.time_s
            self.restarts += again
        self.last = now
        self.intervals += 1
        self.watched += only_watched(now)
        for what, why in now.missing.items():
            if what != DRY_RUN:
                self.missing[what] += 1
                self.why[what] = why
        return again


def summarise(lines: Iterator[Line | Exception], file: Path) -> Day:
    """The day of a record, without lines that are damaged. InputError where it has no whole line."""
    watched: dict[str, _Watched] = {}
    clock, decisions = _Clock(), Decisions()
    damaged: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, Line):
            damaged.append(f"line {number} is not a line of `osml-agent run --record` ({line})")
            continue
        if clock.last is not None:
            check_same_machine(clock.last, line.observation, f"{file}: line {number}")
        again = clock.see(line.observation)
        for service in line.observation.services:
            if service.kind == "lc" and service.target_ms is not None:
                watched.setdefault(service.name, _Watched()).see(service, service.target_ms)
        decisions.see(line, watched.keys(), again=again)
    decisions.end()
    last = clock.last
    if last is None:
        why = damaged[0] if damaged else "has no whole line, expected a record of `osml-agent run --record`"
        raise InputError(f"{file}: {why}")
    dry_run = clock.watched == clock.intervals
    decided = decisions.supposed if dry_run else decisions.applied
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
        not_known=_not_known(clock, watched, clock.intervals - decisions.answered, len(damaged)),
        only_watched=clock.watched,
        not_applied=dict(decided.not_applied.most_common()),
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
    for name, found in watched.items():
        without = found.intervals - len(found.latencies)
        if without == found.intervals:
            out.append(f"{name}: it never had a latency")
        elif without:
            out.append(f"{name}: it had no latency in {without:,} of {found.intervals:,} intervals")
    for what, count in sorted(clock.missing.items()):
        when = "" if count == clock.intervals else f" (in {count:,} of {clock.intervals:,} intervals)"
        out.append(f"{what}: {clock.why[what]}{when}")
    if damaged:
        out.append(f"{damaged} lines are damaged, and were left out")
    if unanswered:
        out.append(f"decisions of {unanswered} intervals: the server did not answer")
    return out
