"""`osml bench`: run suites, report on them, list them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from osml.base.failure import InputError
from osml.lab.bench.contenders import without_models
from osml.lab.bench.report.build import build
from osml.lab.bench.run import Settings, run
from osml.lab.bench.suites import SUITES, suite
from osml.lab.bench.workers import in_this_process, processes, ray_cluster

app = typer.Typer(
    help="Compare policies on the virtual node: suites of the papers' experiments, with reports.", no_args_is_help=True
)
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def _print(document: Any) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


@app.command("list")
def list_suites(json: Json = False) -> None:
    """List the suites, where each comes from, and how many mixes it has."""
    found = list(SUITES.values())
    if json:
        rows = [
            {"name": one.name, "title": one.title, "source": one.source, "mixes": len(one.scenarios()),
             "policies": one.policies}
            for one in found
        ]  # fmt: skip
        _print({"suites": rows})
        return
    table = Table("suite", "what", "from", "mixes", "policies")
    for one in found:
        table.add_row(one.name, one.title, one.source, str(len(one.scenarios())), ", ".join(one.policies))
    Console().print(table)


@app.command("run")
def run_suite(
    name: Annotated[str, typer.Argument(metavar="SUITE", help="A suite of `osml bench list`.")],
    out: Annotated[Path, typer.Option(help="Folder for the results; it is made.")],
    policies: Annotated[str, typer.Option(help="Names with commas between; default: those of `osml bench list`.")] = "",
    seeds: Annotated[int, typer.Option(help="Runs of each mix and policy, with other noise.")] = 3,
    workers: Annotated[int, typer.Option(help="Processes; 0: one a CPU.")] = 0,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A Ray cluster: host:port or auto.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what the folder has.")] = False,
    limit: Annotated[int | None, typer.Option(help="Only so many mixes, spread over the suite.")] = None,
    json: Json = False,
) -> None:
    """Run a suite: every policy on the same mixes, arrivals, noise and delays. Ctrl-C keeps what is finished."""
    chosen = suite(name)
    if workers < 0:
        raise InputError(f"--workers is {workers}, expected 0 (one a CPU) or more")
    count = workers or len(os.sched_getaffinity(0))
    who = ray_cluster(ray) if ray is not None else in_this_process if count == 1 else processes(count)
    wanted = [part.strip() for part in policies.split(",") if part.strip()] or list(chosen.policies)
    console = Console(stderr=True)
    for note in without_models(wanted, (scenario.platform for scenario in chosen.scenarios())):
        console.print(note, highlight=False)
    metadata = run(Settings(chosen, wanted, seeds, out, resume, limit), who, console)
    if json:
        _print(metadata)
    else:
        console.print(f"{out}/results.parquet written; `osml bench report {out}` makes the report", highlight=False)


@app.command("report")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that `osml bench run` made.")],
    json: Json = False,
) -> None:
    """Write report.html, report.md, summary.json and the plots into a results folder."""
    summary = build(folder)
    if json:
        _print(summary)
    else:
        Console().print(f"{folder}/report.html written", highlight=False)
