"""`osml lab theory equivalence`: what a policy is worth in cores (Ah-Q section V-C and figure 12)."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from osml.base.failure import Failure
from osml.lab.commands.theory.output import (
    JsonOption,
    PlotOption,
    counts_of,
    draw,
    names_of,
    print_json,
    progress_bar,
    shares_of,
)
from osml.lab.theory.equivalence import cores_needed, cores_worth, equivalence
from osml.lab.theory.experiments.entropy_grid import AHQ_MIX, Grid, GridSetup, pairs_of, run_grid
from osml.lab.theory.experiments.published_equivalence import Published, published_beside
from osml.lab.theory.experiments.settled_runs import Settling
from osml.simulator.mix import parse_mix


def _comparisons(grid: Grid, levels: list[float]) -> list[dict[str, Any]]:
    """Every pair of policies at every level, at the most ways."""
    rows: list[dict[str, Any]] = []
    for better, worse in pairs_of(grid.policies_that_ran):
        own, other = grid.curve(better), grid.curve(worse)
        for level in levels:
            rows.append(
                {
                    "policy": better,
                    "against": worse,
                    "e_s": level,
                    "cores": cores_needed(own, level).cores,
                    "cores_against": cores_needed(other, level).cores,
                    "saved": equivalence(own, other, level),
                }
            )
    return rows


def _worth(grid: Grid) -> list[dict[str, Any]]:
    """Cores that one policy needs for the E_S that another gets with n."""
    rows: list[dict[str, Any]] = []
    for better, worse in pairs_of(grid.policies_that_ran):
        own, other = grid.curve(better), grid.curve(worse)
        for cores in grid.setup.cores:
            need = cores_worth(own, other, cores)
            rows.append(
                {
                    "policy": better,
                    "against": worse,
                    "cores": cores,
                    "e_s": own.at(cores),
                    "cores_against": need.cores,
                    "beyond": need.beyond,
                }
            )
    return rows


def _lines(grid: Grid, level: float) -> dict[str, list[float | None]]:
    return {name: [need.cores for need in grid.line(name, level)] for name in grid.policies_that_ran}


def _document(grid: Grid, levels: list[float], line_level: float, published: list[Published]) -> dict[str, Any]:
    setup = grid.setup
    return {
        "simulated": True, "mix": str(setup.mix), "platform": setup.platform, "cores": setup.cores, "ways": setup.ways,
        "policies": setup.policies, "seeds": setup.seeds, "be_measure": setup.be_measure,
        "cells": [asdict(cell) for cell in grid.cells],
        "rises": {name: grid.curve(name).rises for name in grid.policies_that_ran},
        "equivalences": _comparisons(grid, levels), "worth": _worth(grid),
        "isentropic": {"e_s": line_level, "ways": setup.ways, "cores": _lines(grid, line_level)},
        "published": [asdict(found) for found in published],
    }  # fmt: skip


def _tables(grid: Grid, levels: list[float], line_level: float, published: list[Published]) -> list[Table]:
    setup, ran = grid.setup, grid.policies_that_ran
    curves = Table(
        title=f"E_S of {setup.mix} on {setup.platform} with {setup.ways[-1]} ways (simulated)", title_justify="left"
    )
    curves.add_column("cores", justify="right")
    for name in ran:
        curves.add_column(name, justify="right")
    for k, cores in enumerate(setup.cores):
        curves.add_row(str(cores), *(f"{grid.curve(name).e_s[k]:.3f}" for name in ran))
    needs = Table(title="Cores for an E_S, and the resource equivalence", title_justify="left")
    for heading in ("E_S", "policy", "cores", "against", "cores ", "saved"):
        needs.add_column(heading, justify="left" if heading in ("policy", "against") else "right")
    for level in levels:
        for better, worse in pairs_of(ran):
            own, other = grid.curve(better), grid.curve(worse)
            saved = equivalence(own, other, level)
            needs.add_row(
                f"{level:g}",
                better,
                str(cores_needed(own, level)),
                worse,
                str(cores_needed(other, level)),
                "-" if saved is None else f"{saved:+.2f}",
            )
    tables = [curves, needs]
    if len(setup.ways) > 1:
        lines = Table(title=f"Isentropic lines: cores for E_S = {line_level:g}", title_justify="left")
        lines.add_column("ways", justify="right")
        for name in ran:
            lines.add_column(name, justify="right")
        for k, ways in enumerate(setup.ways):
            lines.add_row(str(ways), *(str(grid.line(name, line_level)[k]) for name in ran))
        tables.append(lines)
    if published:
        beside = Table(title="The paper's numbers and ours", title_justify="left")
        for heading in ("figure", "what", "paper", "ours"):
            beside.add_column(heading, justify="right" if heading in ("paper", "ours") else "left")
        for found in published:
            beside.add_row(found.figure, found.text, f"{found.published:g}", found.shown)
        tables.append(beside)
    return tables


def equivalence_command(
    mix: Annotated[str, typer.Argument(metavar="[MIX]", help="NAME=LOAD,NAME=LOAD[,be:NAME].")] = str(AHQ_MIX),
    policies: Annotated[str, typer.Option(help="Policies, the baseline first.")] = "unmanaged,arq",
    platform: Annotated[str, typer.Option(help="Platform of the catalog.")] = "e5-2630v4",
    cores: Annotated[str, typer.Option(help="Numbers of cores, such as 4-10.")] = "4-10",
    ways: Annotated[str, typer.Option(help="Cache ways, such as 20 or 4,8,12,16,20.")] = "20",
    level: Annotated[str, typer.Option(help="E_S at which policies are compared.")] = "0.25,0.4",
    line: Annotated[str, typer.Option(help="E_S of the isentropic lines.")] = "0.3",
    be_threads: Annotated[int, typer.Option(min=1, help="Threads of each BE job.")] = 4,
    be_measure: Annotated[
        Literal["ipc", "work"], typer.Option(help="E_BE compares instructions per cycle, or per second.")
    ] = "ipc",
    seeds: Annotated[int, typer.Option(min=1, help="Runs with different noise; E_S is their median.")] = 1,
    settle: Annotated[float, typer.Option(help="Seconds before the measurement.")] = 120.0,
    measure: Annotated[float, typer.Option(help="Seconds of the measurement.")] = 60.0,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    plot: PlotOption = None,
    json: JsonOption = False,
) -> None:
    """Compute the cores that policies need for the same E_S, and isentropic lines (Ah-Q, figure 12).

    Without options: figure 12(a). A cell of the grid takes about half a second.
    """
    setup = GridSetup(
        parse_mix(mix),
        platform,
        counts_of(cores, "--cores"),
        counts_of(ways, "--ways"),
        tuple(names_of(policies, "--policies")),
        be_threads,
        be_measure,
        seeds=seeds,
        settling=Settling(settle, measure),
    )
    levels, line_level = shares_of(level, "--level"), shares_of(line, "--line")[0]
    with progress_bar("Running nodes") as progress:
        grid = run_grid(setup, workers, progress)
    for cell in grid.cells:
        if cell.failed:
            typer.echo(f"warning: {cell.policy}, {cell.cores} cores, {cell.ways} ways: {cell.failed}", err=True)
    if not grid.policies_that_ran:
        raise Failure("no policy ran on every number of cores and ways")
    published = published_beside(grid)
    if json:
        print_json(_document(grid, levels, line_level, published))
    else:
        console = Console()
        console.print(*_tables(grid, levels, line_level, published))
        console.print(_monotone(grid), highlight=False)
    draw(plot, "draw_equivalence", grid, levels, line_level)


def _monotone(grid: Grid) -> str:
    """Whether more cores never made E_S worse (section V-A, property 2)."""
    rises = [
        f"{name} +{step:.3f} at {cores} cores"
        for name in grid.policies_that_ran
        for cores, step in grid.curve(name).rises
    ]
    return f"E_S rises with more cores: {'; '.join(rises)}" if rises else "E_S never rises with more cores"
