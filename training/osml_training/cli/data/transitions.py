"""`osml learn data transitions`: the tuples of Model-C in a file."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from osml_training.cli.progress import bar


def transitions_command(
    datasets: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Labelled data sets of one platform.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Parquet file to write.")],
    platform: Annotated[str | None, typer.Option(help="Platform.", show_default="the platform of DIR")] = None,
    statuses: Annotated[
        int | None, typer.Option(help="Maximum number of statuses; the command takes whole runs.", show_default="all")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice of runs, if --statuses is given.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Pair rows of each run that are at most 3 cores and 3 ways apart: <Status, Action, Status'>."""
    from osml.datasets.store import trace_files  # noqa: PLC0415
    from osml_training.dqn.transitions import about_of, transitions_of, write_transitions  # noqa: PLC0415

    started = time.monotonic()
    platforms = None if platform is None else (platform,)
    files = [file for folder in datasets for file in trace_files(folder, platforms)]
    with bar("pairing", len(files), "files") as progress:
        found = transitions_of(
            datasets,
            platform=platform,
            statuses=statuses,
            seed=seed,
            on_progress=lambda _file: progress.advance(progress.task_ids[0]),
        )
    write_transitions(out, found, about_of(files))
    document: dict[str, Any] = {
        "file": str(out),
        "bytes": out.stat().st_size,
        "runs": len(found.runs),
        "statuses": len(found.states),
        "tuples": found.tuples,
        "seconds": round(time.monotonic() - started, 2),
    }
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    Console().print(
        f"{out}: {document['tuples']:,} tuples of {document['statuses']:,} statuses in {document['runs']:,} runs, "
        f"{document['bytes'] / 2**20:.0f} MiB, {document['seconds']} s",
        soft_wrap=True,
        highlight=False,
    )
