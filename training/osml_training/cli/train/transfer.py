"""`osml learn train transfer`: a model for another machine out of a few of its traces."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml.base.failure import InputError
from osml_training.cli.extra import need
from osml_training.cli.picture import check_picture
from osml_training.cli.progress import bar
from osml_training.cli.train.table import print_errors


def transfer_command(
    source: Annotated[str, typer.Option("--from", metavar="MODEL", help="Folder or name of the parent model.")],
    traces: Annotated[Path, typer.Option(metavar="DIR", help="Labelled data set of the new machine.")],
    platform: Annotated[str | None, typer.Option(help="The new platform.", show_default="the platform of DIR")] = None,
    share: Annotated[float, typer.Option(help="Share of the runs to use.")] = 1.0,
    curve: Annotated[
        bool, typer.Option("--curve", help="Print errors by share of the traces; write no model.")
    ] = False,
    shares: Annotated[str, typer.Option(help="Shares of the curve, separated by commas.")] = "0.02,0.05,0.1,0.25,1",
    rows: Annotated[int | None, typer.Option(help="Number of rows in memory.", show_default="the model's")] = None,
    epochs: Annotated[int | None, typer.Option(help="Number of epochs.", show_default="the model's")] = None,
    out: Annotated[Path, typer.Option(help="Folder of models.")] = Path("out/models"),
    name: Annotated[
        str | None, typer.Option(help="Name of the new model.", show_default="MODEL-VARIANT-PLATFORM")
    ] = None,
    models: Annotated[
        Path | None, typer.Option(help="Folder of the parent model.", show_default="the shipped models")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="Picture of the curve.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Keep the first hidden layer and retrain the others on traces of the new machine (OSML section 6.4)."""
    need()
    from osml_training.jobs.transfer import draw_curve, transfer_job  # noqa: PLC0415

    changes = {key: value for key, value in (("rows", rows), ("epochs", epochs)) if value is not None}
    check_picture(plot)
    if plot is not None and not curve:
        raise InputError("--plot needs --curve: it draws the curve")
    if curve:
        wanted = _shares(shares)
        with bar("transferring", len(wanted), "shares") as progress:
            document = draw_curve(
                source,
                traces,
                platform,
                wanted,
                changes,
                models,
                plot,
                lambda _share: progress.advance(progress.task_ids[0]),
            )
    else:
        document = transfer_job(source, traces, platform, share, changes, models, out, name)
        for warning in document["warnings"]:
            print(f"osml: {warning}", file=sys.stderr)
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    elif curve:
        _print_curve(document)
    else:
        print_errors(document)
        Console().print(
            f"{document['folder']}; next: osml learn models list --models {out}", highlight=False, soft_wrap=True
        )


def _shares(told: str) -> list[float]:
    try:
        return [float(part) for part in told.split(",")]
    except ValueError:
        raise InputError(f"--shares is '{told}', expected numbers with commas between, such as 0.02,0.1,1") from None


def _print_curve(document: dict[str, Any]) -> None:
    output = document["not_retrained"]["rows"][-1]["output"]
    kind = "simulated" if document["simulated"] else "measured"
    title = f"{document['model']} on {document['platform']}: mean absolute error of {output}, held-out runs ({kind})"
    table = Table(title=title, title_justify="left")
    for name in ("traces", "runs", "transferred: cores", "ways", "from scratch: cores", "ways"):
        table.add_column(name, justify="right")
    before = document["not_retrained"]

    def cells(found: dict[str, Any] | None) -> list[str]:
        errors = [found and found[key] for key in ("core_mae", "way_mae")]
        return ["" if error is None else f"{error:.3f}" for error in errors]

    table.add_row("none", "0", *cells(before))
    for point in document["curve"]:
        table.add_row(
            f"{point['share']:.0%}", str(point["runs"]), *cells(point["transferred"]), *cells(point["scratch"])
        )
    Console().print(table)
