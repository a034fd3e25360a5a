"""Entropies over a service's load, and what ARQ gains (Ah-Q figure 16). E_BE is by IPC here, as the paper has it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from osml.lab.bench.episode import Row
from osml.lab.bench.published import published, ratio
from osml.lab.bench.report.document import Picture, Section, Table
from osml.lab.bench.report.figures import colour, figure, legend
from osml.lab.bench.report.statistics import Estimate, mean
from osml.lab.bench.results import Results
from osml.simulator.mix import parse_mix

_MOVING = "xapian"


def _load(row: Row) -> float:
    return parse_mix(row["mix"]).loads[_MOVING]


def over_load(results: Results, loads: Sequence[float]) -> Section:
    """E_LC, E_BE and E_S of each policy over xapian's load."""
    columns = (("e_lc", "E_LC"), ("e_be_ipc", "E_BE by IPC"), ("e_s_ipc", "E_S, BE by IPC"))

    def draw(made: Any, axes: Any) -> None:
        for panels, part in zip(axes, results.parts, strict=True):
            for axis, (column, label) in zip(panels, columns, strict=True):
                for policy in results.policies:
                    rows = results.of(part, policy)
                    values = [np.mean([row[column] for row in rows if _load(row) == x] or [np.nan]) for x in loads]
                    axis.plot([100 * x for x in loads], values, "o-", markersize=3, color=colour(policy), label=policy)
                axis.set(title=f"{label}, {part}", ylim=(0, None), xlabel=f"{_MOVING}, % of max load")
        legend(made, axes[0, 0])

    tables = [
        Table(
            ["policy", "mean E_LC", "mean E_BE by IPC", "mean E_S (BE by IPC)"],
            [
                [
                    policy,
                    *(mean(results.by_case(results.of(part, policy), c)).text(".3f") for c, _ in columns),
                ]
                for policy in results.policies
            ],
            f"{part}: mean over xapian's loads",
        )
        for part in results.parts
    ]
    drawn = figure(len(results.parts), 3, (11, 3.2 * len(results.parts)), draw)
    return Section(
        "Figure 16 a: entropies", [], tables, [Picture("entropy-over-load.png", "Entropies (simulated)", drawn)]
    )


class AgainstUnmanaged(NamedTuple):
    """Logarithms of tail over unmanaged's tail by case. `left_out`: runs in which one of the two is not finite."""

    logs: dict[Hashable, list[float]]
    left_out: int


def tails_against_unmanaged(results: Results, policy: str) -> AgainstUnmanaged:
    """The tails of a policy beside those of unmanaged in the same case and seed."""
    base = {(row["case"], row["seed"]): row["tail_over_target"] for row in results.of(policy="unmanaged")}
    logs: dict[Hashable, list[float]] = defaultdict(list)
    left_out = 0
    for row in results.of(policy=policy):
        ours, theirs = row["tail_over_target"], base.get((row["case"], row["seed"]))
        if not ours or not theirs:
            continue
        if math.isfinite(ours) and math.isfinite(theirs):
            logs[row["case"]].append(math.log(ours / theirs))
        else:
            left_out += 1
    return AgainstUnmanaged(logs, left_out)


def gains(results: Results, part: str) -> Section:
    """Reduction of the LC services' tails against unmanaged, and the BE job's gain, in this part."""
    theirs = published()["ahq"]
    rows: list[list[str]] = []
    text: list[str] = []
    for policy in results.policies:
        cuts, left_out = tails_against_unmanaged(results.only(part), policy)
        if left_out:
            text.append(f"{left_out} runs of {policy} are left out: their tail, or that of unmanaged, is not finite.")
        log = mean(cuts)  # tails differ by orders of magnitude: a mean of ratios would be that of the worst load
        value, low, high = (float(100.0 * (1.0 - np.exp(x))) for x in (log.value, log.high, log.low))
        ours = Estimate(value, low, high, log.n)
        paper = theirs["tail_reduction_pct"].get(policy)
        rows.append(
            [
                policy,
                ours.text(".1f"),
                "-" if paper is None else f"{paper:g}",
                ratio(ours.value, paper) if cuts else "-",
                mean(results.by_case(results.of(part, policy), "be_speed")).text(".0%"),
            ]
        )
    table = Table(
        ["policy", "tail below unmanaged, %", "published", "ours / published", "BE speed / solo"],
        rows,
        f"{part}; tails: geometric mean over xapian's loads",
    )
    return Section("Figure 16 b: tail latencies and the BE job", text, [table])
