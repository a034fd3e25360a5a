"""The one door to the engine: what settles on a node for given CPUs and ways.

`settle_node` of osml.simulator.steady does the work. It starts from an idle node every time: the engine's fixed point
can have two solutions (hyperthreads that slow each other down stay busy longer), and an exact answer must not depend on
what was evaluated before.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from osml.base.jit import compiled
from osml.simulator import columns as c
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.engine import checked_loads
from osml.simulator.physics.fixed_point import Work, empty_work
from osml.simulator.state import Node
from osml.simulator.steady import settle_node

SECONDS = 20.0
"""Node time from the start of the loads to the end of the interval that is looked at."""

_TAIL = {"p50": c.F_P50_MS, "p95": c.F_P95_MS, "p99": c.F_P99_MS}


@compiled
def place_first(users: IntArray, masks: IntArray, order: IntArray, cores: int, ways: int, last_way: int) -> None:
    """Tenant 0 on the first cores and ways, all others together on the last CPU and the last way."""
    n = len(masks)
    users[:] = 0
    for k in range(cores):
        users[order[k]] |= 1
    masks[0] = (1 << ways) - 1
    for i in range(1, n):
        users[order[-1]] |= 1 << i
        masks[i] = 1 << last_way


@compiled
def _grid(
    platform: FloatArray,
    tenants: FloatArray,
    tables: FloatArray,
    limits: FloatArray,
    order: IntArray,
    arrivals: FloatArray,
    seconds: float,
    state: FloatArray,
    occupancy: FloatArray,
    flows: FloatArray,
    work: Work,
    found: FloatArray,
) -> None:
    users, masks = np.zeros(len(order), np.int64), np.zeros(len(tenants), np.int64)
    last_way = int(platform[c.P_WAYS]) - 1
    for row in range(found.shape[0]):
        for column in range(found.shape[1]):
            place_first(users, masks, order, row + 1, column + 1, last_way)
            settle_node(
                platform, tenants, tables, limits, users, masks, arrivals, seconds, state, occupancy, flows, work
            )
            found[row, column, :] = flows[0]


@compiled
def _staircase(
    platform: FloatArray,
    tenants: FloatArray,
    tables: FloatArray,
    limits: FloatArray,
    order: IntArray,
    arrivals: FloatArray,
    seconds: float,
    state: FloatArray,
    occupancy: FloatArray,
    flows: FloatArray,
    work: Work,
    column: int,
    limit_ms: float,
    times_s: FloatArray,
    most_cores: int,
    need: IntArray,
) -> int:
    """need[w - 1] = the fewest cores (0: none) with which tenant 0 may meet limit_ms on w ways. Returns evaluations.

    It may where it does, or where its service time is below times_s[cores - 1].

    More ways never need more cores, so one walk along the staircase finds all.
    """
    users, masks = np.zeros(len(order), np.int64), np.zeros(len(tenants), np.int64)
    last_way = int(platform[c.P_WAYS]) - 1
    cores, evaluations = 1, 0
    for ways in range(len(need), 0, -1):
        need[ways - 1] = 0
        while cores <= most_cores:
            place_first(users, masks, order, cores, ways, last_way)
            settle_node(
                platform, tenants, tables, limits, users, masks, arrivals, seconds, state, occupancy, flows, work
            )
            evaluations += 1
            served = flows[0, c.F_COMPLETED] > 0.0
            if flows[0, column] <= limit_ms or (
                served and flows[0, c.F_CPU_S] < times_s[cores - 1] * flows[0, c.F_COMPLETED]
            ):
                need[ways - 1] = cores
                break
            cores += 1
    return evaluations


class SettledNode:
    """A node under constant loads (fractions of max load), evaluated for many allocations. Counts what it does."""

    def __init__(self, node: Node, loads: Mapping[str, float], seconds: float = SECONDS) -> None:
        n, ways = len(node.tenants), node.platform.ways
        self.node = node
        self.seconds = seconds
        self.evaluations = 0
        self._given = node.platform_row, node.tenant_rows, node.tables
        self.limits = c.no_limits(n, node.platform_row)
        self._arrivals = np.array(checked_loads(node, loads))
        self._room = (
            np.empty((n, c.STATE_COLUMNS)),
            np.zeros((n, ways)),
            np.empty((n, c.FLOW_COLUMNS)),
            empty_work(n, ways, node.platform.cpus),
        )
        self._order = np.array(node.platform.cpu_order(), np.int64)

    @property
    def arguments(
        self,
    ) -> tuple[
        FloatArray,
        FloatArray,
        FloatArray,
        FloatArray,
        IntArray,
        FloatArray,
        float,
        FloatArray,
        FloatArray,
        FloatArray,
        Work,
    ]:
        """What compiled functions over many allocations need: the node, limits, CPUs in order, loads, time, room."""
        return *self._given, self.limits, self._order, self._arrivals, self.seconds, *self._room

    def flows(self, users: IntArray, masks: IntArray) -> FloatArray:
        """Flows (tenants, FLOW_COLUMNS) for the tenants of each CPU as bits and way masks; the next call overwrites."""
        self.evaluations += 1
        settle_node(*self._given, self.limits, users, masks, self._arrivals, self.seconds, *self._room)
        return self._room[2]

    def first_tenant(self, cores: int, ways: int) -> FloatArray:
        """Flows of the first tenant on 1..cores x 1..ways, (cores, ways, FLOW_COLUMNS); the others on the last."""
        found = np.empty((cores, ways, c.FLOW_COLUMNS))
        self.evaluations += cores * ways
        _grid(*self.arguments, found)
        return found

    def fewest_cores(self, limit_ms: float, times_s: FloatArray, cores: int, ways: int) -> IntArray:
        """For 1..ways ways the fewest of 1..cores cores with which the first tenant may stay within limit_ms; 0 = none.

        It may at service times below times_s (cores,), although its tail is above: tails can fall as requests become
        longer and the queue of a second turns into a backlog.
        """
        need = np.zeros(ways, np.int64)
        column = tail_column(self.node, 0)
        self.evaluations += _staircase(*self.arguments, column, limit_ms, times_s, cores, need)
        return need


def tail_column(node: Node, service: int) -> int:
    """The column of flows that the target of a service speaks of."""
    return _TAIL[node.services[service].percentile]
