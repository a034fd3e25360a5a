"""`osml lab theory inversions`: who is served before whom, and what that costs (Ah-Q section II)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from rich.console import Console
from rich.table import Table

from osml.base.failure import InputError
from osml.lab.commands.theory.files import read_log
from osml.lab.commands.theory.output import JsonOption, PlotOption, draw, names_of, number, print_json
from osml.lab.theory.experiments.disciplines import DISCIPLINES, Discipline
from osml.lab.theory.experiments.inversion_runs import (
    ApplicationInversions,
    ServiceInversions,
    application_inversions,
    compare_disciplines,
    log_inversions,
)
from osml.simulator.cut_down import cut_down_node
from osml.simulator.mix import Mix, loads_on, parse_mix, scaling_notes
from osml.simulator.state import Node

Rows = dict[str, list[ServiceInversions]]


def _show(found: Rows, percentile: float, source: str) -> None:
    table = Table(title=f"Weighted inversions by request: {source}", title_justify="left")
    p = f"p{100 * percentile:g}"
    headings = ("discipline", "service", "requests", "NoI", "wNoI ms", f"wNoI {p} ms", f"{p} ms", "over priority")
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("discipline", "service") else "right")
    for discipline, rows in found.items():
        for at, row in enumerate(rows):
            over = "-" if row.tail_over_ms is None else f"{row.tail_over_ms:+.3g}"
            table.add_row(
                "" if at else discipline,
                row.service,
                str(row.requests),
                number(row.passed, 3),
                number(row.added_ms, 3),
                number(row.tail_added_ms, 3),
                number(row.tail_ms),
                over,
            )
        table.add_section()
    console = Console()
    console.print(table)
    console.print("NoI and wNoI per request; the most critical service first", highlight=False)


def _show_order(found: ApplicationInversions, source: str) -> None:
    table = Table(title=f"Weighted inversions by application: {source}, simulated", title_justify="left")
    for heading in ("application", "right place", "place", "wNoI ms", "change of the tail in the mix, ms"):
        table.add_column(heading, justify="left" if heading == "application" else "right")
    for i, name in enumerate(found.names):
        table.add_row(
            name,
            str(i + 1),
            str(found.positions[i] + 1),
            number(float(found.added_ms[i])),
            f"{float(found.measured_ms[i]):+.4g}",
        )
    console = Console()
    console.print(table)
    console.print(f"NoI {found.count}, wNoI {float(found.added_ms.sum()):.4g} ms in all", highlight=False)


def _node(mix: str, platform: str, cores: int | None, ways: int | None, be_threads: int) -> tuple[Mix, Node]:
    parsed = parse_mix(mix)
    node = cut_down_node(parsed, platform, cores, ways, be_threads)
    for note in scaling_notes(node):
        typer.echo(f"note: {note}", err=True)
    return parsed, node


def inversions(
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="[LOG]", help=".parquet or .csv: service, arrival_ms, start_ms, finish_ms[, service_ms, rank]."
        ),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(help="Simulated: NAME=LOAD,NAME=LOAD, the most critical first[, be:NAME with --order]."),
    ] = None,
    order: Annotated[
        str | None, typer.Option(help="LOG: services, most critical first. --mix: applications in order of service.")
    ] = None,
    disciplines: Annotated[str, typer.Option(help="Simulated: some of fcfs, rr, priority.")] = ",".join(DISCIPLINES),
    platform: Annotated[str, typer.Option(help="Simulated: platform of the catalog.")] = "e5-2630v4",
    cores: Annotated[int | None, typer.Option(help="Simulated: cores that all share (default all).")] = None,
    ways: Annotated[int | None, typer.Option(help="Simulated: cache ways (default all).")] = None,
    be_threads: Annotated[int, typer.Option(min=1, help="Simulated: threads of each BE job.")] = 4,
    seconds: Annotated[float, typer.Option(help="Simulated: seconds in which requests arrive.")] = 30.0,
    slice_ms: Annotated[float, typer.Option(help="Simulated: time slice of rr, in ms.")] = 1.0,
    by: Annotated[
        Literal["start", "finish"] | None,
        typer.Option(help="Precedence by start or by finish (default: LOG start, simulated finish)."),
    ] = None,
    servers: Annotated[int, typer.Option(min=1, help="LOG: number of servers.")] = 1,
    percentile: Annotated[float, typer.Option(help="Percentile of the tails, as a share.")] = 0.99,
    seed: Annotated[int, typer.Option(min=0, help="Simulated: seed.")] = 0,
    plot: PlotOption = None,
    json: JsonOption = False,
) -> None:
    """Count weighted inversions: of a request LOG, of disciplines (--mix), or of an order of precedence (--order)."""
    if (log is None) == (mix is None):
        raise InputError("expected either a LOG of requests or --mix, to simulate one")
    if mix is not None and order is not None:
        parsed, node = _node(mix, platform, cores, ways, be_threads)
        with Console(stderr=True).status("running pairs and the mix"):
            found = application_inversions(node, loads_on(node, parsed.loads), names_of(order, "--order"))
        source = f"{parsed} on {node.platform.cpus} cores of {platform}"
        if json:
            print_json(_order_document(found, source))
        else:
            _show_order(found, source)
        draw(plot, "draw_order", found, source)
        return
    if log is not None:
        rows: Rows = {
            "log": log_inversions(
                read_log(log, names_of(order, "--order") if order else [], servers), by or "start", percentile
            )
        }
        source = str(log)
    else:
        parsed, node = _node(str(mix), platform, cores, ways, be_threads)
        wanted = cast(list[Discipline], names_of(disciplines, "--disciplines"))
        with Console(stderr=True).status("simulating request by request"):
            rows = compare_disciplines(
                node,
                loads_on(node, parsed.loads),
                seconds,
                wanted,
                slice_ms=slice_ms,
                seed=seed,
                by=by or "finish",
                percentile=percentile,
            )
        source = f"{parsed} on {node.platform.cpus} cores of {platform}, simulated"
    if json:
        print_json(
            {
                "simulated": log is None,
                "source": source,
                "percentile": percentile,
                "disciplines": {name: [asdict(row) for row in found] for name, found in rows.items()},
            }
        )
    else:
        _show(rows, percentile, source)
    draw(plot, "draw_inversions", rows, percentile, source)


def _order_document(found: ApplicationInversions, source: str) -> dict[str, Any]:
    return {
        "simulated": True,
        "source": source,
        "inversions": found.count,
        "weighted_ms": float(found.added_ms.sum()),
        "weights_ms": found.weights_ms.tolist(),
        "applications": [
            {
                "name": name,
                "right_place": i,
                "place": found.positions[i],
                "weighted_ms": float(found.added_ms[i]),
                "measured_ms": float(found.measured_ms[i]),
            }
            for i, name in enumerate(found.names)
        ],
    }
