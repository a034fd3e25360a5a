"""Pictures: do the margins hold what they promise; how much data a new machine needs."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# matplotlib's own annotations have gaps.
from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from osml.predictors import Predictor
from osml_training.train.conformal import covered, margins_of
from osml_training.train.table import Rows

_COVERAGES = tuple(float(c) for c in np.round(np.arange(0.5, 1.0, 0.05), 2))


def plot_calibration(predictor: Predictor, calibration: Rows, test: Rows, file: Path) -> dict[str, list[float]]:
    """Promised against found coverage, a line an output. Returns the found shares by output.

    Margins are made of `calibration` anew for each coverage, and measured on `test`.
    """
    answers, tested = predictor.predict(calibration.x), predictor.predict(test.x)
    made = margins_of(answers.points, answers.spread, calibration.y, calibration.run, _COVERAGES)
    names = predictor.metadata.answers
    found: dict[str, list[float]] = {name: [] for name in names}
    for coverage in _COVERAGES:
        margin = tested.spread * np.array(made[f"{coverage:g}"].two_sided, np.float32)
        for name, share in zip(names, covered(margin, tested.points, test.y, test.run), strict=True):
            found[name].append(share)
    with mpl.rc_context({"font.size": 9}):
        figure = Figure((4.8, 4.2), layout="constrained")
        axes: Any = figure.add_subplot()
        axes.plot((0.5, 1), (0.5, 1), color="0.6", linewidth=1, linestyle="--", label="ideal")
        for name, shares in found.items():
            axes.plot(_COVERAGES, shares, marker="o", markersize=3, linewidth=1.2, label=name.replace("_", " "))
        lowest = min(min(shares) for shares in found.values())
        kind = "simulated" if predictor.metadata.simulated else "measured"
        axes.set(
            xlabel="promised coverage",
            ylabel="coverage on held-out runs",
            xlim=(0.5, 1),
            ylim=(min(0.5, lowest), 1),
            title=f"{predictor.metadata.name} ({kind})",
        )
        axes.legend(frameon=False)
        axes.grid(alpha=0.3)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=150)
    return found


_ERRORS = (("core_mae", "cores"), ("way_mae", "ways"))
_LINES = (("transferred", "transferred"), ("scratch", "from scratch"))


def plot_transfer(document: dict[str, Any], file: Path) -> None:
    """Error over the traces of the new machine: transferred, from scratch, not retrained; only what is known."""
    curve: list[dict[str, Any]] = document["curve"]
    runs = [point["runs"] for point in curve]
    with mpl.rc_context({"font.size": 9}):
        figure = Figure((8.4, 3.6), layout="constrained")
        told = [pair for pair in _ERRORS if document["not_retrained"][pair[0]] is not None]
        lines = [pair for pair in _LINES if all(point[pair[0]] is not None for point in curve)]
        for place, (key, what) in enumerate(told):
            axes: Any = figure.add_subplot(1, len(told), place + 1)
            for name, label in lines:
                axes.plot(runs, [point[name][key] for point in curve], marker="o", markersize=3, label=label)
            axes.axhline(document["not_retrained"][key], color="0.5", linestyle="--", label="not retrained")
            axes.set(xlabel="runs on the new machine", ylabel=f"OAA: mean absolute error, {what}", xscale="log", ylim=0)
            axes.minorticks_off()
            axes.set_xticks(runs, [str(count) for count in runs])
            axes.grid(alpha=0.3)
            axes.legend(frameon=False)
        kind = "simulated" if document["simulated"] else "measured"
        figure.suptitle(f"{document['source']} to {document['platform']} ({kind})")
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=150)
