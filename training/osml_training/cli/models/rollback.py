"""`osml models rollback`: the champion before the last promotion answers again."""

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
    kind: Annotated[Literal["c"], typer.Argument(help="Which model: c is the one that learns online.")],
    models: Annotated[Path | None, typer.Option(help="Folder of models.", show_default="the shipped ones")] = None,
    platform: Annotated[str | None, typer.Option(help="Refuse if it was another's.", show_default="any")] = None,
    track: Annotated[
        str | None,
        typer.Option(metavar="URI", help="MLflow, if its address has a password.", show_default="as it was promoted"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Take the last promotion of `osml train c --online` back: manifest as before, byte for byte, alias as before."""
    need("torch", "onnx", "mlflow")
    from osml_training.learning.rollback import roll_back  # noqa: PLC0415

    document = roll_back(models or models_folder(), kind, platform, track)
    for warning in document["warnings"]:
        print(f"osml: {warning}", file=sys.stderr)
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    Console().print(
        f"{document['taken_back']} is taken back; {document['champion']} decides for {document['platform']} again",
        highlight=False,
        soft_wrap=True,
    )
