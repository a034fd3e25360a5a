"""The node without a neighbour's pressure on one resource: what a service's latency would be then.

A neighbour's pressure on CPUs, cache and memory bandwidth can be taken away one by one:

- cpu: the neighbour runs on CPUs that nobody else has. It takes no time from others and is nobody's sibling.
- cache: it holds nothing in the cache, and its traffic to the memory stays what it is.
- memory bandwidth: its misses move no bytes.

Without all three it is not there at all.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from osml.simulator import columns as c
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.engine import plan_of, room_for
from osml.simulator.physics.fixed_point import empty_work
from osml.simulator.state import Node, Plan
from osml.simulator.steady import settle_node
from osml.twin.forward import SETTLED_S
from osml.twin.world import World, flows_in, tail_ms

CPU, CACHE, BANDWIDTH = "cpu", "cache", "memory bandwidth"
RESOURCES = (CPU, CACHE, BANDWIDTH)
Pressure = tuple[str, str]
"""Whose, and on what."""


class Pressures:
    """Latency of one service of a world without some pressures. `limited`: whether its own CPU quota holds."""

    def __init__(self, world: World, victim: str) -> None:
        self.world, self._victim = world, victim
        self._percentile = world.percentiles.get(victim, "p99")
        rows = flows_in(world)
        ratios = rows[:, c.F_LLC_MISSES] / np.maximum(rows[:, c.F_LLC_ACCESSES], 1e-9)
        self._misses = dict(zip(world.node.names, ratios.tolist(), strict=True))
        self.now_ms = tail_ms(rows[world.node.names.index(victim)], self._percentile)

    def alone_ms(self) -> float:
        """Its latency without neighbours and without a quota of its own."""
        others = {(name, resource) for name in self.world.node.names if name != self._victim for resource in RESOURCES}
        return self.latency_ms(others, limited=False)

    def latency_ms(self, off: AbstractSet[Pressure], *, limited: bool = True) -> float:
        """Its latency without these pressures."""
        gone = {name for name, _ in off if all((name, resource) in off for resource in RESOURCES)}
        node = self.world.node
        there = Node(
            node.platform,
            tuple(one for one in node.services if one.name not in gone),
            tuple(one for one in node.jobs if one.name not in gone),
        )
        grants = dict(self.world.grants)
        if not limited:
            grants[self._victim] = replace(grants[self._victim], cpu_quota=None)
        plan = plan_of(there, [grants[name] for name in there.names])
        rows, platform, users = there.tenant_rows.copy(), there.platform_row.copy(), plan.users
        apart: list[int] = []
        for at, name in enumerate(there.names):
            if (name, CACHE) in off:
                rows[at, c.T_APKI] *= max(self._misses[name], 1e-6)
                rows[at, c.T_MISS_MIN], rows[at, c.T_FOOTPRINT] = 0.9999, 0.01
            if (name, BANDWIDTH) in off:
                rows[at, c.T_BYTES] = 1e-6
            if (name, CPU) in off:
                apart.append(at)
        if apart:
            users = _apart(users, apart, there.platform.physical_cores)
            platform[c.P_CORES] *= 1 + len(apart)
            rows[:, c.T_POWER] *= 1 + len(apart)  # the clock stays what it is: the other CPUs are made up
        return self._settled(there, rows, platform, users, plan)

    def _settled(self, node: Node, rows: FloatArray, platform: FloatArray, users: IntArray, plan: Plan) -> float:
        n = len(rows)
        flows = np.empty((n, c.FLOW_COLUMNS))
        work = room_for(node) if len(users) == node.platform.cpus else empty_work(n, node.platform.ways, len(users))
        settle_node(
            platform, rows, node.tables, plan.limits, users, plan.masks,
            np.array([self.world.rates.get(name, 0.0) for name in node.names]), SETTLED_S,
            np.empty((n, c.STATE_COLUMNS)), np.empty((n, node.platform.ways)), flows, work,
        )  # fmt: skip
        return tail_ms(flows[node.names.index(self._victim)], self._percentile)


def _apart(users: IntArray, tenants: list[int], cores: int) -> IntArray:
    """The tenants moved to copies of their CPUs, one copy of the machine for each; siblings stay siblings."""
    copies = 1 + len(tenants)
    threads = len(users) // cores
    found = np.zeros(threads * cores * copies, np.int64)
    moved = 0
    for tenant in tenants:
        moved |= 1 << tenant
    for cpu, who in enumerate(users.tolist()):
        thread, core = divmod(cpu, cores)
        first = thread * cores * copies + core
        found[first] = who & ~moved
        for copy, tenant in enumerate(tenants, start=1):
            found[first + copy * cores] = who & 1 << tenant
    return found
