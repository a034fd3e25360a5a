"""`osml train a|a2|b|b2`: one model, evaluated, exported, in its folder."""

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
    "a": "Model-A: RCliff, OAA and its bandwidth of a service that is alone on the node.",
    "a2": "Model-A': the same of a service among others.",
    "b": "Model-B: what can be taken from a service at a tolerated slowdown.",
    "b2": "Model-B': by how much a service suffers from a deprivation.",
}


def command_for(model: Model) -> Callable[..., None]:
    """The command that trains this model."""

    def command(
        dataset: Annotated[Path, typer.Argument(metavar="DIR", help="Labelled data set (`osml data label`).")],
        variant: Annotated[
            Literal["masked", "paper"],
            typer.Option(help="masked: counters may be missing, margins; paper: as in the paper."),
        ] = "masked",
        platform: Annotated[str | None, typer.Option(help="Platform to train for.", show_default="all of DIR")] = None,
        config: Annotated[Path | None, typer.Option(help="YAML file in the place of the shipped config.")] = None,
        out: Annotated[Path, typer.Option(help="Folder of models.")] = Path("out/models"),
        name: Annotated[str | None, typer.Option(help="Name.", show_default="MODEL-VARIANT-PLATFORM")] = None,
        version: Annotated[str, typer.Option(help="Version of the model.")] = "1",
        seed: Annotated[int | None, typer.Option(help="Same seed, same model.")] = None,
        epochs: Annotated[int | None, typer.Option(help="Passes over the rows.")] = None,
        rows: Annotated[int | None, typer.Option(help="Rows in memory.")] = None,
        track: Annotated[str | None, typer.Option(metavar="URI", help="MLflow server or sqlite:///FILE.")] = None,
        stream: Annotated[bool, typer.Option("--stream", help="Read every row in every pass, from disk.")] = False,
        ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Ray cluster, `auto`, or `local`.")] = None,
        workers: Annotated[
            int | None,
            typer.Option(
                min=1,
                help="Processes with --ray; without it those that make the margins for unknown services.",
                show_default="2 with --ray, else 1",
            ),
        ] = None,
        json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
    ) -> None:
        need()
        from osml_training.jobs.training import Job, run_job  # noqa: PLC0415

        changes = {"seed": seed, "epochs": epochs, "rows": rows, "stream": stream or None}
        job = Job(
            dataset=dataset, model=model, variant=variant, platform=platform, config=config, out=out, name=name,
            version=version, changes={key: value for key, value in changes.items() if value is not None}, track=track,
            ray=ray, workers=workers,
        )  # fmt: skip
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
        f"{folder} in {document['seconds']} s; next: osml models list --models {folder.parent}", soft_wrap=True
    )
