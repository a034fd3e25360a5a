"""`osml train evaluate`: our table 5."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from osml_training.cli.train_extra import need
from osml_training.cli.train_table import print_errors


def evaluate_command(
    model: Annotated[str, typer.Option(help="Folder of a model, or the name of one in the folder of models.")],
    platform: Annotated[str | None, typer.Option(help="Platform.", show_default="the model's own")] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Labelled data set.", show_default="a fresh sweep of the virtual node"),
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows of each part, at most.")] = 200_000,
    baseline: Annotated[bool, typer.Option("--baselines", help="Lines, trees and a table lookup beside it.")] = False,
    importance: Annotated[bool, typer.Option("--importance", help="Permutation importance, Spearman.")] = False,
    floor: Annotated[
        bool, typer.Option("--floor", help="What measurement noise leaves to the best predictor.")
    ] = False,
    models: Annotated[Path | None, typer.Option(help="Folder of models.", show_default="the shipped ones")] = None,
    seed: Annotated[int, typer.Option(help="Of the fresh sweep.")] = 1001,
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="Calibration plot.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Errors on runs that the model was not trained on, beside the paper's table 5; whether its margins hold."""
    need()
    from osml_training.jobs.evaluation import evaluation  # noqa: PLC0415

    document: dict[str, Any] = evaluation(
        model, platform=platform, dataset=dataset, rows=rows, with_baselines=baseline, with_importance=importance,
        with_floor=floor, models=models, seed=seed, plot=plot,
    )  # fmt: skip
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    print_errors(document)
