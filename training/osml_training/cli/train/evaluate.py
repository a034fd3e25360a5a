"""`osml train evaluate`: our table 5."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from osml.base.failure import InputError
from osml_training.cli.extra import need
from osml_training.cli.picture import check_picture
from osml_training.cli.train.c_table import print_policies
from osml_training.cli.train.table import print_errors


def evaluate_command(
    model: Annotated[str, typer.Option(help="Folder of a model, or the name of one in the folder of models.")],
    platform: Annotated[str | None, typer.Option(help="Platform.", show_default="the model's own")] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Labelled data set.", show_default="a fresh sweep of the virtual node"),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of each part, at most.")] = 200_000,
    baseline: Annotated[bool, typer.Option("--baselines", help="Lines, trees and a table lookup beside it.")] = False,
    importance: Annotated[bool, typer.Option("--importance", help="Permutation importance, Spearman.")] = False,
    floor: Annotated[
        bool, typer.Option("--floor", help="What measurement noise leaves to the best predictor.")
    ] = False,
    reachable: Annotated[
        bool, typer.Option("--reachable", help="Nearest neighbours without end, and a network eight times as large.")
    ] = False,
    left_out: Annotated[
        bool, typer.Option("--left-out", help="Margins for unknown services, judged by services of the training.")
    ] = False,
    models: Annotated[Path | None, typer.Option(help="Folder of models.", show_default="the shipped ones")] = None,
    seed: Annotated[int, typer.Option(help="Of the fresh sweep.")] = 1001,
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="Calibration plot.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Errors on runs that the model was not trained on, beside the paper's table 5; whether its margins hold.

    Of a Model-C: where its greedy actions lead there, beside random ones and the straight way to OAA.
    """
    need()
    check_picture(plot)
    from osml.predictors import read_metadata  # noqa: PLC0415
    from osml_training.jobs.evaluation import evaluation, folder_of  # noqa: PLC0415

    if read_metadata(folder_of(model, models)).kind == "c":
        if baseline or importance or floor or reachable or left_out or plot:
            raise InputError(
                "--baselines, --importance, --floor, --reachable, --left-out and --plot are for A, A', B and B'; "
                "model is a C"
            )
        from osml_training.dqn.evaluate import evaluation_of  # noqa: PLC0415

        found = evaluation_of(folder_of(model, models), platform=platform, dataset=dataset, statuses=rows, seed=seed)
        if json:
            sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
            return
        print_policies(found)
        return

    document: dict[str, Any] = evaluation(
        model, platform=platform, dataset=dataset, rows=rows, with_baselines=baseline, with_importance=importance,
        with_floor=floor, with_reachable=reachable, with_left_out=left_out, models=models, seed=seed, plot=plot,
    )  # fmt: skip
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    print_errors(document)
