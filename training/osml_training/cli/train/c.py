"""`osml learn train c`: Model-C offline, evaluated, exported, in its folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from osml_training.cli.extra import need
from osml_training.cli.progress import bar
from osml_training.cli.train.c_table import print_policies

HELP = "Train Model-C: the value of each of 49 actions, from pairs of traces."


def c_command(
    data: Annotated[
        list[Path],
        typer.Argument(metavar="DATA...", help="Labelled data sets, or a file of `osml learn data transitions`."),
    ],
    variant: Annotated[str, typer.Option(help="masked, paper, or another shipped config c-VARIANT.yaml.")] = "masked",
    platform: Annotated[
        str | None, typer.Option(help="Platform of the model.", show_default="the platform of DATA")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML config that replaces the shipped one.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of models.")] = Path("out/models"),
    name: Annotated[str | None, typer.Option(help="Name.", show_default="c-VARIANT-PLATFORM")] = None,
    version: Annotated[str, typer.Option(help="Version of the model.")] = "1",
    seed: Annotated[int | None, typer.Option(help="Seed; the same seed gives the same model.")] = None,
    updates: Annotated[int | None, typer.Option(help="Number of updates of the network.")] = None,
    statuses: Annotated[
        int | None, typer.Option(help="Number of statuses in memory; each has up to 49 tuples.")
    ] = None,
    evaluate_on: Annotated[
        list[Path] | None,
        typer.Option(
            "--evaluate-on",
            metavar="DIR",
            help="Data sets to evaluate on.",
            show_default="DATA, or a new virtual sweep",
        ),
    ] = None,
    track: Annotated[str | None, typer.Option(metavar="URI", help="MLflow server or sqlite:///FILE.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Train Model-C by fitted Q iteration on tuples <Status, Action, Reward, Status'> of the training runs."""
    need()
    from osml_training.dqn.job import CJob, run_c_job  # noqa: PLC0415

    changes = {"seed": seed, "updates": updates, "statuses": statuses}
    job = CJob(
        data=tuple(data),
        variant=variant,
        out=out,
        platform=platform,
        config=config,
        name=name,
        version=version,
        changes={key: value for key, value in changes.items() if value is not None},
        track=track,
        evaluate_on=tuple(evaluate_on) if evaluate_on else None,
    )
    config_read = job.config_read()
    with bar("training c", config_read.attempts * config_read.updates, "updates") as progress:
        made = run_c_job(job, lambda done: progress.update(progress.task_ids[0], completed=done.updates))
    for warning in made.warnings:
        print(f"osml: {warning}", file=sys.stderr)
    document: dict[str, Any] = {"folder": str(made.folder)} | made.document
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    print_policies(document)
    learned = document["learning"]
    Console().print(
        f"{made.folder}: {learned['learned_tuples']:,} tuples in {learned['fit_s']} s ({learned['tuples_per_s']:,} per "
        f"second); next: osml learn models list --models {made.folder.parent}",
        soft_wrap=True,
    )
