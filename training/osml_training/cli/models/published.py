"""`osml learn models import-published`: the authors' weights in our form, and how they fare."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml_training.cli.extra import need


def import_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="JSON...", help="Description files (JSON); their arrays are beside them.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of models.")] = Path("out/published"),
    compare: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Labelled data set to compare with (A and A').")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Convert published OSML weights into ONNX models; with --compare print their errors against the labels."""
    need("onnx", "onnxruntime")
    from osml.predictors import load_predictor  # noqa: PLC0415
    from osml_training.published.convert import import_published  # noqa: PLC0415

    document: dict[str, Any] = {"models": []}
    for file in files:
        folder = import_published(file, out)
        predictor = load_predictor(folder)
        platform = predictor.metadata.platforms[0]
        found: dict[str, Any] = {"name": predictor.metadata.name, "folder": str(folder), "platform": platform}
        if compare is not None:
            need()
            from osml.simulator import catalogs  # noqa: PLC0415
            from osml_training.published.compare import compare as compared  # noqa: PLC0415

            machine = catalogs.platform(platform)
            found |= compared(predictor, compare, platform, machine.cpus, machine.ways)
        document["models"].append(found)
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    _print(document, out)


def _print(document: dict[str, Any], out: Path) -> None:
    table = Table(title=f"Published models in {out}; errors on the virtual node (simulated)", title_justify="left")
    for name in ("model", "against", "output", "cores", "bias", "ways", "bias"):
        table.add_column(name)
    for model in document["models"]:
        against: dict[str, Any] = model.get("against", {})
        if not against:
            table.add_row(model["name"], model.get("note", "not compared"))
        for labels, outputs in against.items():
            for output, e in outputs.items():
                table.add_row(
                    model["name"],
                    labels,
                    output,
                    f"{e['core_mae']:.2f}",
                    f"{e['core_bias']:+.2f}",
                    f"{e['way_mae']:.2f}",
                    f"{e['way_bias']:+.2f}",
                )
    Console().print(table)
