"""Would a cell that `osml` came to meet its target with a core less? By the share of its CPUs that it would use then.

    python -m osml.lab.benchmarks.osml_core_less --mixes 302

Random mixes of three services run for a minute under `osml` without the step below the OAA, and each cell whose targets
are met is tried on one core less, beside the others as they are: for 20 s from that state, with 25 % more load for 5 s,
and settled, with no more cache than its own ways hold. Simulated, without noise; about a second for ten mixes.
"""
# pyright: basic

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from msgspec.structs import replace

from osml.domain import Partition
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suites import osml_302
from osml.lab.bench.unit import noise_seed
from osml.layout import assign
from osml.policies.osml.steps import below_oaa
from osml.simulator.closed_loop import ClosedLoop, grant_of
from osml.simulator.engine import advance
from osml.simulator.state import Flow, Grant
from osml.simulator.steady import steady
from osml.simulator.surface import tail_ms

RUN_S, MEAN_OVER, JUMP = 60, 16, 1.25
BOUNDS = (0.4, 0.45, 0.5, 0.6, 100.0)


def cells_of(scenario: Scenario) -> list[dict[str, Any]]:
    """One row a cell: what is measured of it, and its tail over its target as it is and with a core less."""
    loop = ClosedLoop(scenario.node, scenario.loads, "osml", seed=noise_seed(scenario, 0), delay_s=scenario.delay_s)
    seen = loop.run(RUN_S)[-MEAN_OVER:]
    decision = seen[-1].decision
    names = scenario.node.names
    if decision is None or sorted(region.owners for region in decision.partition.regions) != [[n] for n in names]:
        return []
    partition = decision.partition
    forecasts = {one.service: one for one in decision.forecasts}
    here = _worst(loop, _grants(loop, partition))
    if max(here.values()) > 1.0 or partition.cores >= scenario.node.platform.cpus:
        return []
    found: list[dict[str, Any]] = []
    for name in names:
        cores = partition.cores_of(name)
        observed = [one for row in seen for one in row.observed if one.name == name]
        latencies = [1.0 - one.slack for one in observed if one.slack is not None]
        if cores < 2 or not latencies:
            continue
        regions = [replace(r, cores=r.cores - 1) if r.owners == [name] else r for r in partition.regions]
        now, less = _grants(loop, partition), _grants(loop, replace(partition, regions=regions))
        settled = _tails(loop, steady(loop.node, less, loop.loads_now(), 60.0))
        found.append(
            {
                "used": fmean(one.counters.cpu_usage_cores or 0.0 for one in observed) / (cores - 1),
                "level": fmean(latencies),
                "room": cores - 1 - forecasts[name].rcliff_upper.cores,
                "less": _worst(loop, less)[name],
                "settled": settled[name],
                "jump_before": _worst(loop, now, name)[name],
                "jump_after": _worst(loop, less, name)[name],
            }
        )
    return found


def _grants(loop: ClosedLoop, partition: Partition) -> list[Grant]:
    laid = assign(partition, loop.platform, loop._services, loop._assignments)
    given = {one.service: grant_of(one, loop.node.platform) for one in laid}
    return [given[name] for name in loop.node.names]


def _tails(loop: ClosedLoop, flows: Sequence[Flow]) -> dict[str, float]:
    services = loop.node.services
    return {s.name: tail_ms(flow, s.percentile) / s.target_ms for s, flow in zip(services, flows, strict=False)}


def _worst(loop: ClosedLoop, grants: list[Grant], jumps: str | None = None) -> dict[str, float]:
    """The worst tails over targets of some seconds with these grants; `jumps`: the load of that service does."""
    loads, state = dict(loop.loads_now()), loop._state
    if jumps is not None:
        loads[jumps] *= JUMP
    worst = dict.fromkeys(loop.node.names, 0.0)
    for _ in range(20 if jumps is None else 5):
        state, flows = advance(loop.node, state, grants, loads, 1.0)
        worst = {name: max(worst[name], tail) for name, tail in _tails(loop, flows).items()}
    return worst


def main() -> None:
    """Read the arguments, count, write one JSON document: a row for each bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mixes", type=int, default=302)
    parser.add_argument("--seed", type=int, default=302, help="of the mixes; 302 are those of osml-302")
    given = parser.parse_args()
    below_oaa.BUSY = -1.0  # nobody goes below the OAA here
    mixes = osml_302.random_mixes(given.mixes, given.seed)
    scenarios = [Scenario("osml-302", osml_302.MIXES, mix, osml_302.PLATFORM) for mix in mixes]
    cells = [cell for scenario in scenarios for cell in cells_of(scenario)]
    rows: list[dict[str, Any]] = []
    for bound in BOUNDS:
        gives = [c for c in cells if c["used"] <= bound and c["level"] < below_oaa.FAR_BELOW and c["room"] >= -0.5]
        missed = {key: sum(c[key] > 1.0 for c in gives) for key in ("less", "settled", "jump_before", "jump_after")}
        rows.append({"cpu_time_at_most": bound, "cells": len(gives), "of": len(cells)} | missed)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
