"""`osml lab bench`: run suites, report on them, list them."""

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
from osml.lab.bench.contenders import checked_levers, without_models
from osml.lab.bench.papers.document import document, rows, runs_of
from osml.lab.bench.report.build import build
from osml.lab.bench.report.tables import SHOWN, fault_lines, faulty
from osml.lab.bench.results import Results
from osml.lab.bench.run import Settings, run
from osml.lab.bench.store import Store
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites import SUITES, suite
from osml.lab.bench.workers import in_this_process, processes, ray_cluster
from osml.simulator.node_platform import LEVERS

app = typer.Typer(
    help="Compare policies on the virtual node: suites of the papers' experiments, with reports.", no_args_is_help=True
)
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def _print(document: Any) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")


def _default_seeds() -> str:
    return f"{Suite.seeds}; 1 for {', '.join(one.name for one in SUITES.values() if one.seeds == 1)}"


@app.command("list")
def list_suites(json: Json = False) -> None:
    """List the suites with their sources, numbers of mixes, and levers that the agent does not have."""
    found = list(SUITES.values())
    if json:
        rows = [
            {
                "name": one.name,
                "title": one.title,
                "source": one.source,
                "mixes": len(one.scenarios()),
                "policies": one.policies,
                "levers": one.levers,
            }
            for one in found
        ]
        _print({"suites": rows})
        return
    table = Table("suite", "title", "source", "mixes", "policies", "levers that the agent does not have")
    for one in found:
        table.add_row(one.name, one.title, one.source, str(len(one.scenarios())), ", ".join(one.policies), one.levers)
    Console().print(table)


@app.command("run")
def run_suite(
    name: Annotated[str, typer.Argument(metavar="SUITE", help="Suite, see `osml lab bench list`.")],
    out: Annotated[Path, typer.Option(help="Folder for the results; osml creates it.")],
    policies: Annotated[str, typer.Option(help="Names separated by commas; default: see `osml lab bench list`.")] = "",
    seeds: Annotated[
        int | None,
        typer.Option(help=f"Runs per mix and policy, each with different noise; default: {_default_seeds()}."),
    ] = None,
    workers: Annotated[int, typer.Option(help="Number of processes; 0: one per CPU.")] = 0,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A Ray cluster: host:port or auto.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    limit: Annotated[int | None, typer.Option(help="Number of mixes to run, spread over the suite.")] = None,
    part: Annotated[str | None, typer.Option(help="Only the mixes of this part of the suite.")] = None,
    levers: Annotated[
        str,
        typer.Option(
            help=f"In the place of the suite's: none, or some of {','.join(LEVERS)}. "
            "An agent has them off by default, and none for the network."
        ),
    ] = "",
    json: Json = False,
) -> None:
    """Run a suite: every policy on the same mixes, arrivals, noise and delays. Ctrl-C keeps finished mixes."""
    chosen = suite(name)
    if workers < 0:
        raise InputError(f"--workers is {workers}, expected 0 (one per CPU) or more")
    count = workers or len(os.sched_getaffinity(0))
    who = ray_cluster(ray) if ray is not None else in_this_process if count == 1 else processes(count)
    wanted = [part.strip() for part in policies.split(",") if part.strip()] or list(chosen.policies)
    console = Console(stderr=True, markup=False)
    for note in without_models(wanted, (scenario.platform for scenario in chosen.scenarios())):
        console.print(note, highlight=False)
    others = checked_levers(levers) if levers else None
    metadata = run(
        Settings(chosen, wanted, chosen.seeds if seeds is None else seeds, out, resume, limit, part, others),
        who,
        console,
    )
    _warn_of_faults(faulty(Results(Store(out).results(), [], metadata)))
    if json:
        _print(metadata)
    else:
        console.print(f"wrote {out}/results.parquet; next: osml lab bench report {out}", highlight=False)


@app.command("report")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of `osml lab bench run`.")],
    json: Json = False,
) -> None:
    """Write report.html, report.md, summary.json and the plots into a results folder."""
    summary = build(folder)
    _warn_of_faults(summary["faulty"])
    if json:
        _print(summary)
    else:
        _print_means(summary)
        Console(markup=False).print(f"wrote {folder}/report.html", highlight=False)


def _warn_of_faults(found: dict[str, Any]) -> None:
    for line in fault_lines(found):
        Console(stderr=True, markup=False).print(line, highlight=False, soft_wrap=True)


def _print_means(summary: dict[str, Any]) -> None:
    """What a comparison is about, a row for each policy; the report has the intervals and all the rest."""
    columns = {m.column: m for m in SHOWN}
    for part in next(iter(summary["policies"].values())):
        table = Table("policy", title=f"{summary['suite']}, {part} (simulated)", title_justify="left")
        for metric in columns.values():
            table.add_column(f"{metric.label} ({metric.average})", justify="right")
        for policy, parts in summary["policies"].items():
            values = {column: parts[part][column]["value"] for column in columns}
            shown = ("" if value is None else format(value, columns[column].form) for column, value in values.items())
            table.add_row(policy, *shown)
        Console().print(table)


@app.command("papers")
def papers(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of `osml lab bench run`.")],
    json: Json = False,
) -> None:
    """Compare what the papers say of their policies with runs of the same experiments, fact by fact."""
    found = document(runs_of(folders))
    if json:
        _print(found)
        return
    table = Table("source", "what", "published", "ours, simulated", "rule", "holds")
    for row in rows(found):
        table.add_row(*row)
    console = Console(markup=False)
    console.print(table)
    console.print(
        f"{found['lines_held']} of {found['lines_compared']} lines hold, of {found['facts_compared']} facts. "
        f"{len(found['not_compared'])} of {found['facts']} facts are not compared; --json has the reasons.",
        highlight=False,
    )
