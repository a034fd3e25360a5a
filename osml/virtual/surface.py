"""Where the cliffs are: p99 of one service alone over cores and ways; and solo speeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from osml.virtual.engine import advance
from osml.virtual.models import JobModel, PlatformModel, ServiceModel, on_platform
from osml.virtual.queueing import LEVELS
from osml.virtual.state import FloatArray, Flow, Grant, Node, NodeState, initial_state


def first_cpus(platform: PlatformModel, cores: int) -> frozenset[int]:
    """So many CPUs, siblings together."""
    return frozenset(platform.cpu_order()[:cores])


def run(
    node: Node, grants: Sequence[Grant], loads: dict[str, float], seconds: float, state: NodeState | None = None,
    dt: float = 1.0,
) -> tuple[NodeState, list[Flow]]:  # fmt: skip
    """Let the node run; returns the state and the flows of the last step."""
    now = state or initial_state(node)
    flows: list[Flow] = []
    for _ in range(round(seconds / dt)):
        now, flows = advance(node, now, grants, loads, dt)
    return now, flows


def p99_ms(flow: Flow) -> float:
    """The p99 of a step; infinite where nothing was completed."""
    return float("inf") if flow.quantiles_ms is None else float(np.interp(0.99, LEVELS, flow.quantiles_ms))


def p99_surface(
    platform: PlatformModel, service: ServiceModel, load: float,
    cores: Sequence[int] | None = None, ways: Sequence[int] | None = None, seconds: float = 20.0,
) -> FloatArray:  # fmt: skip
    """p99 in ms, shape (cores, ways), of a service alone on so many cores and ways, `seconds` after its start."""
    cores = cores or range(1, platform.cpus + 1)
    ways = ways or range(1, platform.ways + 1)
    node = Node(platform, (service,))
    table = np.empty((len(cores), len(ways)))
    for row, n_cores in enumerate(cores):
        for column, n_ways in enumerate(ways):
            grant = Grant(first_cpus(platform, n_cores), (1 << n_ways) - 1)
            table[row, column] = p99_ms(run(node, [grant], {service.name: load}, seconds)[1][0])
    return table


def whole_node(node: Node) -> list[Grant]:
    """Nothing is managed: everybody may use all CPUs and all ways."""
    platform = node.platform
    return [Grant(frozenset(range(platform.cpus)), (1 << platform.ways) - 1) for _ in node.tenants]


def ideal_ms(platform: PlatformModel, service: ServiceModel, load: float) -> float:
    """p99 in ms of the service alone on the whole node at a load (Ah-Q's TL_i0)."""
    node = Node(platform, (service,))
    return p99_ms(run(node, whole_node(node), {service.name: load}, 10.0)[1][0])


def solo_speed(platform: PlatformModel, job: JobModel) -> tuple[float, float]:
    """Instructions per cycle, and 10^9 instructions a second, of a job alone on the whole node."""
    node = Node(platform, (), (on_platform(job, platform),))
    flow = run(node, whole_node(node), {}, 10.0)[1][0]
    return flow.instructions / flow.cycles, flow.instructions / flow.dt / 1e9
