"""Matplotlib for the reports: one look, no display, a fixed colour for each policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot

_plot: Any = pyplot  # its types are incomplete

_COLOURS = {
    "unmanaged": "#8a8f98", "lc_first": "#b59f3b", "round_robin": "#8c6d31", "even": "#c7c7c7", "random": "#d0b0b0",
    "heracles": "#b5651d", "parties": "#1f77b4", "clite": "#9467bd", "arq": "#2ca02c", "ombm": "#17becf",
    "ombm_classic": "#e377c2", "staffing": "#ff7f0e", "staffing:climb": "#bcbd22",
    "osml": "#d62728", "oracle": "#000000", "oracle:isolated": "#5b6b7b",
}  # fmt: skip
_OTHERS = ("#9edae5", "#7f7f7f", "#c49c94", "#98df8a")
_RC: dict[Any, Any] = {"figure.dpi": 110, "font.size": 9, "axes.titlesize": 10, "savefig.bbox": "tight"}
"""Taken up by every figure."""


def colour(policy: str) -> str:
    """The same for a policy in every plot; variants (`osml:ab`) without their own have that of their family."""
    return (
        _COLOURS.get(policy)
        or _COLOURS.get(policy.split(":", maxsplit=1)[0])
        or _OTHERS[sum(policy.encode()) % len(_OTHERS)]
    )


def figure(
    rows: int, columns: int, size: tuple[float, float], draw: Callable[[Any, Any], None]
) -> Callable[[Path], None]:
    """A function that writes a figure: `draw` gets it and its axes, always (rows, columns)."""

    def write(path: Path) -> None:
        with _plot.rc_context(_RC):
            made, axes = _plot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
            draw(made, axes)
            made.text(1.0, -0.005, "simulated", ha="right", va="top", fontsize=7, color="#777777")
            made.savefig(path)
            _plot.close(made)

    return write


def legend(made: Any, axis: Any) -> None:
    """One legend above all panels, with what one of them shows; none where it shows nothing."""
    handles, labels = axis.get_legend_handles_labels()
    if labels:
        made.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 7), fontsize=8, frameon=False)


def own_legend(axis: Any, **more: Any) -> None:
    """A legend within a panel; none where it shows nothing, of which matplotlib would warn."""
    if axis.get_legend_handles_labels()[1]:
        axis.legend(**more)


def violins(axis: Any, names: Sequence[str], values: Sequence[Sequence[float]], label: str) -> None:
    """A violin a policy with its mean; one without values stays empty."""
    shown = [(i, list(found)) for i, found in enumerate(values) if len(found) > 1]
    if shown:
        made = axis.violinplot([found for _, found in shown], [i for i, _ in shown], showmeans=True, widths=0.8)
        for body, (i, _) in zip(made["bodies"], shown, strict=True):
            body.set_facecolor(colour(names[i]))
            body.set_alpha(0.55)
        for lines in ("cmeans", "cbars", "cmins", "cmaxes"):
            made[lines].set(color="#333333", linewidth=1)
    axis.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")
    axis.set_ylabel(label)
    axis.grid(axis="y", alpha=0.3)
