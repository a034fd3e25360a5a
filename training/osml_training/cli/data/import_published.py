"""`osml learn data import-osml`: the data set published with OSML in our columns."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from osml.base.failure import InputError


def import_command(
    source: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that contains single/ and multiple/.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder of the data set.")],
    platform: Annotated[str, typer.Option(help="Platform of the traces: catalog id or YAML file.")] = "e5-2697v4",
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Import traces of the data set published with OSML; docs/reference/published-data.md lists the conversions."""
    from osml.simulator import catalogs  # noqa: PLC0415
    from osml_training.collect.import_osml import describe_import, import_osml  # noqa: PLC0415

    try:
        model = catalogs.platform(platform)
    except catalogs.CatalogError as error:
        raise InputError(str(error)) from None
    console = Console(stderr=True)
    rows = 0
    with console.status("importing") as status:

        def done(case: str, count: int) -> None:
            nonlocal rows
            rows += count
            status.update(f"importing {case}: {rows:,} rows")

        report = import_osml(source, out, model, done)
    describe_import(out, model)
    document: dict[str, Any] = {
        "dataset": str(out),
        "simulated": False,
        "rows": report.rows,
        "runs": report.runs,
        "skipped": [skipped._asdict() for skipped in report.skipped],
        "nulled": report.repaired,
    }
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    nulled = ", ".join(f"{name} {count:,}" for name, count in sorted(report.repaired.items()) if count) or "none"
    Console().print(
        f"{report.rows:,} rows of {report.runs:,} runs in {out}\nmeaningless values, set to null: {nulled}\n"
        f"skipped: {len(report.skipped):,} files or cases",
        highlight=False,
        soft_wrap=True,
    )
    for skipped in report.skipped[:10]:
        typer.echo(f"  {skipped.path}: {skipped.message}", err=True)
