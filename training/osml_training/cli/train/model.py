"""`osml learn train a|a2|b|b2`: one model, evaluated, exported, in its folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console

from osml_training.cli.extra import need
from osml_training.cli.progress import bar
from osml_training.cli.train.table import print_errors
from osml_training.tables.features import Model

HELP: dict[Model, str] = {
    "a": "Train Model-A: RCliff, OAA and bandwidth at the OAA of a service alone on the node.",
    "a2": "Train Model-A': the same for a service with neighbours.",
    "b": "Train Model-B: the resources that a service can lose at a tolerated slowdown.",
    "b2": "Train Model-B': the slowdown of a service that loses resources.",
}


def command_for(model: Model) -> Callable[..., None]:
    """The command that trains this model."""

    def command(
        dataset: Annotated[Path, typer.Argument(metavar="DIR", help="Labelled data set (`osml learn data label`).")],
        variant: Annotated[
            Literal["masked", "paper"],
            typer.Option(help="masked: counters may be missing, with margins; paper: the networks of the paper."),
        ] = "masked",
        platform: Annotated[
            str | None, typer.Option(help="Platform of the model.", show_default="all platforms of DIR")
        ] = None,
        config: Annotated[Path | None, typer.Option(help="YAML config that replaces the shipped one.")] = None,
        out: Annotated[Path, typer.Option(help="Folder of models.")] = Path("out/models"),
        name: Annotated[str | None, typer.Option(help="Name.", show_default="MODEL-VARIANT-PLATFORM")] = None,
        version: Annotated[str, typer.Option(help="Version of the model.")] = "1",
        seed: Annotated[int | None, typer.Option(help="Seed; the same seed gives the same model.")] = None,
        epochs: Annotated[int | None, typer.Option(help="Number of epochs.")] = None,
        rows: Annotated[int | None, typer.Option(help="Number of rows in memory.")] = None,
        track: Annotated[str | None, typer.Option(metavar="URI", help="MLflow server or sqlite:///FILE.")] = None,
        stream: Annotated[bool, typer.Option("--stream", help="Read all rows from disk in each epoch.")] = False,
        ray: Annotated[
            str | None, typer.Option(metavar="ADDRESS", help="Address of a Ray cluster, `auto`, or `local`.")
        ] = None,
        workers: Annotated[
            int | None,
            typer.Option(
                min=1,
                help="Number of processes; without --ray they train the networks for the margins.",
                show_default="2 with --ray, otherwise 1",
            ),
        ] = None,
        json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
    ) -> None:
        need()
        from osml_training.jobs.training import Job, run_job  # noqa: PLC0415

        changes = {"seed": seed, "epochs": epochs, "rows": rows, "stream": stream or None}
        job = Job(
            dataset=dataset,
            model=model,
            variant=variant,
            platform=platform,
            config=config,
            out=out,
            name=name,
            version=version,
            changes={key: value for key, value in changes.items() if value is not None},
            track=track,
            ray=ray,
            workers=workers,
        )
        started = time.monotonic()
        with bar(f"training {model}", job.config_read().epochs, "epochs") as progress:
            made = run_job(job, lambda _epoch: progress.advance(progress.task_ids[0]))
        seconds = round(time.monotonic() - started, 2)
        for warning in made.warnings:
            print(f"osml: {warning}", file=sys.stderr)
        _report(made.folder, made.document | {"seconds": seconds}, json)

    return command


def _report(folder: Path, document: dict[str, Any], json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode({"folder": str(folder)} | document).decode() + "\n")
        return
    print_errors(document)
    Console().print(
        f"{folder} in {document['seconds']} s; next: osml learn models list --models {folder.parent}", soft_wrap=True
    )
