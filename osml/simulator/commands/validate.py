"""`osml lab simulator validate`: the virtual node beside what was published."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from osml.base.failure import InputError
from osml.simulator.calibration.facts import shipped_facts
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


def validate(
    only: Annotated[list[str] | None, typer.Option(help="Only facts whose id contains this; repeatable.")] = None,
    misses: Annotated[bool, typer.Option("--misses", help="Show only facts outside their tolerance.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Compare simulated values with every published fact that a model of one node can show.

    `osml lab simulator fit` uses the facts marked `fitted`, and never those that are held back.
    """
    facts = [fact for fact in shipped_facts() if not only or any(part in fact.id for part in only)]
    if not facts:
        raise InputError(f"--only {', '.join(only or [])} matches no fact; run without --only to list all ids")
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
                "ours": r.ours,
                "tolerance": r.fact.tolerance,
                "pass": r.passed,
                "note": r.fact.note,
            }
            for r in results
        ]
        document = {"simulated": True, "facts": rows, "passed": passed, "total": len(results)}
        typer.echo(json.dumps(document, indent=2))
        return
    out = Console()
    out.print(_table(results, misses_only=misses))
    for held_back, name in ((False, "fitted"), (True, "held back")):
        good, all_of = _summary(results, held_back)
        if all_of:
            out.print(f"{name}: {good} of {all_of} within tolerance ({good / all_of:.0%})")
