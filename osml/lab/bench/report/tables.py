"""Tables that every suite has: what each policy reached, paired differences, and the papers' numbers beside ours."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from osml.lab.bench.episode import Row
from osml.lab.bench.published import ratio
from osml.lab.bench.report.document import Section, Table
from osml.lab.bench.report.statistics import Estimate, mean, median, paired
from osml.lab.bench.results import Results


class Metric(NamedTuple):
    """A column of the results that is compared between policies."""

    column: str
    label: str
    form: str
    average: str = "median"
    """"mean" for counts that are mostly zero and for shares."""


METRICS = (
    Metric("emu", "EMU", ".0%", "mean"),
    Metric("target_missed_share", "targets missed", ".1%", "mean"),
    Metric("e_s", "E_S", ".3f", "mean"),
    Metric("cores_used", "cores", ".3g", "mean"),
    Metric("ways_used", "ways", ".3g", "mean"),
    Metric("target_missed_after", "missed after convergence", ".1%", "mean"),
    Metric("converged", "share converged", ".1%", "mean"),
    Metric("convergence_s", "seconds to convergence", ".3g"),
    Metric("actions", "actions", ".3g"),
    Metric("missed_share", "intervals with a missed target", ".1%", "mean"),
    Metric("e_lc", "E_LC", ".3f", "mean"),
    Metric("e_be", "E_BE", ".3f", "mean"),
    Metric("cliff_falls", "falls off the cliff", ".2g", "mean"),
    Metric("faults", "faulty decisions", ".3g", "mean"),
)
SHOWN = tuple(
    next(metric for metric in METRICS if metric.column == column)
    for column in ("converged", "emu", "target_missed_share", "e_s", "cores_used", "ways_used")
)
"""What a comparison is about; the others explain it."""


def estimate(rows: Sequence[Row], metric: Metric) -> Estimate:
    """The metric over rows: over all mixes and seeds together. Actions until convergence are those of runs with one."""
    values: dict[Hashable, list[float]] = defaultdict(list)
    for row in rows:
        if row[metric.column] is not None and (metric.column != "actions" or row["converged"]):
            values[row["case"]].append(float(row[metric.column]))
    return mean(values) if metric.average == "mean" else median(values)


def overview(results: Results) -> Section:
    """All metrics of all policies, with 95 % intervals over mixes and seeds; feasible and infeasible mixes apart."""
    tables = [
        _overview_of(group, f"{part}{label}")
        for part in results.parts
        for label, group in results.only(part).by_feasibility().items()
    ]
    text = [
        "Simulated. Every policy gets the same mixes, arrivals, noise and delays. A target is missed in an interval if "
        "the tail is above it by any amount; `targets missed` counts all intervals and services, the start included. "
        "Seconds and actions count only converged runs, so a policy that converges only on easy mixes looks fast."
    ]
    return Section("All policies", text + _unmodelled(results), tables)


def _unmodelled(results: Results) -> list[str]:
    """A sentence for each policy that had to do without its models in some runs."""
    said: list[str] = []
    for policy in results.policies:
        rows = results.of(policy=policy)
        found = [row["unmodelled"] for row in rows if row["unmodelled"]]
        if found:
            said.append(f"In {len(found)} of {len(rows)} runs {policy} had no model at the end, first: {found[0]}.")
    return said


def _overview_of(results: Results, name: str) -> Table:
    # Where a load is searched each policy's row is at its own highest: only that load can be compared.
    searched = any(row["searched_load"] is not None for row in results.rows)
    metrics = [
        metric
        for metric in METRICS
        if any(row[metric.column] is not None for row in results.rows)
        and (not searched or metric.column in ("emu", "faults"))
        and (metric.column != "faults" or any(row["faults"] for row in results.rows))
    ]
    rows = [
        [
            policy,
            str(len(results.of(policy=policy))),
            *(estimate(results.of(policy=policy), metric).text(metric.form) for metric in metrics),
        ]
        for policy in results.policies
    ]
    headings = ["policy", "runs", *(f"{m.label} ({m.average})" for m in metrics)]
    what = "highest held loads" if searched else "BE jobs by work done"
    mixes = len({row["case"] for row in results.rows})
    return Table(headings, rows, f"{name} (mixes: {mixes}): {what}; 95 % bootstrap interval over mixes")


def differences(results: Results) -> Section:
    """E_S, EMU and missed targets of each policy against each other, over the same cases."""
    tables: list[Table] = []
    wanted = [(part, m) for part in results.parts for m in METRICS if m.column in ("e_s", "emu", "target_missed_share")]
    for part, metric in wanted:
        of_part = results.only(part)
        if metric.column != "emu" and any(row["searched_load"] is not None for row in of_part.rows):
            continue
        values = {policy: of_part.by_key(of_part.of(policy=policy), metric.column) for policy in results.policies}
        if not any(values.values()):
            continue
        rows = [
            [
                policy,
                *("" if policy == other else paired(values[policy], values[other]).text(".3f") for other in values),
            ]
            for policy in values
        ]
        caption = f"{part}, {metric.label}: row minus column, mean of paired differences"
        tables.append(Table(["policy", *values], rows, caption))
    return Section("Paired differences", [], tables)


def faults(results: Results) -> Section | None:
    """What policies did wrong; None where nothing."""
    rows = [row for row in results.rows if row["faults"]]
    if not rows:
        return None
    found = [[row["policy"], row["mix"], str(row["seed"]), str(row["faults"]), row["fault"] or ""] for row in rows[:50]]
    text = f"{len(rows)} runs have illegal decisions or exceptions; the node keeps the last legal decision."
    return Section("Faults of policies", [text], [Table(["policy", "mix", "seed", "decisions", "first fault"], found)])


def faulty(results: Results) -> dict[str, dict[str, Any]]:
    """Decisions of each faulty policy: the faulty ones, all of them, and the first fault."""
    found: dict[str, dict[str, Any]] = {}
    for policy in results.policies:
        rows = results.of(policy=policy)
        first = next((row["fault"] for row in rows if row["faults"]), None)
        if first is not None:
            faults, decisions = (sum(row[column] or 0 for row in rows) for column in ("faults", "intervals"))
            found[policy] = {"faults": faults, "decisions": decisions, "first": first}
    return found


def fault_lines(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One sentence for each faulty policy: without it, its rows look like those of a good one."""
    return [
        f"{policy}: {one['faults']:,} of {one['decisions']:,} decisions were faulty, the first: {one['first']}; "
        "its rows show the last legal decision"
        for policy, one in found.items()
    ]


def against_published(
    results: Results, column: str, theirs: Mapping[str, Any], label: str, average: str = "median"
) -> Table:
    """Ours (simulated) beside the paper's number, with the ratio; a policy that the paper has not has a dash."""
    metric = Metric(column, label, ".3g", average)
    rows: list[list[str]] = []
    for policy in results.policies:
        ours = estimate(results.of(policy=policy), metric)
        paper = theirs.get(policy)
        known = None if math.isnan(ours.value) else ours.value
        rows.append([policy, ours.text(), "-" if paper is None else f"{paper:g}", ratio(known, paper)])
    return Table(["policy", "ours, simulated", "published", "ours / published"], rows, f"{label} ({average})")
