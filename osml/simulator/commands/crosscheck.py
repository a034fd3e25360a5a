"""`osml lab simulator crosscheck`: the analytic engine against a simulation of every request."""

from __future__ import annotations

import json
from dataclasses import asdict
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml.simulator.calibration.crosscheck import Cell, Report
from osml.simulator.calibration.crosscheck import crosscheck as compare
from osml.simulator.models import PlatformModel, ServiceModel
from osml.simulator.queueing import DISTRIBUTION

_WORST = 12


def _document(report: Report, platform: PlatformModel, seed: int) -> dict[str, object]:
    cells: list[dict[str, object]] = []
    for cell in report.cells:
        entry: dict[str, object] = {
            "service": cell.service,
            "cores": cell.cores,
            "ways": cell.ways,
            "utilisation": cell.utilisation,
            "service_time_ms": cell.service_ms,
            "arrival_rate_per_s": cell.arrivals_per_s,
            "servers": cell.servers,
        }
        for kind, latencies in (("analytic", cell.analytic), ("simulated", cell.simulated)):
            entry |= {f"{name.removesuffix('_ms')}_{kind}_ms": value for name, value in asdict(latencies).items()}
        entry["rel_error"] = cell.rel_error
        entry["p99_simulated_error"] = cell.p99_error
        entry["backlog_analytic"], entry["backlog_simulated"] = cell.backlog or (None, None)
        cells.append(entry)
    return {
        "simulated": True,
        "platform": platform.id,
        "seed": seed,
        "distribution": DISTRIBUTION,
        "cells": cells,
        "median_rel_error": report.median_rel_error,
        "worst_rel_error": report.worst_rel_error,
        "unreached": report.unreached,
        "too_long": report.too_long,
    }


def _errors(cells: list[Cell], name: str) -> str:
    errors = [abs(getattr(cell.analytic, name) / getattr(cell.simulated, name) - 1.0) for cell in cells]
    return f"{median(errors):.1%} / {max(errors):.1%}"


def _by_utilisation(report: Report) -> Table:
    table = Table(title="Relative error of the analytic engine, median / worst (simulated node)")
    for column in ("utilisation", "cells", "mean", "p50", "p95", "p99", "of the simulation"):
        table.add_column(column, justify="right")
    for utilisation in sorted({cell.utilisation for cell in report.cells}):
        cells = [cell for cell in report.cells if cell.utilisation == utilisation]
        own = [cell.p99_error for cell in cells if cell.p99_error is not None]
        errors = [_errors(cells, name) for name in ("mean_ms", "p50_ms", "p95_ms", "p99_ms")]
        table.add_row(f"{utilisation:.0%}", str(len(cells)), *errors, f"±{max(own):.1%}" if own else "-")
    return table


def _worst(report: Report) -> Table:
    table = Table(title=f"The {_WORST} cells that differ most: analytic | simulated, ms")
    for column in ("service", "cores", "ways", "utilisation", "mean", "p50", "p95", "p99", "error"):
        table.add_column(column, justify="left" if column == "service" else "right")
    for cell in sorted(report.cells, key=lambda cell: -abs(cell.rel_error))[:_WORST]:
        pairs = zip(asdict(cell.analytic).values(), asdict(cell.simulated).values(), strict=True)
        table.add_row(
            cell.service,
            str(cell.cores),
            str(cell.ways),
            f"{cell.utilisation:.0%}",
            *(f"{ours:.4g} | {theirs:.4g}" for ours, theirs in pairs),
            f"{cell.rel_error:+.1%}",
        )
    return table


def crosscheck(
    service: Annotated[list[str] | None, typer.Option(help="Only this LC service; repeatable.")] = None,
    platform: Annotated[str, typer.Option(help="Platform of the catalog.")] = "e5-2697v4",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Compare analytic and simulated latencies over services x cores x ways x utilisations, with and without overload.

    Both get the same service times, servers and arrivals; the simulation serves request by request and uses no
    formula. Takes about a minute for all services.
    """
    try:
        node = catalogs.platform(platform)
        services: list[ServiceModel] = [
            catalogs.service(name, platform) for name in dict.fromkeys(service or catalogs.service_names())
        ]
    except catalogs.CatalogError as error:
        raise InputError(str(error)) from None
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("Comparing", total=None)
        report = compare(
            node, services, seed, progress=lambda done, total: progress.update(task, completed=done, total=total)
        )
    if as_json:
        typer.echo(json.dumps(_document(report, node, seed), indent=2))
        return
    out = Console()
    out.print(_by_utilisation(report), _worst(report))
    out.print(
        f"{len(report.cells)} cells on {platform}: relative error of p99 {report.median_rel_error:.1%} (median) and "
        f"{report.worst_rel_error:.1%} (worst). Not compared: {report.unreached} cells whose utilisation the engine "
        f"reaches at no load, and {report.too_long} cells that need too long a simulation."
    )
