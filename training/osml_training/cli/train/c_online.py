"""`osml learn train c --online`: Model-C continues on what agents reported; a better candidate is promoted."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml_training.cli.extra import need
from osml_training.cli.plain_text import plain_text

HELP = "Continue the training of Model-C on the experience store; promote only a better candidate."


def c_online_command(
    platform: Annotated[str, typer.Option(help="Platform of the experiences.")],
    store: Annotated[str, typer.Option(help="Experience store of the server, as in its --store.")] = "sqlite",
    models: Annotated[
        Path | None,
        typer.Option(help="Folder of models: its Model-C is the champion.", show_default="the shipped models"),
    ] = None,
    offline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Tuples of `osml learn data transitions` to learn from as well.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file that replaces fields of the config.")] = None,
    limit: Annotated[int | None, typer.Option(help="Number of the newest experiences to read.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed; the same seed and store give the same candidate.")] = None,
    track: Annotated[
        str, typer.Option(metavar="URI", help="MLflow address, sqlite:///FILE, or none.")
    ] = "sqlite:///out/mlflow.db",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Test the candidate only; promote nothing and write nothing.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Continue the training of Model-C on the newest experiences of a platform, and promote a better candidate.

    The test of the candidate uses held-out experiences and paired episodes on the virtual node of the platform.
    A refusal gives its reasons and is not a failure (exit code 0, "promoted": false).
    """
    need("torch", "onnx", "onnxruntime", "sqlalchemy", *(() if track == "none" else ("mlflow",)))
    from osml.predictors import models_folder  # noqa: PLC0415
    from osml_training.learning.config import read_learning_config  # noqa: PLC0415
    from osml_training.learning.job import learn  # noqa: PLC0415
    from osml_training.learning.promotion import LearnJob  # noqa: PLC0415

    changes = {key: value for key, value in (("limit", limit), ("seed", seed)) if value is not None}
    job = LearnJob(
        store=store,
        platform=platform,
        models=models or models_folder(),
        config=read_learning_config(config, changes),
        track=None if track == "none" else track,
        offline=offline,
        dry_run=dry_run,
    )
    with Console(stderr=True).status("starting") as status:
        document = learn(job, status.update)
    for warning in document.get("warnings", []):
        print(f"osml: {warning}", file=sys.stderr)
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
    else:
        _show(document, job.models)


def _show(document: dict[str, Any], models: Path) -> None:
    console = Console()
    console.print(
        f"{document['experiences']:,} experiences of {document['platform']}: {document['tuples']:,} tuples",
        highlight=False,
    )
    for why, count in document["left_out"].items():
        console.print(plain_text(f"  left out: {count:,} ({why})"), highlight=False)
    if "held_out" in document:
        table = Table(title=f"Candidate against {document['champion']}", title_justify="left")
        for name in ("", "difference", "95 % interval", "better is"):
            table.add_column(name)
        held, virtual = document["held_out"], document["virtual_node"]
        for name, found, better in (
            ("squared error of Q, held-out experiences: decrease", held["squared_error_falls_by"], "above 0"),
            ("repeats decisions that missed a target, share", held["repeated_falls"], "below 0"),
            ("takes resources from services below target, share", held["neglect"], "below 0"),
            ("E_S, virtual node (simulated)", virtual["e_s_rises_by"], "below 0"),
            ("falls off the cliff per episode (simulated)", virtual["falls"], "below 0"),
        ):
            table.add_row(name, _number(found["value"]), f"{_number(found['low'])} to {_number(found['high'])}", better)
        console.print(table)
    verdict = "promoted" if document["promoted"] else "not promoted"
    console.print(f"{document['candidate'] or 'no candidate'}: {verdict}", highlight=False)
    for reason in document["reasons"]:
        console.print(plain_text(f"  {reason}"), highlight=False, soft_wrap=True)
    if document["promoted"]:
        command = _rollback(models, document["platform"])
        console.print(plain_text(f"to roll back: {command}"), highlight=False, soft_wrap=True)


def _rollback(models: Path, platform: str) -> str:
    """The command that takes this promotion back, wherever it is typed."""
    where = ["--models", str(models.resolve()), "--platform", platform]
    return shlex.join(["osml", "learn", "models", "rollback", "c", *where])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
