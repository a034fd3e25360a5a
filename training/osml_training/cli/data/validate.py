"""`osml learn data validate`: what is wrong in a data set, and where."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from osml_training.cli.plain_text import plain_text
from osml_training.cli.progress import bar

if TYPE_CHECKING:
    from osml.datasets.checks.finding import Finding, Report

_NUMBERS = re.compile(r"\b(?:[0-9a-f]{12,}|[0-9][0-9.e+]*)")
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def _grouped(report: Report) -> list[list[Finding]]:
    """Findings that differ in numbers and names of runs only, errors first."""
    groups: dict[tuple[str, str | None, str], list[Finding]] = {}
    for found in report.findings:
        key = (found.severity, found.column, _NUMBERS.sub("#", found.message))
        groups.setdefault(key, []).append(found)
    order = list(_COLOURS)
    return sorted(groups.values(), key=lambda alike: order.index(alike[0].severity))


def show(report: Report) -> None:
    """A table for people."""
    console = Console()
    if report.findings:
        table = Table(title="Findings (all places: --json)", title_justify="left")
        for heading in ("", "places", "column", "what", "first place"):
            table.add_column(heading, overflow="fold", justify="right" if heading == "places" else "left")
        for alike in _grouped(report):
            first = alike[0]
            group = "" if first.row_group is None else f", row group {first.row_group}"
            severity = Text(first.severity, _COLOURS[first.severity])
            column, what, where = map(plain_text, (first.column or "", first.message, f"{first.file or ''}{group}"))
            table.add_row(severity, str(len(alike)), column, what, where)
        console.print(table)
    if (more := sum(report.counts.values()) - len(report.findings)) > 0:
        console.print(f"{more:,} more findings are not shown", highlight=False)
    verdict = "accepted" if report.accepted else "NOT accepted"
    console.print(f"{report.rows:,} rows of {report.runs:,} runs in {report.files} files: {verdict}", highlight=False)


def validate_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder of a data set, or one traces file.")],
    max_gib: Annotated[float, typer.Option(help="Largest size of a contribution.")] = 20.0,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Check schema, units, ranges, monotonicity, duplicates, leaks, personal data, size. Exit code 1 means errors."""
    from osml.datasets.checks.finding import document  # noqa: PLC0415
    from osml.datasets.validate import validate  # noqa: PLC0415

    total = len(list((path / "traces").rglob("*.parquet"))) if path.is_dir() else 1
    with bar("checking", total, "files") as progress:
        report = validate(path, max_gib=max_gib, done=lambda _: progress.advance(progress.task_ids[0]))
    if json:
        sys.stdout.write(msgspec.json.encode(document(report)).decode() + "\n")
    else:
        show(report)
    if not report.accepted:
        raise typer.Exit(1)
