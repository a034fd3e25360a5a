"""Latency over cores and ways as a picture: signs for a terminal, a PNG for everything else (OSML, figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from osml.base.extras import how_to_install
from osml.base.failure import InputError, MachineError
from osml.frontier import FloatArray

# Latency over target up to which a sign stands, with its colour; the rest is off the map.
_SIGNS = ((0.5, "·", "green"), (1.0, "-", "bright_green"), (2.0, "+", "yellow"), (10.0, "x", "dark_orange"),
          (100.0, "#", "red"), (np.inf, "@", "bright_red"))  # fmt: skip
_LEGEND = (
    "· up to half of the target   - within it   + up to twice   x up to 10 times   # up to 100 times   @ more   "
    "R RCliff   O OAA"
)

Cell = tuple[int, int]


def _sign(ratio: float) -> tuple[str, str]:
    if np.isnan(ratio):
        return "?", "dim"
    return next((sign, colour) for limit, sign, colour in _SIGNS if ratio <= limit)


def heat_lines(latency_ms: FloatArray, target_ms: float, rcliff: Cell | None, oaa: Cell | None) -> list[Text]:
    """The surface (cores, ways) as lines, most cores first; a legend at the end."""
    n_cores, n_ways = latency_ms.shape
    marks: dict[Cell, tuple[str, str]] = {}
    if rcliff is not None:
        marks[rcliff] = ("R", "bold white on red")
    if oaa is not None:
        marks[oaa] = ("O", "bold white on blue")
    lines = [Text("cores")]
    for cores in range(n_cores, 0, -1):
        line = Text(f"{cores:5} ")
        for ways in range(1, n_ways + 1):
            sign, style = marks.get((cores, ways)) or _sign(float(latency_ms[cores - 1, ways - 1]) / target_ms)
            line.append(f" {sign}", style)
        lines.append(line)
    tens = "".join(f"{ways:2}" if ways == 1 or ways % 5 == 0 else "  " for ways in range(1, n_ways + 1))
    return [*lines, Text(f"      {tens}  ways"), Text(_LEGEND, "dim")]


def _outline(axis: Any, cell: Cell, colour: str, label: str) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    corner = (cell[1] - 0.5, cell[0] - 0.5)
    axis.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="white", linewidth=4.5))
    axis.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=colour, linewidth=2.5, label=label))


def _ticks(count: int) -> Sequence[int]:
    step = 1 if count <= 12 else 2 if count <= 24 else 4
    return [1, *range(step, count + 1, step)] if step > 1 else range(1, count + 1)


def draw_surface(
    latency_ms: FloatArray, target_ms: float, rcliff: Cell | None, oaa: Cell | None, title: str, label: str, path: Path
) -> None:
    """Write the heat map of log latency, the line of the target, RCliff and OAA as PNG.

    Raises MachineError where matplotlib is missing and InputError where `path` can't be written.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415 - slow to import, and in the extra `report`

        mpl.use("Agg")
        import matplotlib.pyplot as plt  # noqa: PLC0415
        from matplotlib.colors import LogNorm  # noqa: PLC0415
    except ImportError:
        raise MachineError(f"--plot needs matplotlib: {how_to_install('lab')}") from None
    n_cores, n_ways = latency_ms.shape
    drawn = np.where(np.isfinite(latency_ms), latency_ms, np.nan)
    figure, axis = plt.subplots(
        figsize=(max(5.0, 2.6 + 0.28 * n_ways), max(3.6, 1.6 + 0.17 * n_cores)), layout="constrained"
    )
    axis: Any
    low, high = np.nanmin(drawn), max(float(np.nanmax(drawn)), target_ms * 2)
    norm: Any = LogNorm(min(float(low), target_ms / 2), high)
    image = axis.imshow(
        drawn, origin="lower", aspect="auto", cmap="RdYlGn_r", norm=norm, extent=(0.5, n_ways + 0.5, 0.5, n_cores + 0.5)
    )
    figure.colorbar(image, label=label)  # pyright: ignore[reportUnknownMemberType] - matplotlib's own annotation
    _draw_target(axis, latency_ms <= target_ms)
    if rcliff is not None:
        _outline(axis, rcliff, "#c00000", f"RCliff ({rcliff[0]} cores, {rcliff[1]} ways)")
    if oaa is not None:
        _outline(axis, oaa, "#0050c0", f"OAA ({oaa[0]} cores, {oaa[1]} ways)")
    axis.set_xticks(_ticks(n_ways))
    axis.set_yticks(_ticks(n_cores))
    axis.set_xlabel("LLC ways")
    axis.set_ylabel("cores")
    axis.set_title(title, fontsize=10)
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False, fontsize=9)
    try:
        figure.savefig(path, dpi=120, format="png")  # pyright: ignore[reportUnknownMemberType] - matplotlib's own annotation
    except OSError as error:
        raise InputError(f"--plot: {path} can't be written ({error.strerror})") from None
    finally:
        plt.close(figure)


def _draw_target(axis: Any, feasible: Any) -> None:
    """The border between cells that meet the target and those that don't."""
    n_cores, n_ways = feasible.shape
    first = True
    for cores in range(n_cores):
        for ways in range(n_ways):
            sides: list[tuple[list[float], list[float]]] = []
            if cores + 1 < n_cores and feasible[cores, ways] != feasible[cores + 1, ways]:
                sides.append(([ways + 0.5, ways + 1.5], [cores + 1.5, cores + 1.5]))
            if ways + 1 < n_ways and feasible[cores, ways] != feasible[cores, ways + 1]:
                sides.append(([ways + 1.5, ways + 1.5], [cores + 0.5, cores + 1.5]))
            for x, y in sides:
                axis.plot(x, y, color="black", linewidth=1.6, label="target" if first else None)
                first = False
