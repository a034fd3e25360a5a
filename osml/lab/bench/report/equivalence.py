"""E_S over cores and ways, the cores that policies need for the same E_S, and lines of equal E_S (Ah-Q section VII)."""

from __future__ import annotations

from typing import Any

import numpy as np

from osml.lab.bench.published import published, ratio
from osml.lab.bench.report.document import Picture, Section, Table
from osml.lab.bench.report.figures import colour, figure, own_legend
from osml.lab.bench.results import Results
from osml.lab.theory.equivalence import EntropyCurve, cores_needed

LEVEL, LINE_LEVEL = 0.25, 0.3
"""Of figures 12 a and 12 b."""

ALL_WAYS = 20
"""Of the paper's node: table II and figure 12 a are of them, so a run of fewer ways can't be compared with those."""


def _cut(mix: str) -> tuple[int, int]:
    cores, ways = mix.rsplit("@", 1)[1].removesuffix("w").split("c")
    return int(cores), int(ways)


def grids(results: Results) -> tuple[list[int], list[int], dict[str, Any]]:
    """Cores, ways, and by policy E_S (cores, ways): the mean over seeds."""
    cuts = [_cut(row["mix"]) for row in results.rows]
    cores, ways = sorted({c for c, _ in cuts}), sorted({w for _, w in cuts})
    found: dict[str, Any] = {}
    for policy in results.policies:
        total, count = np.zeros((len(cores), len(ways))), np.zeros((len(cores), len(ways)))
        for row in results.of(policy=policy):
            c, w = _cut(row["mix"])
            if row["e_s_ipc"] is not None:
                total[cores.index(c), ways.index(w)] += row["e_s_ipc"]
                count[cores.index(c), ways.index(w)] += 1
        found[policy] = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    return cores, ways, found


def curve(cores: list[int], values: Any) -> EntropyCurve | None:
    """E_S over cores, of the cells that were run; None where fewer than two were."""
    known = [(c, float(v)) for c, v in zip(cores, values, strict=True) if np.isfinite(v)]
    return EntropyCurve(tuple(c for c, _ in known), tuple(v for _, v in known)) if len(known) > 1 else None


def grid(results: Results) -> Section:
    """Figure 11, with the values that the paper gives."""
    cores, ways, found = grids(results)
    theirs = published()["ahq"]["es_grid"]
    rows: list[list[str]] = []
    for policy, cells in theirs.items():
        for cell, paper in cells.items():
            c, w = (int(text) for text in cell.removesuffix("w").split("c"))
            if policy in found and c in cores and w in ways:
                ours = float(found[policy][cores.index(c), ways.index(w)])
                rows.append([f"{policy}, {c} cores, {w} ways", f"{ours:.3f}", f"{paper:g}", ratio(ours, paper)])

    def draw(made: Any, axes: Any) -> None:
        shown: Any = None
        for axis, (policy, values) in zip(axes[0], found.items(), strict=True):
            shown = axis.imshow(values, origin="lower", cmap="YlOrRd", vmin=0, vmax=0.8, aspect="auto")
            for y, x in np.ndindex(values.shape):
                ink = "white" if values[y, x] > 0.5 else "black"
                axis.text(x, y, f"{values[y, x]:.2f}", ha="center", va="center", fontsize=6, color=ink)
            axis.set_xticks(range(len(ways)), ways)
            axis.set_yticks(range(len(cores)), cores)
            axis.set(title=policy, xlabel="LLC ways")
        axes[0, 0].set_ylabel("cores")
        made.colorbar(shown, ax=list(axes[0]), label="E_S (BE by IPC)")

    picture = Picture(
        "entropy-grid.png",
        "E_S over cores and ways (simulated)",
        figure(1, len(found), (3.2 * len(found) + 1, 3.2), draw),
    )
    return Section(
        "Figure 11: E_S over cores and ways",
        [],
        [Table(["cell", "ours, simulated", "published", "ratio"], rows)],
        [picture],
    )


def lines(results: Results) -> Section:
    """Figure 12: cores needed for E_S 0.25 with all ways, and lines of E_S 0.3."""
    cores, ways, found = grids(results)
    theirs = published()["ahq"]["cores_at_es_0.25"]
    rows: list[list[str]] = []
    for policy, values in found.items():
        over_cores = curve(cores, values[:, -1])
        if over_cores is None:
            continue
        need = cores_needed(over_cores, LEVEL)
        paper = theirs.get(policy) if ways[-1] == ALL_WAYS else None
        rows.append([policy, str(need), "-" if paper is None else f"{paper:g}", ratio(need.cores, paper)])

    def draw(made: Any, axes: Any) -> None:
        for policy, values in found.items():
            curves = [curve(cores, column) for column in values.T]
            needs = [None if one is None else cores_needed(one, LINE_LEVEL).cores for one in curves]
            axes[0, 0].plot(cores, values[:, -1], "o-", markersize=3, color=colour(policy), label=policy)
            axes[0, 1].plot(
                ways,
                [np.nan if need is None else need for need in needs],
                "o-",
                markersize=3,
                color=colour(policy),
                label=policy,
            )
        axes[0, 0].axhline(LEVEL, color="k", linewidth=0.6)
        axes[0, 0].set(xlabel="cores", ylabel="E_S (BE by IPC)", title=f"E_S with {ways[-1]} ways")
        axes[0, 1].set(xlabel="LLC ways", ylabel="cores", title=f"cores for E_S {LINE_LEVEL:g}")
        own_legend(axes[0, 0], fontsize=7)

    picture = Picture(
        "isentropic.png", "Resource equivalence and isentropic lines (simulated)", figure(1, 2, (10, 3.6), draw)
    )
    table = Table(
        ["policy", "ours, simulated", "published", "ratio"], rows, f"cores for E_S {LEVEL:g} with {ways[-1]} ways"
    )
    return Section("Figure 12: resource equivalence", [], [table], [picture])
