"""Pictures of `osml lab theory`: every title says whether the numbers are simulated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from osml.lab.theory.abilities import Changes
from osml.lab.theory.equivalence import cores_needed
from osml.lab.theory.experiments.dip_experiment import EVEN, PRIORITY, SHARED, Results
from osml.lab.theory.experiments.dip_observations import DipReport, caption_performances
from osml.lab.theory.experiments.entropy_grid import Grid
from osml.lab.theory.experiments.inversion_runs import ApplicationInversions, ServiceInversions
from osml.lab.theory.tlt import FloatArray, Tlt

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe and Ito
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_LABELS = {SHARED: "Shared", EVEN: "Even", PRIORITY: "RR"}
_POINTS = 400


def _axes(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    figure, axes = plt.subplots(  # pyright: ignore[reportUnknownMemberType] - matplotlib's own annotation
        rows, columns, figsize=(width, height), layout="constrained", squeeze=False
    )
    for axis in axes.flat:
        axis.grid(visible=True, color="0.9")
        axis.set_axisbelow(True)
    return figure, axes


def _finish(figure: Any, path: Path, title: str) -> None:
    figure.suptitle(title, fontsize=10)
    try:
        figure.savefig(path, dpi=110, format="png")
    finally:
        plt.close(figure)


def draw_tlt(path: Path, found: Tlt, latencies_ms: FloatArray, source: str, unit: str) -> None:
    """The distribution with its tails, and the bound against the throughput over theta (in nines)."""
    figure, axes = _axes(1, 2, 10.5, 4.2)
    left, right = axes[0]
    levels = np.linspace(0.0, 1.0, _POINTS)
    left.plot(np.quantile(latencies_ms, levels), levels, color=COLOURS[0])
    most = 1.15 * float(np.quantile(latencies_ms, 0.995))
    left.set(xlabel="latency, ms", ylabel="share of requests", xlim=(0, most), title="distribution of latency")
    nines = [-np.log10(1.0 - row.theta) for row in found.rows]
    shown = [row for row in found.rows if row.theta in (0.9, 0.95, 0.99)]
    for k, row in enumerate(shown):
        left.axvline(
            row.tail_ms, color=COLOURS[k + 1], linestyle="--", label=f"theta {row.theta:g}, f {row.share_below:.3f}"
        )
    if shown:
        left.legend(loc="lower right", fontsize=8)
    right.plot(nines, [row.bound_any_f_per_s for row in found.rows], "v:", color="0.6", label="bound with f = 0")
    right.plot(nines, [row.bound_per_s for row in found.rows], "o-", color=COLOURS[1], label="bound, f estimated")
    right.axhline(found.throughput_per_s, color=COLOURS[0], label="observed")
    right.set(yscale="log", xlabel="theta", ylabel=f"throughput, {unit}", title="TLT theorem")
    right.set_xticks(nines, [f"{row.theta:g}" for row in found.rows], rotation=45)
    right.legend(fontsize=8)
    _finish(figure, path, source)


def draw_dip(path: Path, results: Results, report: DipReport) -> None:
    """Figures 13 to 15: performance over co-runners, uncertainty, what changes against Shared, CPU utilisation."""
    figure, axes = _axes(2, 2, 13, 8.5)
    names = [found.strategy for found in report.strategies]
    applications, width = results.setup.applications, 0.8 / len(names)
    for k, strategy in enumerate(names):
        at = np.arange(len(applications)) + (k - (len(names) - 1) / 2) * width
        values = [caption_performances(results, strategy, name) for name in applications]
        base = [np.mean(np.ma.masked_invalid(caption_performances(results, SHARED, name))) for name in applications]
        boxes = axes[0, 0].boxplot(
            [np.array(v)[np.isfinite(v)] / b for v, b in zip(values, base, strict=True)],
            positions=at,
            widths=width * 0.9,
            patch_artist=True,
            manage_ticks=False,
            flierprops={"markersize": 3},
            medianprops={"color": "black"},
        )
        for box in boxes["boxes"]:
            box.set_facecolor(COLOURS[k % len(COLOURS)])
        bars = [report.strategies[k].uncertainties[name] or 0.0 for name in applications]
        axes[0, 1].bar(at, bars, width, color=COLOURS[k % len(COLOURS)], label=_LABELS.get(strategy, strategy))
    axes[0, 0].set(
        yscale="log",
        ylabel="relative to the mean under Shared",
        title="latency of LC services (first), work of BE jobs over co-runners",
    )
    axes[0, 1].set(ylabel="standard deviation / mean", title="uncertainty (figure 14)")
    for axis in axes[0]:
        axis.set_xticks(range(len(applications)), applications, rotation=35, ha="right")
    axes[0, 1].legend(fontsize=8)
    _draw_changes(axes[1, 0], report)
    used = [[c.settled.utilisation * 100 for c in results.of(strategy).values()] for strategy in names]
    boxes = axes[1, 1].boxplot(used, patch_artist=True, medianprops={"color": "black"})
    for k, box in enumerate(boxes["boxes"]):
        box.set_facecolor(COLOURS[k % len(COLOURS)])
    axes[1, 1].set_xticks(range(1, len(names) + 1), [_LABELS.get(name, name) for name in names], rotation=20)
    axes[1, 1].set(ylabel="CPU utilisation, %", title="CPU utilisation (figure 15b)")
    setup = results.setup
    _finish(figure, path, f"DIP experiment on {setup.cores} cores of {setup.platform}, load {setup.load:g} (simulated)")


def _draw_changes(axis: Any, report: DipReport) -> None:
    rows: list[tuple[str, Changes, float | None]] = []
    for found in report.strategies:
        label = _LABELS.get(found.strategy, found.strategy)
        if found.strategy == PRIORITY:
            rows.append((f"{label}: high priority", found.high, 94.2))
        elif found.strategy != SHARED:
            rows.append((f"{label}: all", found.applications, 50.9 if found.strategy == EVEN else None))
            rows.append((f"{label}: LC beside BE", found.lc_beside_be, None))
    for k, (_, found, published) in enumerate(rows):
        left = 0.0
        for value, colour in ((found.better, COLOURS[2]), (found.same, "0.8"), (found.worse, COLOURS[1])):
            share = 100.0 * value / max(found.total, 1)
            axis.barh(k, share, left=left, color=colour)
            left += share
        if published is not None:
            axis.plot([published, published], [k - 0.4, k + 0.4], color="black", linewidth=2)
            axis.text(published - 1, k, f"paper {published}", ha="right", va="center", fontsize=8)
    axis.set_yticks(range(len(rows)), [label for label, _, _ in rows])
    axis.invert_yaxis()
    axis.set(
        xlabel="% of applications: better, same (grey), worse",
        xlim=(0, 100),
        title="performance against Shared (figure 15a)",
    )


def draw_equivalence(path: Path, grid: Grid, levels: Sequence[float], line_level: float) -> None:
    """Figure 12: E_S over cores with the levels, and isentropic lines where there are several numbers of ways."""
    several = len(grid.setup.ways) > 1
    figure, axes = _axes(1, 1 + several, 6.0 + 4.8 * several, 4.4)
    left = axes[0, 0]
    for k, name in enumerate(grid.policies_that_ran):
        curve, colour = grid.curve(name), COLOURS[k % len(COLOURS)]
        left.plot(curve.cores, curve.e_s, marker=MARKERS[k % len(MARKERS)], color=colour, label=name)
        spread = [c.e_s_range or (0.0, 0.0) for c in grid.cells if c.policy == name and c.ways == grid.setup.ways[-1]]
        if grid.setup.seeds > 1:
            left.fill_between(curve.cores, *zip(*spread, strict=True), color=colour, alpha=0.2, linewidth=0)
        for level in levels:
            needed = cores_needed(curve, level).cores
            if needed is not None:
                left.plot([needed, needed], [0.0, level], color=colour, linestyle=":", linewidth=1)
    for level in levels:
        left.axhline(level, color="0.5", linestyle="--", linewidth=0.8)
    left.set(xlabel="cores", ylabel="E_S", ylim=(0, None), title=f"E_S with {grid.setup.ways[-1]} ways")
    left.legend(fontsize=8)
    if several:
        right = axes[0, 1]
        for k, name in enumerate(grid.policies_that_ran):
            line = [np.nan if need.cores is None else need.cores for need in grid.line(name, line_level)]
            right.plot(
                grid.setup.ways, line, marker=MARKERS[k % len(MARKERS)], color=COLOURS[k % len(COLOURS)], label=name
            )
        right.set(xlabel="LLC ways", ylabel="cores", title=f"isentropic lines, E_S = {line_level:g}")
        right.legend(fontsize=8)
    _finish(figure, path, f"{grid.setup.mix} on {grid.setup.platform} (simulated)")


def draw_inversions(path: Path, found: dict[str, list[ServiceInversions]], percentile: float, source: str) -> None:
    """Each service's wNoI and tail latency under each discipline."""
    figure, axes = _axes(1, 2, 10.5, 4.2)
    services = list(dict.fromkeys(row.service for rows in found.values() for row in rows))
    width = 0.8 / len(found)
    for k, (discipline, rows) in enumerate(found.items()):
        at = [services.index(row.service) + (k - (len(found) - 1) / 2) * width for row in rows]
        axes[0, 0].bar(at, [row.added_ms for row in rows], width, color=COLOURS[k % len(COLOURS)], label=discipline)
        axes[0, 1].bar(at, [row.tail_ms for row in rows], width, color=COLOURS[k % len(COLOURS)], label=discipline)
    axes[0, 0].set(ylabel="ms a request", title="wNoI, most critical service first")
    axes[0, 1].set(ylabel="ms", title=f"p{100 * percentile:g} of the latency")
    for axis in axes.flat:
        axis.set_xticks(range(len(services)), services)
        axis.legend(fontsize=8)
    _finish(figure, path, source)


def draw_order(path: Path, found: ApplicationInversions, source: str) -> None:
    """Each application's wNoI beside what its tail really gains."""
    figure, axes = _axes(1, 1, 6.5, 4.2)
    axis, at = axes[0, 0], np.arange(len(found.names))
    axis.bar(at - 0.2, found.added_ms, 0.4, color=COLOURS[0], label="wNoI: sum over pairs")
    axis.bar(at + 0.2, found.measured_ms, 0.4, color=COLOURS[1], label="tail gained in the whole mix")
    axis.set_xticks(
        at, [f"{name}\nplace {place + 1}" for name, place in zip(found.names, found.positions, strict=True)]
    )
    axis.set(ylabel="ms", title="inversions of applications, the most critical first")
    axis.legend(fontsize=8)
    _finish(figure, path, f"{source}, simulated")
