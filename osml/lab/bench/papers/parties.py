"""PARTIES (ASPLOS '19), sections 5.2 and 5.4, beside the suite parties-emu."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from osml.lab.bench.papers.line import Line, RunsOf, between, order, points, times
from osml.lab.bench.report.emu import gain
from osml.lab.bench.report.heat_maps import maps
from osml.lab.bench.report.statistics import mean
from osml.lab.bench.results import Results
from osml.lab.bench.suites.parties_emu import BESIDE_JOBS, MAP
from osml.simulator.calibration.measured.policy_facts import published_value as value


def lines(runs: RunsOf) -> Iterator[Line]:
    """All of the paper's lines whose suite was run."""
    if "parties-emu" not in runs:
        return
    results = runs["parties-emu"]
    for number in (2, 6):
        over = gain(results.only(f"{number} services"), "parties", "heracles")
        fact = f"parties.emu.gain{number}"
        yield points(fact, f"EMU of parties over heracles, {number} services", value(fact), over)
    yield from _figure_8(results.only(MAP), "")
    yield from _figure_8(results.only(MAP + BESIDE_JOBS), ", beside a job")
    yield from _figure_10(results)


def _figure_8(cells: Results, beside: str) -> Iterator[Line]:
    """Highest load of nginx beside memcached and xapian."""
    if not cells.rows:
        return
    _, _, found = maps(cells, ("memcached", "xapian"))
    sums = {policy: float(np.nansum(grid)) for policy, grid in found.items()}
    pairs = (("oracle:isolated", "parties"), ("parties", "heracles"), ("heracles", "unmanaged"))
    yield order("parties.fig8.unmanaged", f"sum of nginx's highest loads{beside}", pairs, sums)
    if {"parties", "heracles"} <= set(found):
        both = (found["parties"] > 0) | (found["heracles"] > 0)
        more = 100.0 * (found["parties"] - found["heracles"])[both]
        low, high = value("parties.fig8.heracles")
        mean_more = float(more.mean()) if more.size else None
        yield between("parties.fig8.heracles", f"points of nginx's load over heracles{beside}", (low, high), mean_more)
    if {"parties", "oracle:isolated"} <= set(found) and sums["oracle:isolated"] > 0:
        below = 100.0 * (1.0 - sums["parties"] / sums["oracle:isolated"])
        yield between("parties.fig8.oracle", f"percent below the isolated oracle{beside}", (0.0, 10.0), below)


def _figure_10(results: Results) -> Iterator[Line]:
    """Seconds until PARTIES meets all targets, over the number of services."""
    means: dict[int, float] = {}
    most = None
    for number in range(2, 7):
        runs = results.of(f"{number} services", "parties")
        held = [row for row in runs if row["emu"] and row["convergence_s"] is not None]
        if held:
            means[number] = mean(results.by_case(held, "convergence_s")).value
            most = max(most or 0.0, *(float(row["convergence_s"]) for row in held))
    yield times("parties.conv.range", "most seconds", value("parties.conv.range")["most"], most)
    growth = means[6] / means[2] if 6 in means and means.get(2) else None
    yield times("parties.conv.growth", "mean of 6 over 2 services", value("parties.conv.growth"), growth)
