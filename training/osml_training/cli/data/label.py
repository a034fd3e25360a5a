"""`osml learn data label`: RCliff, OAA, bandwidth and B-points of every run, no person asked."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml.base.failure import InputError
from osml_training.cli.progress import bar

if TYPE_CHECKING:
    from osml.datasets.compare import Agreement


def label_command(
    dataset: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a data set.")],
    labelling: Annotated[
        Literal["frontier", "reference"],
        typer.Option(help="frontier: the rule of this project; reference: the rule of the authors' artifact."),
    ] = "frontier",
    slowdown: Annotated[str, typer.Option(help="Tolerated slowdowns of the B-points.")] = "0.05,0.10,0.15,0.20",
    into: Annotated[
        str | None, typer.Option(help="Folder in DIR for the labels, such as labels-mine.", show_default="labels")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Compare with another folder of labels of the same runs, such as OTHER/labels.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Label all runs of a data set from the mean latencies of their cells."""
    from osml.datasets.label import checked_slowdowns, label_file  # noqa: PLC0415
    from osml.datasets.store import trace_files  # noqa: PLC0415

    try:
        slowdowns = checked_slowdowns([float(part) for part in slowdown.split(",")])
    except ValueError:
        raise InputError(f"--slowdown is '{slowdown}', expected shares, separated by commas, such as 0.05") from None
    folder = into or ("labels" if labelling == "frontier" else f"labels-{labelling}")
    if not re.fullmatch(r"labels[A-Za-z0-9_-]*", folder):
        raise InputError(
            f"--into is '{folder}', expected a name that begins with 'labels', of letters, digits, '-' and '_'"
        )
    files = trace_files(dataset)
    outcomes: Counter[str] = Counter()
    started = time.monotonic()
    with bar("labelling", len(files), "files") as progress:
        for file in files:
            outcomes.update(label_file(dataset, file, labelling, slowdowns, folder))
            progress.advance(progress.task_ids[0])
    document: dict[str, Any] = {
        "dataset": str(dataset),
        "labels": folder,
        "labelling": labelling,
        "runs": sum(outcomes.values()),
        "outcomes": dict(sorted(outcomes.items())),
        "slowdowns": list(slowdowns),
        "seconds": round(time.monotonic() - started, 3),
    }
    agreements: list[Agreement] = []
    if against is not None:
        from osml.datasets.compare import compare  # noqa: PLC0415

        agreements = compare(dataset, folder, against.parent, against.name)
        document["against"] = {"labels": str(against), "labels_of": [found._asdict() for found in agreements]}
    if json:
        sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
        return
    console = Console()
    console.print(f"labels of {dataset} ({labelling}, in {folder}/)", highlight=False, soft_wrap=True)
    table = Table()
    table.add_column("outcome")
    table.add_column("runs", justify="right")
    for outcome, count in sorted(outcomes.items()):
        table.add_row(outcome, f"{count:,}")
    console.print(table)
    if not outcomes:
        console.print(
            "no labels: in no row do the service and all its neighbours have their own cores",
            highlight=False,
            soft_wrap=True,
        )
    if outcomes["too_few_cells"]:
        console.print(
            "too_few_cells: a label needs at least 4 allocations at one load; "
            "`osml learn data sweep` measures them on a machine",
            highlight=False,
            soft_wrap=True,
        )
    if agreements:
        console.print(f"against {against}", highlight=False, soft_wrap=True)
        beside = Table()
        for heading in ("label", "runs", "mean |difference|", "worst", "equal"):
            beside.add_column(heading, justify="left" if heading == "label" else "right")
        for found in agreements:
            beside.add_row(found.label, f"{found.runs:,}", f"{found.mean:.3f}", f"{found.worst:g}", f"{found.same:.0%}")
        console.print(beside)
