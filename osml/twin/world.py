"""One member of a twin in one scene as a world that can be changed: node, grants and loads, and what comes of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from osml.simulator import columns as c
from osml.simulator.columns import FloatArray
from osml.simulator.state import Grant, Node
from osml.simulator.surface import solo_speed
from osml.twin.ensemble import Ensemble, grants_for, node_of
from osml.twin.forward import LATENCY_COLUMNS, SETTLED_S, only, settled
from osml.twin.scenes import Scene

LONGEST_MS = 60_000.0
"""Latencies beyond a minute are all the same: nobody waits for them."""


@dataclass(frozen=True)
class World:
    """A node in one scene. `rates` are requests/s, `percentiles` those of the targets."""

    node: Node
    grants: Mapping[str, Grant]
    rates: Mapping[str, float]
    percentiles: Mapping[str, str]

    def with_grant(self, name: str, grant: Grant) -> World:
        """The same with another grant of one tenant."""
        return replace(self, grants={**self.grants, name: grant})

    @property
    def services(self) -> list[str]:
        """Names of the services."""
        return [one.name for one in self.node.services]

    @property
    def jobs(self) -> list[str]:
        """Names of the jobs."""
        return [one.name for one in self.node.jobs]


def world_of(ensemble: Ensemble, member: int, scene: Scene) -> World:
    """A member as it was in a scene."""
    values = ensemble.values(member)
    node = only(node_of(ensemble, member), scene.present)
    grants = grants_for(ensemble, values, scene.grants)
    percentiles = {one.name: one.percentile for one in ensemble.tenants}
    return World(node, {name: grants[name] for name in node.names}, scene.rates, percentiles)


def flows_in(world: World, seconds: float = SETTLED_S) -> FloatArray:
    """Settled flows, (tenants, FLOW_COLUMNS); the queue of who gets more than it bears has grown for `seconds`."""
    return settled(world.node, [world.grants[name] for name in world.node.names], world.rates, seconds)


def tail_ms(row: FloatArray, percentile: str) -> float:
    """A latency in ms of a row of flows; LONGEST_MS where nothing was answered."""
    value = float(row[LATENCY_COLUMNS[percentile]])
    return min(value, LONGEST_MS) if math.isfinite(value) and value > 0 else LONGEST_MS


def outcome(world: World, seconds: float = SETTLED_S) -> dict[str, float]:
    """Latency in ms of every service at its target's percentile; speed of every job as a share of it alone."""
    rows = flows_in(world, seconds)
    found: dict[str, float] = {}
    for at, name in enumerate(world.node.names):
        if at < len(world.node.services):
            found[name] = tail_ms(rows[at], world.percentiles.get(name, "p99"))
        else:
            job = world.node.jobs[at - len(world.node.services)]
            found[name] = float(rows[at, c.F_INSTRUCTIONS]) / 1e9 / solo_speed(world.node.platform, job)[1]
    return found
