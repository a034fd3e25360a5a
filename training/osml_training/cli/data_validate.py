"""`osml data validate`: what is wrong in a data set, and where."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml_training.cli.data_progress import bar

if TYPE_CHECKING:
    from osml_training.data.checks.finding import Report

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


def document(report: Report) -> dict[str, Any]:
    """The JSON document of a report."""
    return {
        "findings": report.findings, "rows": report.rows, "runs": report.runs, "files": report.files,
        "bytes": report.bytes, "accepted": report.accepted,
    }  # fmt: skip


def show(report: Report) -> None:
    """A table for people."""
    console = Console()
    if report.findings:
        table = Table(title="Findings", title_justify="left")
        for heading in ("severity", "file", "row group", "column", "what"):
            table.add_column(heading, overflow="fold")
        for found in report.findings:
            group = "" if found.row_group is None else str(found.row_group)
            severity = f"[{_COLOURS[found.severity]}]{found.severity}[/]"
            table.add_row(severity, found.file or "", group, found.column or "", found.message.replace("[", "\\["))
        console.print(table)
    verdict = "accepted" if report.accepted else "NOT accepted"
    console.print(f"{report.rows:,} rows of {report.runs:,} runs in {report.files} files: {verdict}", highlight=False)


def validate_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Folder of a data set, or one traces file.")],
    max_gib: Annotated[float, typer.Option(help="Largest size of a contribution.")] = 20.0,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Check schema, units, ranges, monotonicity, duplicates, leakage, personal data and size. Exit code 1: errors."""
    from osml_training.data.validate import validate  # noqa: PLC0415

    total = len(list((path / "traces").rglob("*.parquet"))) if path.is_dir() else 1
    with bar("checking", total, "files") as progress:
        report = validate(path, max_gib=max_gib, done=lambda _: progress.advance(progress.task_ids[0]))
    if json:
        sys.stdout.write(msgspec.json.encode(document(report)).decode() + "\n")
    else:
        show(report)
    if not report.accepted:
        raise typer.Exit(1)
