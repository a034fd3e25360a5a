"""Where the cliffs are: p99 of one service alone over cores and ways; and solo speeds."""

from __future__ import annotations

from collections.abc import Sequence

from osml.simulator import columns as c
from osml.simulator.columns import FloatArray
from osml.simulator.engine import advance
from osml.simulator.models import JobModel, PlatformModel, ServiceModel, on_platform
from osml.simulator.state import Flow, Grant, Node, NodeState, initial_state
from osml.simulator.steady import steady, surface_flows

USUAL_LOAD = 0.2
"""At which an operator measured the ideal latency of a service whose load changes (Ah-Q, section VII)."""
_HIGHEST_IDEAL = 0.95
"""Of the target: an ideal latency beyond it would say that nothing can be tolerated."""


def first_cpus(platform: PlatformModel, cores: int) -> frozenset[int]:
    """So many CPUs, siblings together."""
    return frozenset(platform.cpu_order()[:cores])


def run(
    node: Node,
    grants: Sequence[Grant],
    loads: dict[str, float],
    seconds: float,
    state: NodeState | None = None,
    dt: float = 1.0,
) -> tuple[NodeState, list[Flow]]:
    """Let the node run; returns the state and the flows of the last step."""
    now = state or initial_state(node)
    flows: list[Flow] = []
    for _ in range(round(seconds / dt)):
        now, flows = advance(node, now, grants, loads, dt)
    return now, flows


def p99_ms(flow: Flow) -> float:
    """The p99 of a step; infinite where nothing was completed."""
    return tail_ms(flow, "p99")


def tail_ms(flow: Flow, percentile: str) -> float:
    """The latency that a target speaks of ("p50", "p95", "p99", "mean"); infinite where nothing was completed."""
    found = {"p50": flow.p50_ms, "p95": flow.p95_ms, "p99": flow.p99_ms, "mean": flow.mean_ms}[percentile]
    return float("inf") if found is None else found


def surface(
    platform: PlatformModel,
    service: ServiceModel,
    load: float,
    cores: Sequence[int] | None = None,
    ways: Sequence[int] | None = None,
    seconds: float = 20.0,
) -> FloatArray:
    """Flows (cores, ways, FLOW_COLUMNS) of a service alone on so many cores and ways, `seconds` after its start."""
    cores = cores or range(1, platform.cpus + 1)
    ways = ways or range(1, platform.ways + 1)
    return surface_flows(Node(platform, (service,)), load, cores, ways, seconds)


def p99_surface(
    platform: PlatformModel,
    service: ServiceModel,
    load: float,
    cores: Sequence[int] | None = None,
    ways: Sequence[int] | None = None,
    seconds: float = 20.0,
) -> FloatArray:
    """p99 in ms, shape (cores, ways), of a service alone on so many cores and ways, `seconds` after its start."""
    return surface(platform, service, load, cores, ways, seconds)[:, :, c.F_P99_MS]


def whole_node(node: Node) -> list[Grant]:
    """Nothing is managed: everybody may use all CPUs and all ways."""
    platform = node.platform
    return [Grant(frozenset(range(platform.cpus)), (1 << platform.ways) - 1) for _ in node.tenants]


def ideal_ms(platform: PlatformModel, service: ServiceModel, load: float) -> float:
    """Tail latency in ms of the service alone on the whole node (Ah-Q's TL_i0), at the percentile of its target."""
    node = Node(platform, (service,))
    return tail_ms(steady(node, whole_node(node), {service.name: load}, 10.0)[0], service.percentile)


def known_ideal_ms(platform: PlatformModel, service: ServiceModel, load: float) -> float:
    """The ideal latency as an operator would state it: below the target, whatever the load (0: the usual one)."""
    return min(ideal_ms(platform, service, load or USUAL_LOAD), _HIGHEST_IDEAL * service.target_ms)


def solo_speed(platform: PlatformModel, job: JobModel) -> tuple[float, float]:
    """Instructions per cycle, and 10^9 instructions a second, of a job alone on the whole node."""
    node = Node(platform, (), (on_platform(job, platform),))
    flow = steady(node, whole_node(node), {}, 10.0)[0]
    return flow.instructions / flow.cycles, flow.instructions / flow.dt / 1e9
