"""Figure 11: response times by policy, setting by setting; bars are means of the runs, whiskers their range."""

from __future__ import annotations

import importlib
import statistics
from pathlib import Path
from typing import Any

from osml.lab.testbed.measure import Run
from osml.lab.testbed.settings import DispatchTrialSettings

COLOURS = {"threshold": "#1b6ca8", "avoid": "#d9822b", "round_robin": "#7a7a7a", "non_idling": "#5aa469"}
WIDTH = 0.8


def draw(settings: DispatchTrialSettings, runs: list[Run], path: Path) -> None:
    """One panel an intensity and one for the traces; above the mean, below the 95th percentile."""
    pyplot: Any = _pyplot()
    panels = [
        (f"{intensity} interference", [s for s in settings.settings if s.intensity == intensity and s.load is not None])
        for intensity in settings.intensities
    ]
    if settings.traces:
        panels.append(("traces, medium interference", [s for s in settings.settings if s.trace]))
    figure, axes = pyplot.subplots(2, len(panels), figsize=(4 * len(panels), 6.5), squeeze=False)
    for column, (title, chosen) in enumerate(panels):
        for line, (key, label) in enumerate((("mean_ms", "mean response, ms"), ("p95_ms", "95th percentile, ms"))):
            axis = axes[line][column]
            for place, policy in enumerate(settings.policies):
                values = [
                    [getattr(run, key) for run in runs if (run.setting, run.policy) == (s.name, policy)] for s in chosen
                ]
                heights = [statistics.fmean(each) for each in values]
                low = [height - min(each) for height, each in zip(heights, values, strict=True)]
                high = [max(each) - height for height, each in zip(heights, values, strict=True)]
                width = WIDTH / len(settings.policies)
                spots = [n - WIDTH / 2 + width * (place + 0.5) for n in range(len(chosen))]
                axis.bar(spots, heights, width, label=policy.replace("_", " "), color=COLOURS[policy])
                axis.errorbar(spots, heights, [low, high], fmt="none", ecolor="black", elinewidth=0.8, capsize=2)
            axis.set_yscale("log")
            axis.set_xticks(range(len(chosen)), [s.trace or f"{s.load:g}" for s in chosen])
            axis.set_ylabel(label if column == 0 else "")
            axis.grid(axis="y", alpha=0.3)
            if line == 0:
                axis.set_title(title)
            else:
                axis.set_xlabel("" if chosen and chosen[0].trace else "load (of both servers without interference)")
    axes[0][0].legend(fontsize=8)
    figure.suptitle(f"Measured: HAProxy, two web servers, interference at {settings.alpha:.3g}/s on one of them")
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def _pyplot() -> Any:
    matplotlib: Any = importlib.import_module("matplotlib")  # it has no type information, hence Any
    matplotlib.use("Agg")
    return importlib.import_module("matplotlib.pyplot")
