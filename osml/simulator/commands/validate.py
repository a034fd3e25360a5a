"""`osml lab simulator validate`: the virtual node beside what was published and measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from osml.base.failure import InputError
from osml.simulator.calibration.facts import shipped_facts
from osml.simulator.calibration.measured.looks import counts, shipped_looks
from osml.simulator.calibration.measured.machines import Machines
from osml.simulator.calibration.measured.outcome import Test, document, finite
from osml.simulator.calibration.measured.run import measured_tests, shipped_tests
from osml.simulator.calibration.validate import Checked, check


def _summary(results: list[Checked], held_back: bool) -> tuple[int, int]:
    some = [result for result in results if result.fact.held_back == held_back]
    return sum(result.passed for result in some), len(some)


def _table(results: list[Checked], *, misses_only: bool) -> Table:
    table = Table(title="Virtual node (simulated) beside published facts", box=None, pad_edge=False)
    table.add_column("fact", no_wrap=True)
    for heading in ("for", "published", "ours", "within", ""):
        table.add_column(heading, justify="right" if heading in ("published", "ours") else "left", no_wrap=True)
    for result in results:
        if misses_only and result.passed:
            continue
        fact = result.fact
        table.add_row(
            escape(fact.id),
            "held" if fact.held_back else "fit",
            f"{fact.published:g}",
            f"{result.ours:.4g}",
            fact.tolerance,
            "pass" if result.passed else "[red]miss[/red]",
        )
    return table


def _error(kind: str, value: float | None) -> str:
    if value is None:
        return "none"
    return f"{100.0 * value:.1f} %" if kind == "relative" else f"{value:.2f}"


def _within(kind: str, value: float) -> str:
    return {"relative": f"{100.0 * value:g} %", "factor": f"x{value:g}", "distance": f"{value:g}"}[kind]


def _missed(found: dict[str, Any]) -> bool:
    return found["aim"] is not None and found["share_within"] < found["aim"]


def _measured_table(documents: Sequence[dict[str, Any]], *, misses_only: bool) -> Table:
    """One line a test: errors, share within, aim, and what the simplest rule has within."""
    table = Table(title="Equations beside measurements", box=None, pad_edge=False)
    for heading in ("test", "n", "median", "p90", "limit", "within", "aim", "simplest"):
        table.add_column(heading, justify="left" if heading == "test" else "right", no_wrap=heading != "test")
    for found in documents:
        if misses_only and not _missed(found):
            continue
        kind, simplest = found["error"], found["simplest"]
        share = f"{found['share_within']:.0%}"
        table.add_row(
            escape(found["name"]),
            str(found["n"]),
            _error(kind, found["median_error"]),
            _error(kind, found["p90_error"]),
            _within(kind, found["within"]),
            f"[red]{share}[/red]" if _missed(found) else share,
            "" if found["aim"] is None else f"{found['aim']:.0%}",
            f"{simplest['share_within']:.0%}" if simplest and simplest["n"] else "",
        )
    return table


def _documents(tests: Sequence[Test], only: list[str] | None) -> list[dict[str, Any]]:
    return [document(test) for test in tests if not only or any(part in test.name for part in only)]


def _against(folder: Path, machines: Machines, only: list[str] | None, misses: bool, as_json: bool) -> None:
    """Tests on the measurements of a folder."""
    documents = _documents(measured_tests(folder, machines, _say), only)
    if not documents:
        raise InputError(f"--measured {folder}: no test has anything to compare; see docs/reference/measured.md")
    if as_json:
        found = {"simulated": True, "tests": documents, "looks": counts(shipped_looks())}
        typer.echo(json.dumps(found, indent=2, allow_nan=False))
        return
    Console().print(_measured_table(documents, misses_only=misses))


def _say(line: str) -> None:
    typer.echo(line, err=True)


def validate(
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only facts whose name contains this, or tests if no fact's name does; repeatable."),
    ] = None,
    misses: Annotated[
        bool, typer.Option("--misses", help="Show only facts outside their tolerance, and tests below their aim.")
    ] = False,
    measured: Annotated[Path | None, typer.Option(help="Folder of measurements to test instead.")] = None,
    machine: Annotated[
        list[str] | None,
        typer.Option(help="What a machine of the measurements is: 'NAME: siblings=no, scheduler=cfs'; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Compare simulated values with every published fact that a model of one node can show, and with measurements.

    `osml lab simulator fit` uses the facts marked `fitted`, and never those that are held back.
    """
    machines = Machines.parse(machine or ())
    if measured is not None:
        _against(measured, machines, only, misses, as_json)
        return
    facts = [fact for fact in shipped_facts() if not only or any(part in fact.id for part in only)]
    # The tests take much longer: where facts are asked for by name, these alone are checked.
    documents = [] if only and facts else _documents(shipped_tests(machines, _say), only)
    if not facts and not documents:
        raise InputError(
            f"--only {', '.join(only or [])} matches no fact and no test; run without --only to list all names"
        )
    console = Console(stderr=True)
    results = list(track(check(facts), "Checking", total=len(facts), console=console, disable=not console.is_terminal))
    passed = sum(result.passed for result in results)
    if as_json:
        rows = [
            {
                "id": r.fact.id,
                "source": r.fact.source,
                "fitted": not r.fact.held_back,
                "published": r.fact.published,
                "ours": finite(r.ours),
                "tolerance": r.fact.tolerance,
                "pass": r.passed,
                "note": r.fact.note,
            }
            for r in results
        ]
        found = {"simulated": True, "facts": rows, "passed": passed, "total": len(results)}
        found |= {"measured": documents, "looks": counts(shipped_looks())}
        typer.echo(json.dumps(found, indent=2, allow_nan=False))
        return
    out = Console()
    if results:
        out.print(_table(results, misses_only=misses))
    for held_back, name in ((False, "fitted"), (True, "held back")):
        good, all_of = _summary(results, held_back)
        if all_of:
            out.print(f"{name}: {good} of {all_of} within tolerance ({good / all_of:.0%})")
    if documents:
        out.print(_measured_table(documents, misses_only=misses))
