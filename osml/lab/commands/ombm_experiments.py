"""`osml lab ombm accuracy`, `assurance`, `split` and `figures`: the experiments of the paper on the virtual node."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

from osml.base.extras import how_to_install
from osml.base.failure import InputError, MachineError
from osml.lab.ombm.accuracy import SERVICES, Accuracy, accuracies
from osml.lab.ombm.assurance import COMBINATIONS, KINDS, Assurance, assurances
from osml.lab.ombm.split import BESIDE, SPLIT_KINDS, WAYS, splits

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Seed of the noise of measurements and rates.")]
ServiceOption = Annotated[list[str] | None, typer.Option(help="Only this service; repeatable.")]
_ACCURACIES, _ASSURANCES = 11, 2  # of a service; of a service, combination and kind of load
T = TypeVar("T")


def _followed(rows: Iterable[T], total: int, what: str) -> list[T]:
    console = Console(stderr=True)
    return list(track(rows, what, total=total, console=console, disable=not console.is_terminal))


def _checked(services: Sequence[str] | None) -> list[str]:
    for name in services or []:
        if name not in SERVICES:
            raise InputError(f"--service '{name}' is unknown, expected one of {', '.join(SERVICES)}")
    return list(services or SERVICES)


def accuracy_command(service: ServiceOption = None, seed: SeedOption = 0, as_json: JsonOption = False) -> None:
    """Compare predicted and real tails, classic and adaptive (figures 7 to 10); simulated."""
    names = _checked(service)
    rows = _followed(accuracies(seed, names), _ACCURACIES * len(names), "Profiling")
    if as_json:
        sys.stdout.write(json.dumps({"simulated": True, "seed": seed, "rows": [asdict(row) for row in rows]}) + "\n")
    else:
        _show_accuracies(rows)


def _show_accuracies(rows: Sequence[Accuracy]) -> None:
    title = "Predictions beside STREAM on i7-4770k: accuracy in %, GB/s over and under the need (simulated)"
    table = Table(title=title, title_justify="left", box=box.SIMPLE, collapse_padding=True, pad_edge=False)
    for heading in ("service", "figure: samples"):
        table.add_column(heading, no_wrap=True)
    for heading in ("runs", "%", "paper", "mean", "log", "over", "under"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.service,
            row.label,
            str(row.profilings),
            f"{row.accuracy_pct:.1f}",
            "" if row.published_pct is None else f"{row.published_pct:g}",
            f"{row.mean_accuracy_pct:.1f}",
            f"{row.log_accuracy_pct:.1f}",
            f"{row.wasted_gbps:.2f}",
            f"{row.short_gbps:.2f}",
        )
    Console().print(table)


def assurance_command(
    service: ServiceOption = None,
    seed: SeedOption = 0,
    interval_s: Annotated[float, typer.Option(min=0.05, max=10.0, help="Seconds between two decisions.")] = 1.0,
    told: Annotated[
        bool, typer.Option("--told", help="Give the policy the rate of the next interval, as in the paper.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the policy beside batch jobs: SLO, bandwidth and server use (figure 12, table 3); simulated."""
    names = _checked(service)
    total = _ASSURANCES * len(names) * len(COMBINATIONS) * len(KINDS)
    rows = _followed(assurances(seed, names, interval_s=interval_s, told=told), total, "Running")
    if as_json:
        listed = [asdict(row) | {"gain": row.gain} for row in rows]
        document = {"simulated": True, "seed": seed, "interval_s": interval_s, "told": told, "rows": listed}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        _show_assurances(rows)


def _or_none(gbps: float | None) -> str:
    return "-" if gbps is None else f"{gbps:.2f}"


def _show_assurances(rows: Sequence[Assurance]) -> None:
    table = Table(title="OMBM beside batch jobs on i7-4770k (simulated)", title_justify="left")
    for heading in ("service", "BE", "load", "policy"):
        table.add_column(heading, no_wrap=True)
    for heading in ("SLO %", "GB/s", "need", "over", "short", "CPU %", "with BE", "times", "paper"):
        table.add_column(heading, justify="right")
    for row in rows:
        alone, used = row.published_cpu_pct
        table.add_row(
            row.service,
            row.combination,
            row.load,
            row.policy,
            f"{row.slo_pct:.2f}",
            _or_none(row.given_gbps),
            f"{row.needed_gbps:.2f}",
            _or_none(row.wasted_gbps),
            _or_none(row.short_gbps),
            f"{row.cpu_alone_pct:.1f}",
            f"{row.cpu_pct:.1f}",
            f"{row.gain:.1f}",
            f"{used / alone:.1f}",
        )
    Console().print(table)


def split_command(service: ServiceOption = None, seed: SeedOption = 0, as_json: JsonOption = False) -> None:
    """Compare splits of scarce bandwidth in the policy osml: no throttles, Model-A, profiles; simulated."""
    names = _checked(service)
    rows = _followed(splits(seed, names), len(names) * len(BESIDE) * len(SPLIT_KINDS) * len(WAYS), "Running")
    if as_json:
        sys.stdout.write(json.dumps({"simulated": True, "seed": seed, "rows": [asdict(row) for row in rows]}) + "\n")
        return
    table = Table(title="osml beside one or three jobs on i7-4770k (simulated)", title_justify="left")
    for heading in ("service", "BE", "load", "split by"):
        table.add_column(heading, no_wrap=True)
    for heading in ("SLO %", "BE speed %"):
        table.add_column(heading, justify="right")
    for row in rows:
        shares = (f"{row.slo_pct:.1f}", f"{100.0 * row.be_speed:.1f}")
        table.add_row(row.service, row.beside, row.load, row.split, *shares)
    Console().print(table)


def figures_command(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the pictures.")] = Path("out/ombm"),
    seed: SeedOption = 0,
) -> None:
    """Draw figures 5 to 12 with our numbers (simulated)."""
    try:
        from osml.lab.ombm.figures import draw_all  # noqa: PLC0415 - matplotlib is an extra
    except ImportError as error:
        raise MachineError(f"plots need matplotlib ({error}): {how_to_install('lab')}") from None
    try:
        for path in draw_all(out, seed):
            typer.echo(f"wrote {path}")
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from None
