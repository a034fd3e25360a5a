"""Highest load of a third service over the loads of two others (OSML figure 10, PARTIES figure 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.lab.bench.oracle_policy import ORACLES
from osml.lab.bench.report.document import Picture, Section, Table
from osml.lab.bench.report.figures import figure
from osml.lab.bench.results import Results
from osml.simulator.mix import parse_mix

Map = NDArray[np.float64]


def loads_of(mix: str) -> dict[str, float]:
    """The loads that are given in the name of a mix with a search."""
    return parse_mix(",".join(entry for entry in mix.split(",") if not entry.endswith("=?"))).loads


def maps(results: Results, axes: tuple[str, str]) -> tuple[list[float], list[float], dict[str, Map]]:
    """Loads of both services, and by policy the highest load (first, second); 0 where none holds, NaN not run."""
    cells = {row["case"]: loads_of(row["mix"]) for row in results.rows}
    xs, ys = (sorted({loads[name] for loads in cells.values()}) for name in axes)
    found: dict[str, Map] = {}
    for policy in results.policies:
        grid = np.full((len(ys), len(xs)), np.nan)
        for row in results.of(policy=policy):
            loads = cells[row["case"]]
            grid[ys.index(loads[axes[1]]), xs.index(loads[axes[0]])] = row["searched_load"]
        found[policy] = grid
    return xs, ys, found


def _share(grid: Map, of: Map) -> str:
    """Sum of a map as a share of another's."""
    return f"{np.nansum(grid) / np.nansum(of):.0%}" if np.nansum(of) > 0 else "-"


def section(results: Results, title: str, axes: tuple[str, str], text: Sequence[str] = ()) -> Section:
    """One heat map a policy, and their sums."""
    if not results.rows:
        return Section(title, ["No cell was run."])
    xs, ys, found = maps(results, axes)
    bounds = [name for name in ORACLES if name in found]
    rows = [
        [
            policy,
            f"{np.nansum(grid):.1f}",
            *(_share(grid, found[bound]) for bound in bounds),
            f"{int(np.sum(grid > 0))} of {int(np.sum(~np.isnan(grid)))}",
        ]
        for policy, grid in found.items()
    ]
    of = [f"relative to {bound}" for bound in bounds]
    table = Table(["policy", "sum of highest loads", *of, "cells with any load"], rows)

    def draw(made: Any, drawn: Any) -> None:
        shown: Any = None
        for axis, (policy, grid) in zip(drawn[0], found.items(), strict=True):
            shown = axis.imshow(grid * 100, origin="lower", cmap="YlGn", vmin=0, vmax=100, aspect="auto")
            for y, x in np.ndindex(grid.shape):
                if not np.isnan(grid[y, x]):
                    text = f"{grid[y, x] * 100:.0f}" if grid[y, x] > 0 else "x"
                    colour = "white" if grid[y, x] > 0.6 else "black"
                    axis.text(x, y, text, ha="center", va="center", fontsize=6, color=colour)
            axis.set_xticks(range(len(xs)), [f"{value * 100:.0f}" for value in xs])
            axis.set_yticks(range(len(ys)), [f"{value * 100:.0f}" for value in ys])
            axis.set(title=policy, xlabel=f"{axes[0]}, % of max load")
        drawn[0, 0].set_ylabel(f"{axes[1]}, % of max load")
        made.colorbar(shown, ax=list(drawn[0]), label="highest load of the third service, %")

    name = f"heat-map-{results.parts[0].replace(' ', '-')}.png"
    picture = Picture(name, f"{title} (simulated; x: none)", figure(1, len(found), (3.1 * len(found) + 1, 3.3), draw))
    return Section(title, text, [table], [picture])
