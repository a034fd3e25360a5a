"""`osml look report RECORD`: a day of the agent on one page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml.cli.record_day import Day, summarise
from osml.records import read


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
    console.print(
        f"{day.node} on {day.platform}: {day.intervals:,} intervals in {_duration(day.seconds)}, {_kind(day)}",
        markup=False,
    )
    if day.restarts:
        console.print(f"restarts of the agent: {day.restarts}")
    policies = ", ".join(day.policies) or "no policy"
    console.print(f"{policies}: {day.decisions:,} decisions, {day.changes:,} of them changed the allocation")
    if day.not_applied:
        outcomes = ", ".join(f"{count:,} {status.replace('_', ' ')}" for status, count in day.not_applied.items())
        were = "would not have been" if day.dry_run else "were not"
        console.print(f"{sum(day.not_applied.values()):,} more decisions {were} applied: {outcomes}")
    table = Table("service", "target", "missed", "median ms", "worst ms", f"what it {would} given: CPUs, ways (share)")
    for one in day.services:
        missed = f"{one.missed / one.measured:.1%} of {one.measured:,}" if one.measured else "not measured"
        cells = "; ".join(
            f"{cpus:g}{'' if ways is None else f', {ways}'} ({share:.0%})" for cpus, ways, share in one.cells
        )
        cells = cells or ("" if day.decisions else "nothing, without an applied decision")
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


def _kind(day: Day) -> str:
    if day.dry_run:
        return "dry run, nothing was applied"
    if day.only_watched:
        return f"nothing was applied in {day.only_watched:,} of them"
    if not day.decisions:
        return "none of the decisions was applied" if day.not_applied else "there were no decisions"
    return "some of the decisions were applied" if day.not_applied else "decisions were applied"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.1f} min"
