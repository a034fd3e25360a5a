"""`osml lab live`: services that are here, their curves, and what was measured against what was predicted."""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from osml.lab.trials.live import machine
from osml.lab.trials.live.jobs import Job, jobs
from osml.lab.trials.live.services import Service, service_named, services

app = typer.Typer(help="Real services on this machine: measured, and predicted before.", no_args_is_help=True)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print_json(document: Any) -> None:
    sys.stdout.write(json_module.dumps(document) + "\n")


@app.command("services")
def services_command(
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """List services and jobs of the lab, and what each lacks on this machine."""
    rows = [_here("service", each) for each in services().values()] + [_here("job", each) for each in jobs().values()]
    if json:
        _print_json({"programs": rows})
        return
    table = Table("", "name", "here", "missing", title="Programs of the lab", title_justify="left")
    for row in rows:
        table.add_row(row["kind"], row["name"], "yes" if row["available"] else "no", escape(row["missing"]))
    Console().print(table)


def _here(kind: str, each: Service | Job) -> dict[str, Any]:
    lacks: list[str] = []
    if (program := machine.missing_program(each)) is not None:
        lacks.append(f"program {program[0]}: apt-get install {program[1]}")
    lacks += [f"Python module {name}: {machine.how_to_have_modules(each)}" for name in machine.missing_modules(each)]
    return {"kind": kind, "name": each.name, "available": not lacks, "missing": "; ".join(lacks)}


@app.command("prepare")
def prepare_command(
    names: Annotated[str, typer.Option("--services", help="Names, separated by commas.", show_default="all")] = "",
) -> None:
    """Make what takes long, once on a machine: an index of texts, a trained net, spoken commands. Needs root."""
    machine.require_root("osml lab live prepare")
    chosen = _chosen(names)
    machine.require_programs(chosen)
    with machine.only_trial():  # another one may be preparing the same
        for service in chosen:
            if service.prepare is not None:
                _say(f"{service.name}: {service.prepared}")
                machine.prepare(service)


def _chosen(names: str) -> list[Service]:
    given = [name.strip() for name in names.split(",") if name.strip()]
    return [service_named(name) for name in given] or list(services().values())


@app.command("curve")
def curve_command(
    service: Annotated[str, typer.Argument(help="The service: see `osml lab live services`.")],
    seconds: Annotated[float, typer.Option(help="Seconds for each load.")] = 6.0,
    seed: Annotated[int, typer.Option(help="Seed of arrival times and request mix.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for logs.")] = Path("out/live-curve"),
    beside: Annotated[
        str | None,
        typer.Option(help="A job of equal weight beside it: see `osml lab live services`.", show_default="none"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Measure p99 of a service over its load, and find the knee: its target. Needs root, takes two minutes.

    The load is a share of what the service can do. With --beside the curve shows what a job costs it.
    """
    from osml.lab.validation.curve import curve  # noqa: PLC0415 - loads compiled code: not for --help
    from osml.lab.validation.stage import Quiet  # noqa: PLC0415

    document = curve(service_named(service), out, seed, seconds, Quiet(), _say, beside)
    if json:
        _print_json(document)
        return
    company = "alone" if beside is None else f"beside {beside}"
    title = f"{service} {company} on two CPUs"
    table = Table("requests/s", "p50, ms", "p95, ms", "p99, ms", "CPUs", "", title=title)
    for point in document["points"]:
        seen = point["measured"]
        figures = (f"{seen[key]:.3f}" for key in ("p50_ms", "p95_ms", "p99_ms", "cpu"))
        table.add_row(f"{point['rate']:.0f}", *figures, escape(seen["noisy"]))
    console = Console()
    console.print(table)
    console.print(f"target {document['target_ms']:.2f} ms: p99 at the knee, {document['knee_rate']:.0f} requests/s")
    console.print(f"ideal latency {document['ideal_ms']:.2f} ms: p99 at the least load")


@app.command("validate")
def validate_command(
    hours: Annotated[
        float | None, typer.Option(help="Stop after so many hours; a later call goes on.", show_default="no limit")
    ] = None,
    names: Annotated[str, typer.Option("--services", help="Names, separated by commas.", show_default="all")] = "",
    seed: Annotated[int, typer.Option(help="Seed: which cells, in which order, and all arrival times.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder of the run; a run in it goes on.")] = Path("out/live-validation"),
    cells: Annotated[int, typer.Option(help="Held-out cells for each service.")] = 44,
    saturated: Annotated[int, typer.Option(help="Held-out cells at saturation for each service.")] = 6,
    seconds: Annotated[float, typer.Option(help="Seconds for each cell; cells of slow services last longer.")] = 4.0,
    windows: Annotated[
        int, typer.Option(help="Measurements of each calibration cell below saturation; the typical one counts.")
    ] = 3,
    patience_s: Annotated[float, typer.Option(help="Seconds to wait for a quiet machine before each cell.")] = 20.0,
    noise_cpus: Annotated[
        float, typer.Option(help="CPUs that other programs may use; a cell above is marked noisy and not scored.")
    ] = 0.1,
    precedence: Annotated[
        int, typer.Option(help="Weight of the lab against other programs. 1: equal, and they disturb more.")
    ] = 16,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Measure a few cells of each service, predict all others before they are measured, and compare. Needs root.

    A cell is a service under one load, quota and number of CPUs, alone or beside a job or another service.
    """
    from osml.lab.validation.run import Plan, validate  # noqa: PLC0415 - loads compiled code: not for --help
    from osml.lab.validation.stage import Quiet  # noqa: PLC0415

    given = tuple(name.strip() for name in names.split(",") if name.strip())
    plan = Plan(
        out,
        given,
        seed,
        hours,
        cells,
        saturated,
        seconds,
        windows,
        Quiet(noise_cpus, patience_s, precedence=precedence),
    )
    document = validate(plan, _say)
    if json:
        _print_json(document)
        return
    show(document, Console())
    _say(f"wrote {out}/live-validation.json")


def show(document: dict[str, Any], console: Console) -> None:
    """The errors by group, and the summary below."""
    headings = ("group", "", "cells", "p99 within 25 %", "nearest cell", "ideal/(1-u)", "in the interval")
    table = Table(*headings, title="Measured against predicted", title_justify="left")
    for name, groups in document["groups"].items():
        for member, found in groups.items():
            shares = ("within_25pct", "nearest_within_25pct", "mm1_within_25pct", "coverage_90")
            table.add_row(name, member, str(found["cells"]), *(_percent(found[share]) for share in shares))
    console.print(table)
    repeats = document["two_measurements_agree"]
    console.print(
        f"{repeats['pairs']} cells were measured twice: within 25 % of each other in "
        f"{_percent(repeats['within_25pct'])}; a perfect prediction would be within 25 % in about "
        f"{_percent(repeats['best_possible'])}"
    )
    console.print(
        f"{document['held_out']} held-out cells: p99 within 25 % in {_percent(document['within_25pct'])}, "
        f"in its 90 % interval in {_percent(document['coverage_90'])}; {document['noisy']} noisy cells are left out"
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"
