"""`osml learn models rollback`: the champion before the last promotion answers again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Console

from osml.predictors import models_folder
from osml_training.cli.extra import need


def rollback_command(
    kind: Annotated[Literal["c"], typer.Argument(help="Kind of the model: c, the model that learns online.")],
    models: Annotated[Path | None, typer.Option(help="Folder of models.", show_default="the shipped models")] = None,
    platform: Annotated[
        str | None,
        typer.Option(help="Expected platform; the command fails if the promotion was for another.", show_default="any"),
    ] = None,
    track: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="MLflow address, needed if it contains a password.",
            show_default="the address of the promotion",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            help="Experience store of the server, needed if its address contains a password.",
            show_default="the store of the promotion",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Roll back the last promotion of `osml learn train c --online`; manifest and alias are as before."""
    need("torch", "onnx", "mlflow", "sqlalchemy")
    from osml_training.learning.rollback import roll_back  # noqa: PLC0415

    document = roll_back(models or models_folder(), kind, platform, track, store)
    for warning in document["warnings"]:
        print(f"osml: {warning}", file=sys.stderr)
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    Console().print(
        f"rolled back {document['taken_back']}; {document['champion']} is the model of {document['platform']} again",
        highlight=False,
        soft_wrap=True,
    )
