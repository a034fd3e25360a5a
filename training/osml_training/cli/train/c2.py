"""`osml learn train c2`: Model-C', evaluated, exported, in its folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from osml_training.cli.extra import need
from osml_training.cli.progress import bar

HELP = "Train Model-C': how near to its target a cell would bring a service."


def c2_command(
    data: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of `osml learn data outlooks`.")],
    out: Annotated[Path, typer.Option(help="Folder of models.")] = Path("out/models"),
    name: Annotated[str, typer.Option(help="Name.")] = "c2-masked-any",
    version: Annotated[str, typer.Option(help="Version of the model.")] = "1",
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same model.")] = 0,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the rows.")] = 12,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Train Model-C' on nine of ten nodes less those for its margins; errors are of the others."""
    need()
    from osml_training.outlook.job import run_outlook_job  # noqa: PLC0415
    from osml_training.outlook.train import OutlookConfig  # noqa: PLC0415

    config = OutlookConfig(seed=seed, epochs=epochs)
    with bar("training c2", epochs, "passes") as progress:
        made = run_outlook_job(
            data, out, config, name=name, version=version,
            on_epoch=lambda done, _loss: progress.update(progress.task_ids[0], completed=done),
        )  # fmt: skip
    for warning in made.warnings:
        print(f"osml: {warning}", file=sys.stderr)
    document = {"folder": str(made.folder)} | made.document
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    console = Console()
    for row in made.document["cells"]:
        console.print(f"{row['cells']}, {row['by']}: mean absolute error {row['mae']:.3f} of the logarithm")
    console.print(f"{made.folder}: next: osml learn models list --models {made.folder.parent}", soft_wrap=True)
