"""Tables and the picture of the rows: each contender by hour, and its difference from `osml:ab` node by node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

from osml.lab.bench.episode import Row
from osml.lab.bench.report.statistics import Estimate, mean
from osml.lab.studies.day.run import CONTENDERS, WITHOUT
from osml.lab.trials.timeline import COLOURS

FEWEST_NODES = 5
"""A bootstrap over fewer nodes says nothing: hours of one node resemble each other."""


def whole_runs(rows: Iterable[Row], contenders: Sequence[str] = CONTENDERS) -> list[Row]:
    """Rows of nodes (and noises) that every contender has got as far with, so that they can be compared in pairs."""
    by_node: dict[tuple[int, int], dict[str, list[Row]]] = {}
    for row in rows:
        if row["contender"] in contenders:
            by_node.setdefault((row["seed"], row["noise"]), {}).setdefault(row["contender"], []).append(row)
    whole = [found for found in by_node.values() if set(found) == set(contenders)]
    return [row for found in whole for of in found.values() for row in of]


def by_hours(rows: Sequence[Row], contender: str, key: str, hours: range) -> Estimate:
    """Mean over nodes, noises and these hours; nodes are resampled."""
    return mean(_by_node(rows, contender, key, hours))


def more_than_without(rows: Sequence[Row], contender: str, key: str, hours: range) -> Estimate:
    """Mean of how much more a contender has than `osml:ab` on the same node, noise and hour."""
    ours, theirs = (_by_node(rows, one, key, hours) for one in (contender, WITHOUT))
    return mean({node: [a - b for a, b in zip(ours[node], theirs[node], strict=True)] for node in ours})


def _by_node(rows: Sequence[Row], contender: str, key: str, hours: range) -> dict[Hashable, list[float]]:
    """Values of a contender by node, in the order of noise and hour."""
    chosen = [row for row in rows if row["contender"] == contender and row["hour"] in hours]
    found: dict[Hashable, list[float]] = {}
    for row in sorted(chosen, key=lambda one: (one["seed"], one["noise"], one["hour"])):
        found.setdefault(row["seed"], []).append(row[key])
    return found


def table(rows: Sequence[Row], last: int) -> str:
    """Markdown: the first six hours, and the last six. Without intervals where there are few nodes."""
    lines = [
        "| who decides | hours | missed, % | that minus `osml:ab`, points | E_S | that minus `osml:ab` | cores "
        "| changes an hour | of these by Model-C, C' |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    few = len({row["seed"] for row in rows}) < FEWEST_NODES

    def text(one: Estimate, form: str, scale: float = 1.0) -> str:
        return Estimate(scale * one.value, scale * one.low, scale * one.high, 1 if few else one.n).text(form)

    for contender in dict.fromkeys(row["contender"] for row in rows):
        for hours in dict.fromkeys((range(min(6, last)), range(max(0, last - 6), last))):
            changes, corrected = (by_hours(rows, contender, key, hours).value for key in ("changes", "corrected"))
            lines.append(
                f"| {contender} | {hours.start + 1} to {hours.stop}"
                f" | {text(by_hours(rows, contender, 'missed', hours), '.2f', 100.0)}"
                f" | {text(more_than_without(rows, contender, 'missed', hours), '+.2f', 100.0)}"
                f" | {text(by_hours(rows, contender, 'e_s', hours), '.4f')}"
                f" | {text(more_than_without(rows, contender, 'e_s', hours), '+.4f')}"
                f" | {by_hours(rows, contender, 'cores', hours).value:.1f} | {changes:.0f}"
                f" | {100.0 * corrected / max(changes, 1.0):.0f} % |"
            )
    return "\n".join(lines)


def draw(rows: Sequence[Row], path: Path) -> None:
    """Missed targets and E_S by hour, with the interval of the mean over the nodes."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure: Any
    axes: Any
    figure, axes = plt.subplots(2, 1, figsize=(8, 6), sharex=True, constrained_layout=True)
    last = 1 + max(row["hour"] for row in rows)
    for axis, (key, label, scale) in zip(
        axes, (("missed", "missed targets, %", 100.0), ("e_s", "E_S", 1.0)), strict=True
    ):
        for contender, colour in zip(dict.fromkeys(row["contender"] for row in rows), COLOURS, strict=False):
            found = [by_hours(rows, contender, key, range(hour, hour + 1)) for hour in range(last)]
            times = [hour + 1 for hour in range(last)]
            axis.plot(times, [scale * one.value for one in found], color=colour, label=contender)
            low, high = ([scale * getattr(one, side) for one in found] for side in ("low", "high"))
            axis.fill_between(times, low, high, color=colour, alpha=0.12, linewidth=0)
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0.0)
    axes[0].legend(frameon=False, fontsize=8)
    axes[1].set_xlabel("simulated hour")
    figure.savefig(path, dpi=110)
    plt.close(figure)
