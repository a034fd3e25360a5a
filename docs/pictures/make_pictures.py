"""Makes the pictures of docs/explanation/virtual-node.md (`make pictures`): simulated or published, nothing else."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm

from osml import frontier
from osml.simulator import catalogs
from osml.simulator.calibration.crosscheck import crosscheck
from osml.simulator.calibration.facts import shipped_facts
from osml.simulator.calibration.validate import Checked, check, mix_entropies
from osml.simulator.surface import p99_surface

HERE = Path(__file__).parent
PLATFORM = catalogs.platform("e5-2697v4")
LOAD = 0.6

mpl.use("Agg")
mpl.rcParams.update({"figure.dpi": 110, "font.size": 9, "axes.titlesize": 10, "savefig.bbox": "tight"})


def cliffs() -> None:
    """p99 over cores and ways for four services, with RCliff and OAA (as OSML's figure 1)."""
    figure, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
    for axis, name in zip(axes.flat, ("moses", "img-dnn", "xapian", "specjbb"), strict=True):
        service = catalogs.service(name, PLATFORM.id)
        surface = p99_surface(PLATFORM, service, LOAD)
        shown = axis.imshow(
            surface,
            norm=LogNorm(1, 1e5),
            cmap="RdYlGn_r",
            origin="lower",
            aspect="auto",
            extent=(0.5, PLATFORM.ways + 0.5, 0.5, PLATFORM.cpus + 0.5),
        )
        axis.contour(
            range(1, PLATFORM.ways + 1),
            range(1, PLATFORM.cpus + 1),
            surface,
            [service.target_ms],
            colors="k",
            linewidths=1,
        )
        labels = frontier.label(surface, service.target_ms)
        for cell, marker, text in ((labels.rcliff, "rs", "RCliff"), (labels.oaa, "b^", "OAA")):
            if cell[0]:
                axis.plot(cell[1], cell[0], marker, label=f"{text} ({cell[0]} cores, {cell[1]} ways)")
        axis.legend(loc="upper right")
        axis.set(title=f"{name} at {LOAD:.0%} of max load, alone", xlabel="LLC ways", ylabel="cores")
    figure.colorbar(shown, ax=axes, label="p99 in ms (line: the target)")
    figure.suptitle("Cliffs on e5-2697v4 (simulated)")
    figure.savefig(HERE / "cliffs.png")


def analytic_against_events() -> None:
    """p99 of the formulas against that of the event simulation, and the distribution of the error."""
    names = ("moses", "img-dnn", "xapian", "masstree", "specjbb")
    report = crosscheck(PLATFORM, [catalogs.service(name, PLATFORM.id) for name in names], 0)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    events = np.array([cell.simulated.p99_ms for cell in report.cells])
    ours = np.array([cell.analytic.p99_ms for cell in report.cells])
    shown = left.scatter(events, ours, c=[cell.utilisation for cell in report.cells], s=8, cmap="viridis", vmax=1.5)
    line = (events.min(), events.max())
    left.plot(line, line, "k-", linewidth=0.6)
    left.set(xscale="log", yscale="log", xlabel="p99 of the event simulation, ms", ylabel="p99 of the formulas, ms")
    figure.colorbar(shown, ax=left, label="utilisation")
    errors = np.abs(ours / events - 1.0) * 100.0
    right.hist(errors, bins=np.linspace(0, 30, 61), color="tab:blue")
    right.set(
        xlabel="relative error of p99, %",
        ylabel="cells",
        yscale="log",
        title=f"median {np.median(errors):.2g} %, worst {errors.max():.2g} %, {len(errors)} cells",
    )
    figure.suptitle("Two fidelities of the same queue")
    figure.savefig(HERE / "analytic_against_events.png")


def interference() -> None:
    """PARTIES table 4, theirs and ours."""
    results = list(check(f for f in shipped_facts() if f.kind == "interference"))
    rows = list(dict.fromkeys(r.fact.quantity for r in results))
    columns = list(dict.fromkeys(r.fact.service for r in results))
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")

    def cell(value: Checked, published: bool) -> float:
        return value.fact.published if published else value.ours

    for axis, published, title in ((axes[0], True, "PARTIES, table 4"), (axes[1], False, "virtual node (simulated)")):
        table = np.zeros((len(rows), len(columns)))
        for r in results:
            table[rows.index(r.fact.quantity), columns.index(r.fact.service)] = cell(r, published)
        axis.imshow(table, cmap="RdYlGn", vmin=0, vmax=100, aspect="auto")
        for r in results:
            y, x = rows.index(r.fact.quantity), columns.index(r.fact.service)
            axis.text(
                x,
                y,
                f"{table[y, x]:.0f}",
                ha="center",
                va="center",
                weight="normal" if published or r.passed else "bold",
            )
        axis.set(xticks=range(len(columns)), yticks=range(len(rows)), title=title)
        axis.set_xticklabels(columns, rotation=30, ha="right")
        axis.set_yticklabels([row.replace("_", " ") for row in rows] if published else [])
    figure.suptitle("Load within the target under interference, % of max load (bold: more than 15 points apart)")
    figure.savefig(HERE / "interference.png")


def entropy_over_resources() -> None:
    """E_S over cores and ways, unmanaged and under ARQ (as Ah-Q's figure 11)."""
    cores, ways = range(4, 11), range(4, 21, 4)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for axis, policy in zip(axes, ("unmanaged", "arq"), strict=True):
        grid = np.array([[mix_entropies(n, w, policy)["e_s"] for w in ways] for n in cores])
        shown = axis.imshow(grid, cmap="RdYlGn_r", vmin=0, vmax=0.7, origin="lower", aspect="auto")
        for y, row in enumerate(grid):
            for x, value in enumerate(row):
                axis.text(x, y, f"{value:.2f}", ha="center", va="center")
        axis.set(xticks=range(len(ways)), yticks=range(len(cores)), title=policy, xlabel="LLC ways")
        axis.set_xticklabels(ways)
        axis.set_yticklabels(cores)
    axes[0].set_ylabel("cores")
    figure.colorbar(shown, ax=axes, label="E_S")
    figure.suptitle(
        "xapian, moses, img-dnn at 20 % and fluidanimate on e5-2630v4 (simulated); published: "
        "unmanaged 0.53 at 6 cores, 0.006 at 10; ARQ 0.15 and 0.008",
        fontsize=9,
    )
    figure.savefig(HERE / "entropy_over_resources.png")


if __name__ == "__main__":
    cliffs()
    interference()
    entropy_over_resources()
    analytic_against_events()
