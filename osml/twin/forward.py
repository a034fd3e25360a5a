"""What a member of the twin would show in a scene: the simulator's settled node, in the record's own quantities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from osml.simulator import columns as c
from osml.simulator.columns import FloatArray
from osml.simulator.engine import plan_of, room_for
from osml.simulator.state import Grant, Node
from osml.simulator.steady import MEASURED_S, settle_node
from osml.simulator.surface import solo_speed
from osml.twin.ensemble import Ensemble, grants_for, node_of
from osml.twin.scenes import Scene

SETTLED_S = 20.0
_SLOWEST_LOG = math.log(1e7)
LATENCY_COLUMNS = {"p50": c.F_P50_MS, "p95": c.F_P95_MS, "p99": c.F_P99_MS, "mean": c.F_MEAN_MS}


def settled(node: Node, grants: Sequence[Grant], rates: Mapping[str, float], seconds: float = SETTLED_S) -> FloatArray:
    """Settled flows of all tenants, (tenants, FLOW_COLUMNS), at these requests/s. Queues grow for `seconds`."""
    plan = plan_of(node, grants)
    n = len(node.tenants)
    flows = np.empty((n, c.FLOW_COLUMNS))
    settle_node(
        node.platform_row, node.tenant_rows, node.tables, plan.limits, plan.users, plan.masks,
        np.array([rates.get(name, 0.0) for name in node.names]), seconds, np.empty((n, c.STATE_COLUMNS)),
        np.empty((n, node.platform.ways)), flows, room_for(node),
    )  # fmt: skip
    return flows


def only(node: Node, present: Sequence[str]) -> Node:
    """The node with those tenants alone that are present."""
    services = tuple(one for one in node.services if one.name in present)
    return Node(node.platform, services, tuple(one for one in node.jobs if one.name in present))


def latency_log(row: FloatArray, percentile: str) -> float:
    """Logarithm of a latency in ms; a very large number where nothing was answered."""
    value = float(row[LATENCY_COLUMNS[percentile]])
    return math.log(value) if math.isfinite(value) and value > 0 else _SLOWEST_LOG


def shown(row: FloatArray, quantity: str, solo_rate: float | None) -> float:
    """One quantity of SEEN as the logarithm of what an exact sensor would show."""
    if quantity in LATENCY_COLUMNS:
        return latency_log(row, quantity)
    value = {
        "cpu": row[c.F_CPU_S] / MEASURED_S,
        "ipc": row[c.F_INSTRUCTIONS] / max(row[c.F_CYCLES], 1e-9),
        "mpki": 1000.0 * row[c.F_LLC_MISSES] / max(row[c.F_INSTRUCTIONS], 1e-9),
        "occupancy": row[c.F_OCCUPANCY_MIB],
        "bandwidth": row[c.F_MEMORY_BYTES] / MEASURED_S / 1e9,
        "speed": row[c.F_INSTRUCTIONS] / MEASURED_S / 1e9 / (solo_rate or 1.0),
    }[quantity]
    return math.log(max(float(value), 1e-9))


Wanted = tuple[int, str, str]
"""Scene, tenant, quantity."""


def predicted(ensemble: Ensemble, member: int, scenes: Sequence[Scene], wanted: Sequence[Wanted]) -> list[float]:
    """What a member would show of everything that is wanted, as logarithms, errors of its counters included."""
    values = ensemble.values(member)
    node = node_of(ensemble, member)
    speeds = {name for _, name, quantity in wanted if quantity == "speed"}
    solo = {job.name: solo_speed(node.platform, job)[1] for job in node.jobs if job.name in speeds}
    flows: list[FloatArray] = []
    places: list[dict[str, int]] = []
    for scene in scenes:
        there = only(node, scene.present)
        grants = grants_for(ensemble, values, scene.grants)
        flows.append(settled(there, [grants[name] for name in there.names], scene.rates))
        places.append({name: at for at, name in enumerate(there.names)})
    found: list[float] = []
    for scene, name, quantity in wanted:
        exact = shown(flows[scene][places[scene][name]], quantity, solo.get(name))
        found.append(exact + math.log(values.get((name, f"bias:{quantity}"), 1.0)))
    return found
