"""What a policy does to each application of a pair, against sharing everything (Ah-Q figures 13 to 15)."""

from __future__ import annotations

import json
from collections import defaultdict

import numpy as np

from osml.bench.episode import Row
from osml.bench.published import published, ratio
from osml.bench.report.document import Section, Table
from osml.bench.results import Results
from osml.theory.abilities import uncertainty
from osml.virtual import catalogs

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
        spread: dict[str, list[float]] = defaultdict(list)
        for row in results.of(policy=policy):
            now = performances(row)
            for name, value in now.items():
                spread[name].append(value)
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
        spreads = [found for values in spread.values() if (found := uncertainty(values)) is not None]
        paper = {
            "even": (theirs["even_improves_pct"], None, theirs["even_lower_utilisation_pct"]),
            "round_robin": (None, theirs["round_robin_improves_high_priority_pct"], None),
        }.get(policy, (None, None, None))
        cells = [_beside(values, number) for values, number in zip((gains, gains_lc, lower), paper, strict=True)]
        rows.append([policy, *cells, f"{np.mean(spreads):.3f}" if spreads else "-"])
    headings = [
        "policy", "applications that gain", "LC services beside BE jobs that gain", "pairs with less CPU used",
        "mean uncertainty",
    ]  # fmt: skip
    text = [
        "Ours, then the paper's number and the ratio where it has one. The paper counts its 90 ordered pairs, in which "
        "an application can have the priority over another of its kind. Uncertainty is the standard deviation of an "
        "application's performance over its partners, divided by the mean."
    ]
    return Section("Figures 13 to 15", text, [Table(headings, rows, f"against {BASE}")])


def _beside(values: list[bool], paper: float | None) -> str:
    if not values:
        return "-"
    ours = 100.0 * sum(values) / len(values)
    return f"{ours:.1f} %" + ("" if paper is None else f" (published {paper:g} %, ratio {ratio(ours, paper)})")
