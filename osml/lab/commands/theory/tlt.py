"""`osml lab theory tlt`: throughput against what tail latency allows (Ah-Q, theorem 2)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from osml.base.failure import InputError
from osml.lab.commands.theory.files import read_latencies
from osml.lab.commands.theory.output import JsonOption, PlotOption, draw, number, print_json, shares_of
from osml.lab.theory.experiments.service_runs import run_service, workload_on
from osml.lab.theory.tlt import THETAS, FloatArray, Tlt, TltRow, check_tlt, predicted
from osml.simulator.mix import Mix, checked_load, node_of, scaling_notes

_GRID = ",".join(f"{theta:g}" for theta in THETAS)


def _row(row: TltRow) -> dict[str, Any]:
    fields = asdict(row)
    return fields | {"holds": row.holds, "holds_as_text": row.holds_as_text, "looseness": row.looseness}


def _show(found: Tlt, forecast: list[TltRow], source: str, unit: str, little: bool) -> None:
    console = Console()
    table = Table(title=f"TLT theorem on {found.requests} latencies: {source}", title_justify="left")
    for heading in ("theta", "tail ms", "f", f"bound {unit}", "over observed", "holds", "text's f", "forecast"):
        table.add_column(heading, justify="right")
    for row, ahead in zip(found.rows, forecast, strict=True):
        table.add_row(
            f"{row.theta:.1%}",
            number(row.tail_ms),
            f"{row.share_below:.3f}",
            f"{row.bound_per_s:.5g}",
            f"{row.looseness:.3f}",
            "yes" if row.holds else "NO",
            "holds" if row.holds_as_text else "FAILS",
            "holds" if ahead.holds else f"off {1.0 / ahead.looseness - 1.0:.1%}",
        )
    console.print(table)
    law = f"RLP / (phi AL) = {found.little_ratio:.5f}, 1 by Little's law" if little else "Little's law is assumed"
    console.print(
        f"observed {found.throughput_per_s:.5g} {unit} at a mean latency of {found.mean_ms:.4g} ms and "
        f"{found.outstanding:.4g} outstanding; {law}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(
        "the bound holds at every theta" if found.holds else "THE BOUND FAILS: Little's law does not hold here",
        highlight=False,
    )


def _halves(latencies_ms: FloatArray) -> tuple[FloatArray, FloatArray]:
    middle = latencies_ms.size // 2
    return (latencies_ms[:middle], latencies_ms[middle:]) if middle else (latencies_ms, latencies_ms)


def tlt(
    latencies: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Measured: .parquet, .csv or text, one latency (ms) per line."),
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of the latencies in ms (default latency_ms).")] = None,
    throughput: Annotated[float | None, typer.Option(help="Measured responses/s.")] = None,
    outstanding: Annotated[float | None, typer.Option(help="Measured mean of outstanding requests.")] = None,
    service: Annotated[str | None, typer.Option(help="Simulated: an LC service of the catalog.")] = None,
    load: Annotated[str, typer.Option(help="Simulated: fraction of max load.")] = "0.6",
    platform: Annotated[str, typer.Option(help="Simulated: platform of the catalog.")] = "e5-2697v4",
    cores: Annotated[int | None, typer.Option(help="Simulated: cores (default all).")] = None,
    ways: Annotated[int | None, typer.Option(help="Simulated: cache ways (default all).")] = None,
    requests: Annotated[int, typer.Option(help="Simulated: approximate number of requests.")] = 500_000,
    seed: Annotated[int, typer.Option(min=0, help="Simulated: seed.")] = 0,
    theta: Annotated[str, typer.Option(help="Percentiles as shares.")] = _GRID,
    plot: PlotOption = None,
    json: JsonOption = False,
) -> None:
    """Check phi <= RLP/TL_theta * (1-f)/(1-theta) on latencies, measured (FILE) or simulated (--service).

    f is the part of the mean that latencies below the tail contribute. The forecast compares tail and f of the first
    half of the latencies with the throughput of the second half.
    """
    if (latencies is None) == (service is None):
        raise InputError("expected either a FILE of latencies or --service, to simulate one")
    thetas = shares_of(theta, "--theta")
    notes: list[str] = []
    if latencies is not None:
        samples, counted, present = read_latencies(latencies, column)
        throughput = counted if throughput is None else throughput
        outstanding = present if outstanding is None else outstanding
        source = str(latencies)
    else:
        fraction = checked_load(load, "--load")
        node = node_of(Mix({str(service): fraction}), platform)
        notes = scaling_notes(node)
        n_cores = node.platform.cpus if cores is None else cores
        n_ways = node.platform.ways if ways is None else ways
        work = workload_on(node.platform, node.services[0], fraction, n_cores, n_ways)
        with Console(stderr=True).status("simulating request by request"):
            run = run_service(work, requests, seed)
        samples, throughput, outstanding = run.latencies_ms, run.throughput_per_s, run.outstanding
        source = f"{service} at {fraction:.0%} load on {platform}, simulated"
    for note in notes:
        typer.echo(f"note: {note}", err=True)
    found = check_tlt(samples, thetas, throughput_per_s=throughput, outstanding=outstanding)
    forecast = predicted(*_halves(samples), thetas)
    little = throughput is not None and outstanding is not None
    unit = "1/s" if throughput or outstanding else "1/s per outstanding request"
    if json:
        print_json({
            "simulated": latencies is None, "source": source, "requests": found.requests, "mean_ms": found.mean_ms,
            "throughput_per_s": found.throughput_per_s, "outstanding": found.outstanding,
            "per_outstanding_request": unit != "1/s", "little_ratio": found.little_ratio if little else None,
            "holds": found.holds, "rows": [_row(row) for row in found.rows],
            "forecast": [_row(row) for row in forecast], "notes": notes,
        })  # fmt: skip
    else:
        _show(found, forecast, source, unit, little)
    draw(plot, "draw_tlt", found, samples, source, unit)
