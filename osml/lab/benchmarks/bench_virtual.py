"""The virtual node: one node, thousands at once, a surface. On one core."""
# pyright: basic

from __future__ import annotations

import numpy as np

from osml.base.jit import compiled
from osml.lab.benchmarks.harness import rate, seconds, take
from osml.simulator import catalogs
from osml.simulator import columns as c
from osml.simulator.engine import advance, checked_loads, plan_of, room_for
from osml.simulator.physics.step import step_node
from osml.simulator.state import Grant, Node, initial_state
from osml.simulator.surface import p99_surface

LOADS = {"moses": 0.4, "img-dnn": 0.6, "xapian": 0.5, "masstree": 0.3}
NODES, STEPS = 1000, 100


@compiled
def _step_all(platform, tenants, tables, limits, users, masks, arrivals, state, occupancy, flows, work, steps):
    for step in range(steps):
        for node in range(len(state)):
            step_node(
                platform,
                tenants,
                tables,
                limits,
                users,
                masks,
                arrivals[step, node],
                1.0,
                state[node],
                occupancy[node],
                flows[node],
                work,
            )


def _node() -> tuple[Node, list[Grant]]:
    platform = catalogs.platform("e5-2697v4")
    node = Node(platform, tuple(catalogs.service(name, platform.id) for name in LOADS))
    order = platform.cpu_order()
    cuts = ((0, 9, 0x1F), (9, 18, 0x3E0), (18, 27, 0x7C00), (27, 36, 0xF8000))
    return node, [Grant(frozenset(order[low:high]), mask) for low, high, mask in cuts]


def run() -> None:
    """All figures."""
    node, grants = _node()
    state, _ = advance(node, initial_state(node), grants, LOADS, 1.0)

    def one_node() -> None:
        now = state
        for _ in range(2000):
            now, _ = advance(node, now, grants, LOADS, 1.0)

    take("virtual_one_node", "service-intervals/s", rate(2000 * 4, one_node))

    plan, rng = plan_of(node, grants), np.random.default_rng(0)
    arrivals = np.array(checked_loads(node, LOADS)) * rng.uniform(0.1, 0.9, (STEPS, NODES, 4))
    rows = np.tile(c.initial_rows(4, node.platform_row), (NODES, 1, 1))
    occupancy, flows = np.zeros((NODES, 4, node.platform.ways)), np.zeros((NODES, 4, c.FLOW_COLUMNS))

    def many_nodes() -> None:
        _step_all(
            node.platform_row,
            node.tenant_rows,
            node.tables,
            plan.limits,
            plan.users,
            plan.masks,
            arrivals,
            rows,
            occupancy,
            flows,
            room_for(node),
            STEPS,
        )

    take("virtual_many_nodes_new_loads_each_second", "service-intervals/s", rate(NODES * STEPS * 4, many_nodes))

    platform = node.platform
    for name in ("moses", "img-dnn"):
        service = catalogs.service(name, platform.id)
        take(f"virtual_surface_36x20_{name}", "s", seconds(lambda service=service: p99_surface(platform, service, 0.6)))
