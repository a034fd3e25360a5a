"""`osml look report RECORD`: a day of the agent on one page, what it did or, of a dry run, what it would have done."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml.base.failure import InputError
from osml.domain import DRY_RUN, Observation, Partition, Platform, usable_domains
from osml.records import Line, read

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
    """What a record says. `free_cpus` and `free_ways`: outside of the regions of services with a target, median."""

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


class _Watched:
    """Sums over the lines, for one service."""

    def __init__(self) -> None:
        self.target_ms, self.percentile = 0.0, "p99"
        self.source: str | None = None
        self.latencies: list[float] = []
        self.missed = 0
        self.cells: Counter[tuple[float, int | None]] = Counter()


def _for_targets(partition: Partition, lc: set[str]) -> tuple[int, int]:
    """Core units and ways that only services with a target may use."""
    own = [region for region in partition.regions if set(region.owners) <= lc]
    return sum(region.cores for region in own), sum(region.ways for region in own)


def _ways_of(platform: Platform, partition: Partition) -> int:
    """Ways of all caches that the partition divides: of each domain where regions name one."""
    return (platform.ways or 0) * (len(usable_domains(platform)) if partition.by_domain else 1)


def summarise(lines: Iterator[Line | Exception], file: Path) -> Day:
    """The day of a record, without lines that are damaged. InputError where it has no whole line."""
    watched: dict[str, _Watched] = {}
    policies: Counter[str] = Counter()
    free_cpus: list[float] = []
    free_ways: list[int] = []
    node_ways: int | None = None
    first = last = None
    before: Partition | None = None
    intervals = decisions = changes = infeasible = damaged = restarts = 0
    seconds = 0.0
    why = ""
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, Line):
            damaged += 1
            why = why or f"line {number} is not a line of `osml-agent run --record` ({line})"
            continue
        now = line.observation
        if last is not None:  # the agent's clock begins anew with each of its runs
            again = now.seq <= last.seq or now.time_s <= last.time_s
            seconds += now.interval_s if again else now.time_s - last.time_s
            restarts += again
        last, first = now, first or now
        intervals += 1
        for service in last.services:
            if service.kind == "lc" and service.target_ms is not None:
                found = watched.setdefault(service.name, _Watched())
                found.target_ms, found.percentile = service.target_ms, service.percentile
                found.source = service.source
                if service.latency_ms is not None:
                    found.latencies.append(service.latency_ms)
                    found.missed += service.latency_ms > service.target_ms
        if line.decision is None:
            continue
        partition, platform = line.decision.partition, last.platform
        changes += partition != (before if decisions else last.partition)
        decisions += 1
        before = partition
        infeasible += line.decision.infeasible is not None
        policies[line.decision.policy] += 1
        for name in watched.keys() & {service.name for service in last.services}:  # who is away has no cell
            found = watched[name]
            cpus = round(platform.core_quantum * partition.cores_of(name), 6)
            found.cells[cpus, None if platform.ways is None else partition.ways_of(name)] += 1
        cores, ways = _for_targets(partition, set(watched))
        free_cpus.append(platform.core_quantum * (platform.cores - cores))
        if platform.ways is not None:
            node_ways = _ways_of(platform, partition)
            free_ways.append(node_ways - ways)
    if first is None or last is None:
        raise InputError(f"{file}: {why or 'has no whole line, expected a record of `osml-agent run --record`'}")
    return Day(
        last.node, last.platform.id, DRY_RUN in last.missing, intervals, round(seconds, 6), restarts, decisions,
        changes,
        [policy for policy, _ in policies.most_common()], infeasible,
        [_service(name, found) for name, found in watched.items()],
        last.platform.cores * last.platform.core_quantum, node_ways or last.platform.ways,
        round(median(free_cpus), 6) if free_cpus else None, round(min(free_cpus), 6) if free_cpus else None,
        median(free_ways) if free_ways else None, _not_known(last, watched, intervals - decisions, damaged),
    )  # fmt: skip


def _service(name: str, found: _Watched) -> ServiceDay:
    total = sum(found.cells.values())
    return ServiceDay(
        name, found.target_ms, found.percentile, len(found.latencies), found.missed,
        median(found.latencies) if found.latencies else None, max(found.latencies, default=None),
        [(cpus, ways, count / total) for (cpus, ways), count in found.cells.most_common(_CELLS)], found.source,
    )  # fmt: skip


def _not_known(last: Observation, watched: dict[str, _Watched], unanswered: int, damaged: int) -> list[str]:
    out: list[str] = []
    if DRY_RUN in last.missing:
        out.append(
            "latencies under these allocations: nothing was applied, so all latencies are those of the node as it is; "
            "a policy that moves step by step may have gone further than it would have had to"
        )
    out += [f"{name}: it never had a latency" for name, found in watched.items() if not found.latencies]
    out += [f"{what}: {why}" for what, why in sorted(last.missing.items()) if what != DRY_RUN]
    if damaged:
        out.append(f"{damaged} lines are damaged, and were left out")
    if unanswered:
        out.append(f"decisions of {unanswered} intervals: the server did not answer")
    return out


def report(
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="File of `osml-agent run --record`.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Report a record of the agent on one page: missed targets, allocations, what is free for jobs, what is not known.

    Of a dry run it says what would have been.
    """
    day = summarise(read(record), record)
    if json:
        sys.stdout.write(msgspec.json.encode(day).decode() + "\n")
        return
    _show(day, Console(highlight=False, soft_wrap=True, emoji=False))  # "osml:ab:" is no picture


def _show(day: Day, console: Console) -> None:
    would = "would have been" if day.dry_run else "was"
    kind = "dry run, nothing was applied" if day.dry_run else "decisions were applied"
    console.print(
        f"{day.node} on {day.platform}: {day.intervals:,} intervals in {_duration(day.seconds)}, {kind}", markup=False
    )
    if day.restarts:
        console.print(f"restarts of the agent: {day.restarts}")
    policies = ", ".join(day.policies) or "no policy"
    console.print(f"{policies}: {day.decisions:,} decisions, {day.changes:,} of them changed the allocation")
    table = Table("service", "target", "missed", "median ms", "worst ms", f"what it {would} given: CPUs, ways (share)")
    for one in day.services:
        missed = f"{one.missed / one.measured:.1%} of {one.measured:,}" if one.measured else "not measured"
        cells = "; ".join(
            f"{cpus:g}{'' if ways is None else f', {ways}'} ({share:.0%})" for cpus, ways, share in one.cells
        )
        table.add_row(
            one.name, f"{one.percentile} {one.target_ms:g} ms", missed, _ms(one.median_ms), _ms(one.worst_ms), cells
        )
    console.print(table)
    asked = [f"{one.name} ({one.source})" for one in day.services if one.source is not None]
    if asked:
        console.print(f"asked for by pods or LatencyTargets: {', '.join(asked)}", markup=False)
    if day.free_cpus is not None:
        ways = "" if day.free_ways is None else f"; {day.free_ways:g} of {day.ways} ways"
        console.print(
            f"not reserved for these services, so free for jobs: {day.free_cpus:g} of {day.cpus:g} CPUs "
            f"(median; at least {day.free_cpus_least:g}){ways}"
        )
    if day.infeasible:
        console.print(f"in {day.infeasible:,} decisions the node could not satisfy its services")
    console.print("not known:" if day.not_known else "everything was measured")
    for text in day.not_known:
        console.print(f"- {text}", markup=False)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
