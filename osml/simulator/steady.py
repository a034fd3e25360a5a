"""Where a node ends up when grants and loads stay as they are: the cache settled, queues after so many seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from osml.base.jit import compiled
from osml.simulator import columns as c
from osml.simulator.columns import FloatArray, IntArray, make_idle
from osml.simulator.engine import checked_loads, flows_of, plan_of, room_for
from osml.simulator.physics.fixed_point import Work
from osml.simulator.physics.step import step_node
from osml.simulator.state import Flow, Grant, Node

MEASURED_S = 1.0
"""Length of the last interval, the one that is looked at."""

_ROUNDS, _ALONE_ROUNDS = 400, 30
_SETTLED = 1e-3
_STEP = 0.1
"""Of the way to what the cache would hold in the end: whoever shares ways changes by the others' changes, and a node
that runs second by second passes through all states between."""


@compiled
def _some_share(masks: IntArray) -> bool:
    """Whether two tenants may use the same way."""
    taken = 0
    for i in range(len(masks)):
        if masks[i] & taken:
            return True
        taken |= masks[i]
    return False


@compiled
def _someone_waits(flows: FloatArray) -> bool:
    """Whether a queue grows."""
    longest = 0.0
    for i in range(len(flows)):
        longest = max(longest, flows[i, c.F_BACKLOG_MS_AFTER])
    return longest > 0.0


@compiled
def settle_node(
    platform: FloatArray,
    tenants: FloatArray,
    tables: FloatArray,
    grants: FloatArray,
    users: IntArray,
    masks: IntArray,
    arrivals: FloatArray,
    seconds: float,
    state: FloatArray,
    occupancy: FloatArray,
    flows: FloatArray,
    work: Work,
) -> None:
    """Settle one node: `flows` are those of the last MEASURED_S of `seconds` after the loads began.

    An idle node with an empty cache gets its load, and the shares of ways and the latencies that they cause are
    followed until they stay: there can be several such states, and this is the one that the node itself reaches. Then
    the backlog, if there is one, grows for the rest of the time. `state` and `occupancy` are room for the work.
    """
    ways = int(platform[c.P_WAYS])
    make_idle(platform, state)
    occupancy[:] = 0.0
    step, rounds = (_STEP, _ROUNDS) if _some_share(masks) else (1.0, _ALONE_ROUNDS)
    before = np.empty_like(occupancy)
    for _ in range(rounds):
        state[:, c.S_BACKLOG] = state[:, c.S_QUEUED] = 0.0
        before[:] = occupancy
        step_node(platform, tenants, tables, grants, users, masks, arrivals, 100.0, state, occupancy, flows, work)
        moved = 0.0
        for i in range(len(tenants)):
            held = 0.0
            for way in range(ways):
                held += occupancy[i, way]
            moved = max(moved, abs(held - flows[i, c.F_OCCUPANCY_MIB]))
        occupancy[:] = before + (occupancy - before) * step
        if moved < _SETTLED:
            break
    state[:, c.S_BACKLOG] = state[:, c.S_QUEUED] = 0.0
    left = seconds - MEASURED_S
    while left > 0.0:
        # Whoever has a backlog wants more than arrives, and the others feel that from then on.
        dt = min(left, MEASURED_S) if len(tenants) > 1 and _someone_waits(flows) else left
        step_node(platform, tenants, tables, grants, users, masks, arrivals, dt, state, occupancy, flows, work)
        left -= dt
    step_node(platform, tenants, tables, grants, users, masks, arrivals, MEASURED_S, state, occupancy, flows, work)


@compiled
def _cells(
    platform: FloatArray,
    tenants: FloatArray,
    tables: FloatArray,
    grants: FloatArray,
    order: IntArray,
    cores: IntArray,
    ways: IntArray,
    arrivals: FloatArray,
    seconds: float,
    state: FloatArray,
    occupancy: FloatArray,
    work: Work,
    flows: FloatArray,
) -> None:
    users, masks = np.zeros(len(order), np.int64), np.zeros(1, np.int64)
    for row in range(len(cores)):
        users[:] = 0
        for k in range(cores[row]):
            users[order[k]] = 1
        for column in range(len(ways)):
            masks[0] = (1 << ways[column]) - 1
            cell = flows[row, column]
            settle_node(
                platform, tenants, tables, grants, users, masks, arrivals, seconds, state, occupancy, cell, work
            )


def surface_flows(
    node: Node, load: float, cores: Sequence[int], ways: Sequence[int], seconds: float = 20.0
) -> FloatArray:
    """Flows of a service alone on so many cores and ways, `seconds` after its start: (cores, ways, FLOW_COLUMNS).

    CPUs are handed out with siblings together. The node has the one service and nothing else.
    """
    arrivals = np.array(checked_loads(node, {node.services[0].name: load}))
    flows = np.empty((len(cores), len(ways), 1, c.FLOW_COLUMNS))
    state, occupancy = np.empty((1, c.STATE_COLUMNS)), np.empty((1, node.platform.ways))
    order = np.array(node.platform.cpu_order(), np.int64)
    _cells(
        node.platform_row,
        node.tenant_rows,
        node.tables,
        c.no_limits(1, node.platform_row),
        order,
        np.array(cores, np.int64),
        np.array(ways, np.int64),
        arrivals,
        seconds,
        state,
        occupancy,
        room_for(node),
        flows,
    )
    return flows[:, :, 0, :]


def steady_rows(node: Node, grants: Sequence[Grant], loads: Mapping[str, float], seconds: float = 20.0) -> FloatArray:
    """Settled flows of all tenants as (tenants, FLOW_COLUMNS). Raises NodeInputError on impossible input."""
    given = plan_of(node, grants)
    arrivals = np.array(checked_loads(node, loads))
    n = len(node.tenants)
    flows = np.empty((n, c.FLOW_COLUMNS))
    state, occupancy = np.empty((n, c.STATE_COLUMNS)), np.empty((n, node.platform.ways))
    settle_node(
        node.platform_row,
        node.tenant_rows,
        node.tables,
        given.limits,
        given.users,
        given.masks,
        arrivals,
        seconds,
        state,
        occupancy,
        flows,
        room_for(node),
    )
    return flows


def steady(node: Node, grants: Sequence[Grant], loads: Mapping[str, float], seconds: float = 20.0) -> list[Flow]:
    """Settled flows of all tenants. Raises NodeInputError on impossible input."""
    return flows_of(node, steady_rows(node, grants, loads, seconds), MEASURED_S)
