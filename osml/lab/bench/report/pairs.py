"""What a policy does to each application of a pair, against sharing everything (Ah-Q figures 13 to 15)."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np

from osml.lab.bench.episode import Row
from osml.lab.bench.published import published, ratio
from osml.lab.bench.report.document import Picture, Section, Table
from osml.lab.bench.report.figures import colour, figure, legend
from osml.lab.bench.results import Results
from osml.lab.theory.abilities import uncertainty
from osml.simulator import catalogs

BASE = "unmanaged"
_SAME = 0.001
"""Relative change that counts as none."""


def performances(row: Row) -> dict[str, float]:
    """What each application of a pair got: 1/tail for LC services, speed over solo for BE jobs; more is better."""
    found: dict[str, dict[str, float]] = json.loads(row["tenants"])
    return {name: values["speed"] if "speed" in values else 1.0 / values["tail_ms"] for name, values in found.items()}


def observations(results: Results) -> Section:
    """Who gains against unmanaged, how much performance varies over the partners, and utilisation."""
    theirs = published()["ahq"]["dip"]
    lc = set(catalogs.service_names())
    base = {(row["case"], row["seed"]): row for row in results.of(policy=BASE)}
    rows: list[list[str]] = []
    for policy in results.policies:
        gains: list[bool] = []
        gains_lc: list[bool] = []
        lower: list[bool] = []
        for row in results.of(policy=policy):
            now = performances(row)
            was = base.get((row["case"], row["seed"]))
            if was is None or policy == BASE:
                continue
            before = performances(was)
            for name, value in now.items():
                better = value > before[name] * (1.0 + _SAME)
                gains.append(better)
                if name in lc and not lc.issuperset(now):  # an LC service beside a BE job: it has the priority
                    gains_lc.append(better)
            lower.append(row["utilisation"] < was["utilisation"] * (1.0 - _SAME))
        spreads = [
            found for values in _by_application(results, policy).values() if (found := uncertainty(values)) is not None
        ]
        paper = {
            "even": (theirs["even_improves_pct"], None, theirs["even_lower_utilisation_pct"]),
            "round_robin": (None, theirs["round_robin_improves_high_priority_pct"], None),
        }.get(policy, (None, None, None))
        cells = [_beside(values, number) for values, number in zip((gains, gains_lc, lower), paper, strict=True)]
        rows.append([policy, *cells, f"{np.mean(spreads):.3f}" if spreads else "-"])
    headings = [
        "policy",
        "applications that gain",
        "LC services beside BE jobs that gain",
        "pairs with less CPU used",
        "mean uncertainty",
    ]
    text = [
        "Each cell has our value, then the paper's number and the ratio, if the paper has one. The paper counts 90 "
        "ordered pairs, also pairs of two applications of one kind. Uncertainty is the standard deviation of an "
        "application's performance over its partners, divided by the mean."
    ]
    return Section("Figures 13 to 15", text, [Table(headings, rows, f"against {BASE}")])


def pictures(results: Results) -> Section:
    """Performance of every application over its partners, how much it varies, and CPU utilisation."""
    found = {policy: _by_application(results, policy) for policy in results.policies}
    names = sorted({name for values in found.values() for name in values})
    best = {name: max(x for values in found.values() for x in values.get(name, [0.0])) for name in names}
    width = 0.8 / max(1, len(found))

    def performance(made: Any, axes: Any) -> None:
        axis = axes[0, 0]
        for number, (policy, values) in enumerate(found.items()):
            shares = [[x / best[name] for x in values.get(name, [])] for name in names]
            _boxes(axis, shares, [i + (number + 0.5) * width - 0.4 for i in range(len(names))], width, policy)
        axis.set_xticks(range(len(names)), names, rotation=20)
        axis.set(ylabel="performance over the best", ylim=(0, 1.05))
        legend(made, axis)

    def variation(made: Any, axes: Any) -> None:
        for number, (policy, values) in enumerate(found.items()):
            heights = [uncertainty(values[name]) or 0.0 if name in values else 0.0 for name in names]
            places = [i + (number + 0.5) * width - 0.4 for i in range(len(names))]
            axes[0, 0].bar(places, heights, 0.9 * width, color=colour(policy), label=policy)
            used = [100.0 * row["utilisation"] for row in results.of(policy=policy)]
            _boxes(axes[0, 1], [used], [number], 0.6, policy)
        axes[0, 0].set_xticks(range(len(names)), names, rotation=60)
        axes[0, 0].set_ylabel("uncertainty (deviation / mean)")
        axes[0, 1].set_xticks(range(len(found)), list(found), rotation=20)
        axes[0, 1].set(ylabel="CPU time used, %", ylim=(0, 105))
        legend(made, axes[0, 0])

    return Section(
        "Figures 13, 14 and 15 b: pictures",
        ["Performance is 1/tail of LC services or speed of BE jobs, divided by the best value of the application."],
        pictures=[
            Picture(
                "performance.png", "Performance over all partners (simulated)", figure(1, 1, (11, 3.4), performance)
            ),
            Picture(
                "uncertainty.png", "Uncertainty and CPU utilisation (simulated)", figure(1, 2, (11, 3.8), variation)
            ),
        ],
    )


def _boxes(axis: Any, values: list[list[float]], places: list[float], width: float, policy: str) -> None:
    made = axis.boxplot(values, positions=places, widths=0.8 * width, patch_artist=True, manage_ticks=False, sym=".")
    for box in made["boxes"]:
        box.set(facecolor=colour(policy), alpha=0.6)
    for line in made["medians"]:
        line.set_color("black")
    made["boxes"][0].set_label(policy)


def _by_application(results: Results, policy: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for row in results.of(policy=policy):
        for name, value in performances(row).items():
            found[name].append(value)
    return found


def _beside(values: list[bool], paper: float | None) -> str:
    if not values:
        return "-"
    ours = 100.0 * sum(values) / len(values)
    return f"{ours:.1f} %" + ("" if paper is None else f" (published {paper:g} %, ratio {ratio(ours, paper)})")
