"""`osml learn train evaluate`: our table 5."""

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
    model: Annotated[str, typer.Option(help="Folder of a model, or its name in the folder of models.")],
    platform: Annotated[str | None, typer.Option(help="Platform.", show_default="the platform of the model")] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Labelled data set.", show_default="a fresh sweep of the virtual node"),
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Maximum number of rows of each part.")] = 200_000,
    baseline: Annotated[
        bool, typer.Option("--baselines", help="Add a linear model, boosted trees and nearest neighbours.")
    ] = False,
    importance: Annotated[
        bool, typer.Option("--importance", help="Add permutation importance and rank correlations.")
    ] = False,
    floor: Annotated[
        bool, typer.Option("--floor", help="Add the noise floor: how far noise alone moves the labels.")
    ] = False,
    reachable: Annotated[
        bool,
        typer.Option(
            "--reachable", help="Add the attainable error: extrapolated nearest neighbours and a larger network."
        ),
    ] = False,
    left_out: Annotated[
        bool,
        typer.Option("--left-out", help="Add the coverage of margins for services that were left out of the training."),
    ] = False,
    models: Annotated[Path | None, typer.Option(help="Folder of models.", show_default="the shipped models")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the fresh sweep.")] = 1001,
    plot: Annotated[Path | None, typer.Option(metavar="PNG", help="Calibration plot.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Print errors on held-out runs beside the paper's table 5, and the coverage of the margins.

    For a Model-C: the result of its greedy actions, beside random actions and the straight way to the OAA.
    """
    need()
    check_picture(plot)
    from osml.predictors import read_metadata  # noqa: PLC0415
    from osml_training.jobs.evaluation import evaluation, folder_of  # noqa: PLC0415

    kind = read_metadata(folder_of(model, models)).kind
    if kind == "c2":
        raise InputError(
            f"model '{model}' is a Model-C', expected another: its errors are in its card, made at training"
        )
    if kind == "c":
        if baseline or importance or floor or reachable or left_out or plot:
            raise InputError(
                "--baselines, --importance, --floor, --reachable, --left-out and --plot apply to A, A', B and B', "
                "not to Model-C"
            )
        from osml_training.dqn.evaluate import evaluation_of  # noqa: PLC0415

        found = evaluation_of(folder_of(model, models), platform=platform, dataset=dataset, statuses=rows, seed=seed)
        if json:
            sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
            return
        print_policies(found)
        return

    document: dict[str, Any] = evaluation(
        model,
        platform=platform,
        dataset=dataset,
        rows=rows,
        with_baselines=baseline,
        with_importance=importance,
        with_floor=floor,
        with_reachable=reachable,
        with_left_out=left_out,
        models=models,
        seed=seed,
        plot=plot,
    )
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    print_errors(document)
