"""What happened over time under each policy: latencies, allocations, entropies; of the first seed."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from osml.lab.bench.episode import Row
from osml.lab.bench.report.document import Picture, Section, Table
from osml.lab.bench.report.figures import colour, figure, legend
from osml.lab.bench.report.statistics import mean
from osml.lab.bench.results import Results

_CEILING = 20.0
"""Latency over target that the plots show at most."""


def _series(results: Results, policy: str, column: str) -> dict[str, tuple[list[float], list[float]]]:
    """Times and values of a column by service."""
    found: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for row in results.timelines:
        if row["policy"] == policy and row["seed"] == 0:
            times, values = found[row["service"]]
            times.append(row["time_s"])
            values.append(np.nan if row[column] is None else float(row[column]))
    return dict(found)


def _over_target(results: Results) -> Results:
    rows: list[Row] = [row | {"ratio": row["tail_ms"] / row["target_ms"]} for row in results.timelines]
    return Results(results.rows, rows, results.metadata)


def violations(results: Results, title: str) -> Section:
    """Intervals with a missed target and the mean entropies of the whole run."""
    rows = [
        [
            policy,
            mean(results.by_case(results.of(policy=policy), "violations")).text(),
            f"{results.of(policy=policy)[0]['intervals']}",
            mean(results.by_case(results.of(policy=policy), "e_s_run")).text(".3f"),
            mean(results.by_case(results.of(policy=policy), "be_speed")).text(".0%"),
        ]
        for policy in results.policies
    ]
    headings = ["policy", "intervals missed (mean over seeds)", "of", "mean E_S", "BE speed / solo"]
    return Section(title, [], [Table(headings, rows)])


def latencies(results: Results, title: str) -> Section:
    """Tail over target of every service, a panel a policy."""
    with_ratio, policies = _over_target(results), results.policies

    def draw(made: Any, axes: Any) -> None:
        for axis, policy in zip(axes[:, 0], policies, strict=True):
            for service, (times, values) in _series(with_ratio, policy, "ratio").items():
                axis.plot(times, np.minimum(values, _CEILING), linewidth=1, label=service)
            axis.axhline(1.0, color="k", linewidth=0.7)
            axis.set(yscale="log", ylim=(0.05, _CEILING * 1.1), ylabel="tail / target", title=policy)
        legend(made, axes[0, 0])
        axes[-1, 0].set_xlabel("seconds")

    draw_all = figure(len(policies), 1, (9, 1.9 * len(policies) + 0.6), draw)
    caption = f"{title} (simulated, first seed; cut at {_CEILING:g})"
    return Section(title, [], [], [Picture("latencies.png", caption, draw_all)])


def allocations(results: Results, title: str) -> Section:
    """Cores and ways that each service can reach, a row of panels a policy."""
    policies = results.policies

    def draw(made: Any, axes: Any) -> None:
        most = {column: max(row[column] for row in results.timelines) for column in ("cores", "ways")}
        for row, policy in zip(axes, policies, strict=True):
            for axis, column in zip(row, ("cores", "ways"), strict=True):
                for number, (service, (times, values)) in enumerate(_series(results, policy, column).items()):
                    # Thinner and thinner: who has as much as another can still be seen.
                    axis.step(times, values, where="post", linewidth=max(0.8, 2.6 - 0.7 * number), label=service)
                axis.set(title=policy, ylabel=column, ylim=(0, 1.05 * most[column]))
                axis.locator_params(axis="y", integer=True, nbins=5)
        legend(made, axes[0, 0])
        axes[-1, 0].set_xlabel("seconds")
        axes[-1, 1].set_xlabel("seconds")

    draw_all = figure(len(policies), 2, (10, 1.8 * len(policies) + 0.6), draw)
    return Section(title, [], [], [Picture("allocations.png", f"{title} (simulated, first seed)", draw_all)])


def entropy(results: Results, title: str) -> Section:
    """E_LC, E_BE and E_S over time, a panel each, with all policies."""

    def draw(made: Any, axes: Any) -> None:
        for axis, (column, label) in zip(axes[:, 0], (("e_lc", "E_LC"), ("e_be", "E_BE"), ("e_s", "E_S")), strict=True):
            for policy in results.policies:
                for times, values in list(_series(results, policy, column).values())[:1]:  # the same for all services
                    axis.plot(times, values, linewidth=1, color=colour(policy), label=policy)
            axis.set(ylabel=label, ylim=(0, 1))
        legend(made, axes[0, 0])
        axes[-1, 0].set_xlabel("seconds")

    return Section(
        title, [], [], [Picture("entropies.png", f"{title} (simulated, first seed)", figure(3, 1, (9, 5.5), draw))]
    )
