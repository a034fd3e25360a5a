"""`osml train calibrate`: new margins for unknown services, the same weights."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from osml_training.cli.extra import need
from osml_training.cli.train.table import print_errors


def calibrate_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Folder or name of the model.")],
    dataset: Annotated[Path, typer.Option(metavar="DIR", help="The data set that it was trained on.")],
    models: Annotated[Path | None, typer.Option(help="Folder of models.", show_default="the shipped ones")] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2, help="Groups of services that are left out in turn.", show_default="as in the model's training"
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes; each has its own copy of the rows.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Make the margins for services that MODEL was not trained on anew; its weights stay as they are."""
    need()
    from osml_training.jobs.calibration import calibrate  # noqa: PLC0415

    with Console(stderr=True).status(f"training the groups of {model}, each without some of the services"):
        document = calibrate(model, dataset, models, folds=folds, workers=workers)
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    print_errors(document)
