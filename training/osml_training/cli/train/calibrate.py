"""`osml learn train calibrate`: new margins for unknown services, the same weights."""

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
    dataset: Annotated[Path, typer.Option(metavar="DIR", help="Data set of the model's training.")],
    models: Annotated[Path | None, typer.Option(help="Folder of models.", show_default="the shipped models")] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Number of groups of services; each is left out once.",
            show_default="as in the training of the model",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes; each has its own copy of the rows.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Make new margins for services outside the training of MODEL; its weights stay the same."""
    need()
    from osml_training.jobs.calibration import calibrate  # noqa: PLC0415

    with Console(stderr=True).status(f"training one network per group of services for {model}"):
        document = calibrate(model, dataset, models, folds=folds, workers=workers)
    for warning in document["warnings"]:
        print(f"osml: {warning}", file=sys.stderr)
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    print_errors(document)
