"""Figures 3 to 10 of the paper as PNG, with its claims in the titles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from osml.dispatch.mdp.parameters import Epochs
from osml.lab.dispatch.claims import (
    ALPHAS,
    FARM_SIZES,
    SETS,
    SLOW_RATES,
    Point,
    environment_1_and_2,
    environment_3,
    environment_4,
    figure_10,
)

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito
LINES = ("-", "--", ":", "-.")


def draw_all(folder: Path, epochs: Epochs) -> list[Path]:
    """Write figure-3.png to figure-10.png; return their paths."""
    first, third = environment_1_and_2(0.3, epochs), environment_3(epochs)
    wide = {f"alpha = {alpha:g}": environment_1_and_2(alpha, epochs) for alpha in ALPHAS}
    return [
        _thresholds(folder / "figure-3.png", first, "arrival rate", "paper: N_i peaks at 31, at 4 and 5"),
        _improvements(
            folder / "figure-4.png", {"alpha = 0.3": first}, "arrival rate",
            "paper: 3 % at 1, peak over 6 % at 5, about 1 % at 50",
        ),
        _improvements(folder / "figure-5.png", wide, "arrival rate", "paper: alpha = 3 is above the others throughout"),
        _improvements(folder / "figure-6.png", {"": third}, "x, alpha = 0.03 x 10^x", "paper: around 14 % at x = 2.2"),
        _thresholds(folder / "figure-7.png", third, "x, alpha = 0.03 x 10^x", "paper: N_ib 1, N_ii 0 at low alpha"),
        _means(folder / "figure-8.png", third),
        _four_sets(folder / "figure-9.png", epochs),
        _farm_sizes(folder / "figure-10.png", epochs),
    ]  # fmt: skip


def _axes(rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    figure, axes = plt.subplots(  # pyright: ignore[reportUnknownMemberType] - matplotlib's own annotation
        rows,
        columns,
        figsize=(7 if columns == 1 else 11, 4.2 if rows == 1 else 7),
        constrained_layout=True,
        squeeze=False,
    )
    for axis in axes.flat:
        axis.grid(visible=True, color="0.9")
    return figure, axes


def _finish(figure: Any, path: Path, title: str) -> Path:
    figure.suptitle(f"{path.stem.replace('-', ' ').capitalize()}   ({title})", fontsize=10)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def _draw_sizes(axis: Any, points: Sequence[Point]) -> None:
    for index, name in enumerate(("$N_i$", "$N_{ib}$", "$N_{ii}$")):
        sizes = [point.sizes[index] for point in points]
        axis.plot([p.x for p in points], sizes, label=name, color=COLOURS[index], linestyle=LINES[index])
    axis.legend()


def _thresholds(path: Path, points: Sequence[Point], label: str, title: str) -> Path:
    figure, axes = _axes()
    _draw_sizes(axes[0, 0], points)
    axes[0, 0].set(xlabel=label, ylabel="threshold, jobs in system")
    return _finish(figure, path, title)


def _draw_improvements(axis: Any, curves: Mapping[str, Sequence[Point]]) -> None:
    for index, (name, points) in enumerate(curves.items()):
        xs, ys = [p.x for p in points], [p.improvement_pct for p in points]
        axis.plot(xs, ys, label=name, color=COLOURS[index], linestyle=LINES[index])
    if len(curves) > 1:
        axis.legend()
    axis.set_ylim(bottom=0)


def _improvements(path: Path, curves: Mapping[str, Sequence[Point]], label: str, title: str) -> Path:
    figure, axes = _axes()
    _draw_improvements(axes[0, 0], curves)
    axes[0, 0].set(xlabel=label, ylabel="improvement over non-idling, %")
    return _finish(figure, path, title)


def _means(path: Path, points: Sequence[Point]) -> Path:
    figure, axes = _axes()
    axis, xs = axes[0, 0], [p.x for p in points]
    axis.plot(xs, [p.mean_non_idling for p in points], label="non-idling", color=COLOURS[1], linestyle=LINES[1])
    axis.plot(xs, [p.mean_optimal for p in points], label="optimal", color=COLOURS[0])
    axis.set(xlabel="x, alpha = 0.03 x 10^x", ylabel="mean number in system", yscale="log")
    axis.legend()
    return _finish(figure, path, "paper: very large at low alpha")


def _four_sets(path: Path, epochs: Epochs) -> Path:
    figure, axes = _axes(2, 2)
    for axis, number in zip(axes.flat, SETS, strict=True):
        _draw_sizes(axis, environment_4(number, epochs))
        axis.set(xlabel="alpha_H / alpha_L", ylabel="threshold, jobs in system", title=f"set {number}")
    return _finish(figure, path, "paper: rises in two sets, falls in two")


def _farm_sizes(path: Path, epochs: Epochs) -> Path:
    figure, axes = _axes(2, len(FARM_SIZES))
    for row, swapped in enumerate((False, True)):
        for column, servers in enumerate(FARM_SIZES):
            curves: Mapping[str, Sequence[Point]] = {
                f"mu_L = {mu_low:g}": figure_10(servers, mu_low, swapped, epochs) for mu_low in SLOW_RATES
            }
            axis = axes[row, column]
            _draw_improvements(axis, curves)
            rates = "alpha_H 0.1, alpha_L 1" if swapped else "alpha_H 1, alpha_L 0.1"
            axis.set(xlabel="load", ylabel="improvement, %", title=f"k = {servers}, {rates}")
    return _finish(figure, path, "paper: more servers, more improvement; lower row: rates swapped")
