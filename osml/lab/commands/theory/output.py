"""Commands of `osml lab theory` print one JSON document or tables, and draw where they are asked to."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from osml.base.extras import how_to_install
from osml.base.failure import InputError, MachineError

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
PlotOption = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the result into this PNG.")]


def print_json(document: object) -> None:
    """One document; infinite numbers become null."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def draw(path: Path | None, name: str, *arguments: object) -> None:
    """Draw by the function of osml.lab.theory.experiments.plots of that name, if a file was asked for.

    MachineError where matplotlib is missing, InputError where the file can't be written.
    """
    if path is None:
        return
    try:
        from osml.lab.theory.experiments import (  # noqa: PLC0415 - matplotlib is slow to import, and in the extra `bench`
            plots,
        )
    except ImportError:
        raise MachineError(f"--plot needs matplotlib: {how_to_install('lab')}") from None
    drawer: Callable[..., None] = getattr(plots, name)
    try:
        drawer(path, *arguments)
    except OSError as error:
        raise InputError(f"--plot: {path} can't be written ({error.strerror or error})") from None
    typer.echo(f"wrote {path}", err=True)


@contextmanager
def progress_bar(what: str) -> Generator[Callable[[int, int], None]]:
    """A bar on standard error, where that is a terminal; yields what to tell (done, in all)."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def number(value: float | None, digits: int = 4) -> str:
    """For tables: a dash where there is nothing."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def names_of(text: str, what: str) -> list[str]:
    """Names separated by commas; InputError where one is empty or there twice."""
    names = [part.strip() for part in text.split(",")]
    if not all(names) or len(set(names)) != len(names):
        raise InputError(f"{what} is '{text}', expected different names separated by commas")
    return names


def counts_of(text: str, what: str) -> tuple[int, ...]:
    """Whole numbers as 4-10 or 4,8,12; InputError for anything else."""
    found: set[int] = set()
    try:
        for part in text.split(","):
            low, dash, high = part.partition("-")
            found.update(range(int(low), int(high) + 1) if dash else [int(low)])
            if len(found) > 1024:
                break
    except ValueError:
        found = set()
    if not found or min(found) < 1 or len(found) > 1024:
        raise InputError(f"{what} is '{text}', expected whole numbers above 0, such as 4-10 or 4,8,12")
    return tuple(sorted(found))


def shares_of(text: str, what: str) -> list[float]:
    """Numbers between 0 and 1 separated by commas, ascending; InputError for anything else."""
    try:
        shares = sorted({float(part) for part in text.split(",")})
    except ValueError:
        shares = [math.nan]
    if not all(0.0 < share < 1.0 for share in shares):
        raise InputError(f"{what} is '{text}', expected numbers between 0 and 1 separated by commas, such as 0.5,0.95")
    return shares
