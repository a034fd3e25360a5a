"""`osml lab theory dip`: the abilities of policies, by the experiment of Ah-Q section VIII."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from osml.lab.commands.theory.output import JsonOption, PlotOption, draw, names_of, number, print_json, progress_bar
from osml.lab.theory.abilities import Abilities, Changes
from osml.lab.theory.experiments.dip_experiment import (
    APPLICATIONS,
    EVEN,
    PRIORITY,
    SHARED,
    FailedPair,
    Results,
    Setup,
    run_experiment,
)
from osml.lab.theory.experiments.dip_observations import DipReport, StrategyReport, observe
from osml.lab.theory.experiments.settled_runs import Settling

_LABELS = {SHARED: "Shared (unmanaged)", EVEN: "Even", PRIORITY: "RR"}


def _abilities(found: Abilities) -> dict[str, Any]:
    return asdict(found) | {"kind": found.kind}


def _changes(found: Changes) -> dict[str, Any]:
    return asdict(found) | {"better_pct": found.better_pct, "worse_pct": found.worse_pct}


def _strategy(report: StrategyReport) -> dict[str, Any]:
    return {
        "strategy": report.strategy,
        "cores": _abilities(report.cores),
        "ways": _abilities(report.ways),
        "uncertainties": report.uncertainties,
        "uncertainty_ratio": report.uncertainty_ratio,
        "steadier": _changes(report.steadier),
        "applications": _changes(report.applications),
        "high_priority": _changes(report.high),
        "high_priority_critical_first": _changes(report.high_critical_first),
        "lc_beside_be": _changes(report.lc_beside_be),
        "utilisation": _changes(report.utilisation),
        "utilisation_median": report.utilisation_median,
        "computable_pct": report.computable_pct,
    }


def _document(results: Results, report: DipReport) -> dict[str, Any]:
    setup = results.setup
    return {
        "simulated": True, "platform": setup.platform, "cores": setup.cores, "load": setup.load,
        "be_measure": setup.be_measure, "applications": list(setup.applications),
        "combinations": len(setup.applications) * (len(setup.applications) - 1),
        "tolerance_ability": report.tolerance_ability, "tolerances": report.tolerances,
        "strategies": [_strategy(found) for found in report.strategies],
        "published": [asdict(found) for found in report.published],
        "runs": [
            {"high": c.high, "low": c.low, "strategy": c.strategy, "performance": c.performance,
             "tails_ms": c.settled.tails_ms, "ipcs": c.settled.ipcs, "work_gips": c.settled.work_gips,
             "utilisation": c.settled.utilisation}
            for c in results.combinations
        ],
        "failed": [asdict(found) for found in results.failed], "notes": results.notes,
    }  # fmt: skip


def _both(found: Changes) -> str:
    return f"{number(found.better_pct, 3)} / {number(found.worse_pct, 3)}"


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("strategy")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "kind" else "right")
    return table


def _tables(results: Results, report: DipReport) -> list[Table]:
    setup = results.setup
    where = f"{setup.cores} cores of {setup.platform}, LC load {setup.load:g}, simulated"
    first = _table(
        f"Abilities, as shares of resource slices ({where})", "kind", "DA", "IA", "PA", "IA ways", "targets met"
    )
    second = _table(
        "Observation 2: performance against Shared, % better / worse",
        "all",
        "high priority",
        "no BE above LC",
        "LC beside BE",
    )
    last = _table(
        "Observations 1 and 3: uncertainty and CPU utilisation against Shared",
        "uncertainty",
        "steadier",
        "median utilisation",
        "lower in",
    )
    for found in report.strategies:
        label = _LABELS.get(found.strategy, found.strategy)
        met = "-" if found.computable_pct is None else f"{found.computable_pct:.0f} %"
        first.add_row(
            label,
            found.cores.kind,
            f"{found.cores.da:.2f}",
            f"{found.cores.ia:.2f}",
            f"{found.cores.pa:.2f}",
            f"{found.ways.ia:.2f}",
            met,
        )
        second.add_row(
            label,
            _both(found.applications),
            _both(found.high),
            _both(found.high_critical_first),
            _both(found.lc_beside_be),
        )
        ratio = "-" if found.uncertainty_ratio is None else f"x {found.uncertainty_ratio:.3g}"
        last.add_row(
            label,
            ratio,
            f"{found.steadier.better} of {found.steadier.total}",
            f"{found.utilisation_median:.0%}",
            f"{number(found.utilisation.worse_pct, 3)} %",
        )
    third = Table(title="The paper's numbers and ours", title_justify="left")
    for heading in ("observation", "paper %", "ours %", "ours, counted"):
        third.add_column(heading, justify="right" if "%" in heading else "left")
    for number_ in report.published:
        third.add_row(number_.text, f"{number_.published_pct:g}", number(number_.ours_pct, 3), number_.note)
    return [first, last, second, third] if report.published else [first, last, second]


def _failures(failed: list[FailedPair]) -> list[str]:
    by_reason: dict[tuple[str, str], int] = {}
    for found in failed:
        by_reason[found.strategy, found.reason] = by_reason.get((found.strategy, found.reason), 0) + 1
    return [f"{strategy} failed on {count} pairs: {reason}" for (strategy, reason), count in by_reason.items()]


def dip(
    policies: Annotated[
        str, typer.Option(help="Policies to measure besides Shared, Even and RR, separated by commas.")
    ] = "",
    platform: Annotated[str, typer.Option(help="Platform of the catalog.")] = "gold-6278c",
    cores: Annotated[int, typer.Option(help="Cores that the pairs run on.")] = 8,
    applications: Annotated[str, typer.Option(help="LC services and BE jobs of the catalogs, in pairs.")] = ",".join(
        APPLICATIONS
    ),
    load: Annotated[float, typer.Option(help="Load of LC services, as a share of their highest load alone.")] = 0.3,
    be_measure: Annotated[
        Literal["work", "ipc"], typer.Option(help="Performance of BE jobs: instructions per second, or per cycle.")
    ] = "work",
    settle: Annotated[float, typer.Option(help="Seconds before the measurement.")] = 60.0,
    measure: Annotated[float, typer.Option(help="Seconds of the measurement.")] = 30.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the measurement noise.")] = 0,
    plot: PlotOption = None,
    json: JsonOption = False,
) -> None:
    """Measure TA, DA, IA and PA of policies: all pairs of ten applications on eight cores (Ah-Q section VIII).

    Shared (unmanaged), Even and RR always run. Their numbers check the paper's three observations.
    """
    setup = Setup(
        platform,
        cores,
        tuple(names_of(applications, "--applications")),
        load,
        be_measure,
        Settling(settle, measure, seed=seed),
    )
    with progress_bar("Running pairs") as progress:
        results = run_experiment(setup, names_of(policies, "--policies") if policies else [], progress)
    report = observe(results)
    for note in results.notes:
        typer.echo(f"note: {note}", err=True)
    for line in _failures(results.failed):
        typer.echo(f"warning: {line}", err=True)
    if json:
        print_json(_document(results, report))
    else:
        console = Console()
        console.print(*_tables(results, report))
        parts = ", ".join(f"{name} {value:.2f}" for name, value in report.tolerances.items())
        console.print(f"TA {report.tolerance_ability:.2f} ({parts}), alone at {load:.0%} load", highlight=False)
    draw(plot, "draw_dip", results, report)
