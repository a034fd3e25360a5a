"""OSML (FAST '23), sections 6.2 and 6.4, beside the suites osml-302, case-a, osml-unseen and osml-launched."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import numpy as np

from osml.lab.bench.episode import Row
from osml.lab.bench.papers.line import Line, RunsOf, mean_of, near, order, points, times
from osml.lab.bench.report.convergence import common
from osml.lab.bench.report.heat_maps import maps
from osml.lab.bench.results import Results
from osml.lab.bench.suites import case_a
from osml.lab.bench.suites.osml_302 import MAP, MIXES
from osml.simulator.calibration.measured.policy_facts import published_value as value

COMPARED = ("osml", "parties", "clite")
"""Policies of the paper that the bench has."""

LAUNCHED = ", launched in turn"
"""Services that start one after the other, as in the paper."""

_CPUS, _WAYS = 36, 20
_LOADS = 302
_STEP = 0.1


def lines(runs: RunsOf) -> Iterator[Line]:
    """All of the paper's lines whose suite was run."""
    if "osml-302" in runs:
        mixes = _only(runs["osml-302"].only(MIXES), COMPARED)
        yield from _convergence(mixes, "")
        yield from _converged(mixes)
        yield from _as_easy(mixes)
        yield from _resources(mixes)
        yield from _figure_10(runs["osml-302"].only(MAP))
    if "case-a" in runs:
        yield from _case_a(runs["case-a"])
    if "osml-unseen" in runs:
        yield from _unseen(runs["osml-unseen"], "")
    if "osml-launched" in runs:
        launched = runs["osml-launched"]
        yield from _convergence(_only(launched.only(MIXES), COMPARED), LAUNCHED)
        yield from _seconds_of_case_a(launched.only(case_a.PART), LAUNCHED)
        groups = Results([row for row in launched.rows if row["part"].startswith("group-")], [], launched.metadata)
        yield from _unseen(groups, LAUNCHED)


def _only(results: Results, policies: Sequence[str]) -> Results:
    return Results([row for row in results.rows if row["policy"] in policies], [], results.metadata)


def _convergence(mixes: Results, how: str) -> Iterator[Line]:
    """Figure 8: seconds over the mixes on which all converge. `how` the services were started."""
    same = {policy: list(rows.values()) for policy, rows in common(mixes).items()}
    how = f", where all converge{how}"
    means = {policy: mean_of(rows, "convergence_s") for policy, rows in same.items()}
    for policy in COMPARED:
        seconds = [float(row["convergence_s"]) for row in same.get(policy, [])]
        yield times(
            f"osml.conv.{policy}.mean", f"{policy}, mean s{how}", value(f"osml.conv.{policy}.mean"), means.get(policy)
        )
        least, most = value(f"osml.conv.{policy}.range")
        yield times(f"osml.conv.{policy}.range", f"{policy}, least s{how}", least, min(seconds, default=None))
        yield times(f"osml.conv.{policy}.range", f"{policy}, most s{how}", most, max(seconds, default=None))
    ours = means.get("osml")
    for policy, published in zip(("parties", "clite"), value("osml.conv.speedup"), strict=True):
        theirs = means.get(policy)
        ratio = theirs / ours if theirs is not None and ours else None
        yield times("osml.conv.speedup", f"{policy} over osml{how}", published, ratio)


def _share(rows: Sequence[Row]) -> float | None:
    return 100.0 * statistics.fmean(bool(row["converged"]) for row in rows) if rows else None


def _converged(mixes: Results) -> Iterator[Line]:
    """Figure 11: mixes with a result."""
    for policy in COMPARED:
        fact = f"osml.converged.{policy}"
        yield points(fact, f"{policy}, all mixes", 100.0 * value(fact) / _LOADS, _share(mixes.of(policy=policy)))
    converged = {policy: [row["load"] for row in mixes.of(policy=policy) if row["converged"]] for policy in COMPARED}
    widest = {policy: max(loads, default=None) for policy, loads in converged.items()}
    yield order(
        "osml.emu.order", "largest sum of loads with a result", (("osml", "parties"), ("parties", "clite")), widest
    )


def _as_easy(mixes: Results) -> Iterator[Line]:
    """The same over the lightest mixes, so many that `osml` converges on as large a share as in the paper.

    The paper does not list its 302 loads, so this tells whether heavier mixes explain the difference.
    """
    rows = sorted(mixes.of(policy="osml"), key=lambda row: (row["load"], row["case"], row["seed"]))
    wanted = value("osml.converged.osml") / _LOADS
    done = np.cumsum([bool(row["converged"]) for row in rows])
    enough = [k for k in range(len(rows)) if done[k] >= wanted * (k + 1)]
    if not enough:
        return
    kept = {(row["case"], row["seed"]) for row in rows[: enough[-1] + 1]}
    for policy in ("parties", "clite"):
        fact = f"osml.converged.{policy}"
        same = [row for row in mixes.of(policy=policy) if (row["case"], row["seed"]) in kept]
        of = f"{policy}, the {len(kept)} lightest runs"
        yield points(fact, of, 100.0 * value(fact) / _LOADS, _share(same))


def _resources(mixes: Results) -> Iterator[Line]:
    """Section 6.2 (2): cores and ways over the same mixes."""
    for policy, rows in common(mixes).items():
        cores, ways = value(f"osml.resources.{policy}")
        same = list(rows.values())
        where = "where all converge"
        used = [mean_of(same, column) for column in ("cores_used", "ways_used")]
        yield near(f"osml.resources.{policy}", f"{policy}, logical CPUs {where}", cores, used[0], 3.6)
        yield near(f"osml.resources.{policy}", f"{policy}, ways {where}", ways, used[1], 2.0)


def _figure_10(cells: Results) -> Iterator[Line]:
    """The heat map of moses, img-dnn and xapian."""
    if not cells.rows:
        return
    _, _, found = maps(cells, ("moses", "img-dnn"))
    sums = {policy: float(np.nansum(grid)) for policy, grid in found.items()}
    if set(COMPARED) <= set(found):
        ours, best = found["osml"], np.fmax(found["parties"], found["clite"])
        schedulable = ours > 0
        higher = schedulable & (ours >= best + _STEP - 1e-9)
        share = 100.0 * float(higher.sum()) / float(schedulable.sum()) if schedulable.any() else None
        yield points("osml.fig10.higher", "cells where osml holds a step more", value("osml.fig10.higher"), share)
    managed = [(policy, "unmanaged") for policy in COMPARED]
    yield order("osml.fig10.unmanaged", "sum of xapian's highest loads", managed, sums)
    if sums.get("oracle"):
        part = 100.0 * sums.get("osml", 0.0) / sums["oracle"]
        yield points("osml.fig10.oracle", "osml over the oracle (text: close to it)", 100.0, part)


def _case_a(runs: Results) -> Iterator[Line]:
    """Figure 9."""
    yield from _seconds_of_case_a(runs, "")
    for policy, published in value("osml.case_a.actions").items():
        rows = runs.of(policy=policy)
        actions = mean_of([row for row in rows if row["converged"]], "actions")
        yield times("osml.case_a.actions", f"{policy}, actions", published, actions, never=bool(rows))
    cores, ways = value("osml.case_a.saved")
    used = [mean_of(runs.of(policy="osml"), column) for column in ("cores_used", "ways_used")]
    left = [None if one is None else total - one for one, total in zip(used, (_CPUS, _WAYS), strict=True)]
    yield near("osml.case_a.saved", "logical CPUs that osml leaves", cores, left[0], 3.0)
    yield near("osml.case_a.saved", "ways that osml leaves", ways, left[1], 3.0)


def _seconds_of_case_a(runs: Results, how: str) -> Iterator[Line]:
    for policy, published in value("osml.case_a.seconds").items():
        rows = runs.of(policy=policy)
        seconds = mean_of([row for row in rows if row["converged"]], "convergence_s")
        yield times("osml.case_a.seconds", f"{policy}, s{how}", published, seconds, never=bool(rows))


def _unseen(runs: Results, how: str) -> Iterator[Line]:
    """Section 6.4: mean seconds by number of unseen services."""
    for policy, seconds in value("osml.unseen").items():
        for number, published in enumerate(seconds, 1):
            rows = runs.of(f"group-{number}", policy)
            if rows:
                done = sum(bool(row["converged"]) for row in rows)
                of = f"{policy}, {number} unseen, s{how}; {done} of {len(rows)} runs converge"
                yield times("osml.unseen", of, published, mean_of(rows, "convergence_s"), never=True)
