"""Exact solves of the dispatch MDP: environment 1 of the paper, k = 5 and k = 12, and next to saturation."""

from __future__ import annotations

import resource
from functools import partial

from osml.dispatch.mdp.parameters import FarmParameters
from osml.dispatch.mdp.thresholds import solve
from osml.lab.benchmarks.harness import seconds, take


def _farm(servers: int, load: float) -> FarmParameters:
    return FarmParameters(servers, load * servers * 25.5, 50.0, 1.0, 0.3, 0.3)


def _environment_1() -> None:
    for arrival in range(1, 51):
        solve(FarmParameters(2, arrival, 50.0, 1.0, 0.3, 0.3))


def run() -> None:
    """Solves without any cache; the first, thrown away, compiles."""
    take("dispatch-50-solves-k2", "s", seconds(_environment_1))
    for servers, load in ((5, 0.4), (5, 0.999), (12, 0.15), (12, 0.6), (12, 0.999)):
        sample = seconds(partial(solve, _farm(servers, load)))
        take(f"dispatch-k{servers}-load{load:g}", "s", sample, runs=3 if servers > 5 else 7)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    take("dispatch-peak-memory", "GiB", lambda: peak, runs=1)
