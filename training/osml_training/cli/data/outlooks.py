"""`osml learn data outlooks`: rows of Model-C' from simulated nodes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console

from osml_training.cli.progress import bar

if TYPE_CHECKING:
    from osml_training.outlook.collect import Rows


def outlooks_command(
    out: Annotated[Path, typer.Option(metavar="FILE", help="Parquet file to write.")],
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes; each runs six minutes (simulated).")] = 1000,
    first: Annotated[int, typer.Option("--seed", min=0, help="Seed of the first node.")] = 50_000,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Run the policy `osml` on different simulated nodes, and ask their equations what other cells would bring."""
    from osml_training.outlook.collect import collect  # noqa: PLC0415
    from osml_training.outlook.table import write_outlooks  # noqa: PLC0415

    started = time.monotonic()
    with bar("nodes", nodes, "nodes") as progress:

        def counted() -> Iterator[Rows]:
            for rows in collect(nodes, first, workers):
                progress.advance(progress.task_ids[0])
                yield rows

        number = write_outlooks(out, counted())
    document: dict[str, Any] = {
        "file": str(out), "nodes": nodes, "rows": number, "seconds": round(time.monotonic() - started, 1),
    }  # fmt: skip
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    text = f"{out}: {number:,} rows of {nodes} nodes in {document['seconds']} s; next: osml learn train c2 {out}"
    Console().print(text, soft_wrap=True, highlight=False)
