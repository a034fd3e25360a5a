"""One step of the virtual node: a pure function of state, grants and loads.

The chain of cause and effect: grants -> CPU shares and cache -> memory latency -> service times -> CPU shares again (a
fixed point), then queues and counters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from osml.virtual import cache, cpu, memory, queueing
from osml.virtual.models import ServiceModel
from osml.virtual.state import FloatArray, Flow, Grant, Node, NodeInputError, NodeState

MAX_LOAD = 2.0
_ROUNDS = 25
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class _Point:
    """The fixed point of one step: everything the queues and counters follow from, one value a tenant."""

    ns_per_instruction: list[float]
    service_s: list[float]  # of one request with a CPU to itself; 0 for jobs
    capacity: list[float]  # CPUs within reach if the tenant wanted all it can get
    used: list[list[float]]  # CPUs used, [tenant][area]
    latency_ns: list[float]
    sibling_busy: list[float]
    frequency_ghz: float


def checked_loads(node: Node, loads: Mapping[str, object]) -> list[float]:
    """Requests/s of every tenant (0 for jobs) from fractions of max load; NodeInputError says what is wrong."""
    services = {service.name: service for service in node.services}
    rates: dict[str, float] = {}
    for name, load in loads.items():
        if name not in services:
            known = ", ".join(services) or "none"
            raise NodeInputError(f"load of '{name}': no such LC service on this node, known are {known}")
        if isinstance(load, bool) or not isinstance(load, int | float) or not math.isfinite(load):
            raise NodeInputError(f"load of '{name}' is {load!r}, expected a number from 0 to {MAX_LOAD:g}")
        if not 0 <= load <= MAX_LOAD:
            raise NodeInputError(f"load of '{name}' is {load}, expected a fraction of max load from 0 to {MAX_LOAD:g}")
        rates[name] = load * services[name].max_load
    return [rates.get(name, 0.0) for name in node.names]


def check_grants(node: Node, grants: Sequence[Grant]) -> None:
    """NodeInputError for a tenant without CPUs or ways, or with some that don't exist."""
    platform = node.platform
    if len(grants) != len(node.tenants):
        raise NodeInputError(f"{len(grants)} grants for {len(node.tenants)} tenants, expected one for each")
    for name, grant in zip(node.names, grants, strict=True):
        if not grant.cpus:
            raise NodeInputError(f"'{name}' has zero cores, it needs at least one")
        if min(grant.cpus) < 0 or max(grant.cpus) >= platform.cpus:
            raise NodeInputError(f"'{name}' has CPU {max(grant.cpus)}, {platform.id} has CPUs 0-{platform.cpus - 1}")
        if not 0 < grant.way_mask < 1 << platform.ways:
            raise NodeInputError(f"'{name}' has way mask {grant.way_mask:x}, expected 1 to {platform.ways} ways")


def _switching(tenant: ServiceModel, cpus: int) -> float:
    """Slowdown by more threads than CPUs."""
    return 1.0 + tenant.switch_cost * max(0.0, math.log2(tenant.threads / cpus))


def _memory_asked(
    node: Node, grants: Sequence[Grant], point: _Point, wanted: Sequence[float], miss: Sequence[float]
) -> list[memory.Traffic]:
    """What every tenant asks of the memory, given the CPU time it uses."""
    usable = node.platform.bandwidth_gbps * node.platform.usable_bandwidth
    asked: list[memory.Traffic] = []
    for i, tenant in enumerate(node.tenants):
        m = tenant.memory
        misses = m.apki / 1000.0 * miss[i]
        stall = misses / m.mlp
        compute = point.ns_per_instruction[i] - stall * point.latency_ns[i]
        mba = grants[i].mba_percent
        cap = None if mba is None or mba >= 100 else usable * mba / 100.0
        busy = sum(point.used[i])
        rate = None
        if isinstance(tenant, ServiceModel):
            served = min(wanted[i], point.capacity[i] / point.service_s[i])
            rate = served * tenant.instructions * misses * m.bytes_per_miss / 1e9
            busy = point.capacity[i] if cap is not None else max(busy, 0.01)
        asked.append(memory.Traffic(busy, misses * m.bytes_per_miss, compute, stall, rate, cap))
    return asked


def _cpu_time(
    node: Node, areas: cpu.CpuMap, grants: Sequence[Grant], service_s: Sequence[float], wanted: Sequence[float]
) -> tuple[list[list[float]], list[float]]:
    """(CPUs used [tenant][area], CPUs within reach [tenant])."""
    most = [
        min(float(tenant.threads), areas.cpus_of(i), grants[i].cpu_quota or math.inf)
        for i, tenant in enumerate(node.tenants)
    ]
    demands = [
        min(wanted[i] * service_s[i], most[i]) if isinstance(tenant, ServiceModel) else most[i]
        for i, tenant in enumerate(node.tenants)
    ]
    weights = [grant.cpu_weight for grant in grants]
    used = cpu.fair_shares(areas, demands, weights)
    capacity = list(most)
    for i in range(len(node.services)):
        if areas.shared(i):
            greedy = [*demands[:i], most[i], *demands[i + 1 :]]
            capacity[i] = max(sum(cpu.fair_shares(areas, greedy, weights)[i]), 1e-3)
    return used, capacity


def _fixed_point(
    node: Node,
    areas: cpu.CpuMap,
    grants: Sequence[Grant],
    start: NodeState,
    wanted: Sequence[float],
    miss: Sequence[float],
) -> _Point:
    """Find CPU shares, memory latency and service times that agree with each other."""
    platform = node.platform
    latency, siblings = list(start.latency_ns), list(start.sibling_busy)
    switching = [
        _switching(tenant, areas.cpus_of(i)) if isinstance(tenant, ServiceModel) else 1.0
        for i, tenant in enumerate(node.tenants)
    ]
    clock = platform.frequency_ghz
    point: _Point | None = None
    for _ in range(_ROUNDS):
        ns: list[float] = []
        for i, tenant in enumerate(node.tenants):
            m = tenant.memory
            speed = 1.0 - (1.0 - platform.smt_speed) * siblings[i]
            stalled = m.apki / 1000.0 * miss[i] * latency[i] / m.mlp
            ns.append((m.cpi / (clock * speed) + stalled) * switching[i])
        service = [t.instructions * ns[i] * 1e-9 if isinstance(t, ServiceModel) else 0.0
                   for i, t in enumerate(node.tenants)]  # fmt: skip
        used, capacity = _cpu_time(node, areas, grants, service, wanted)
        point = _Point(ns, service, capacity, used, latency, siblings, clock)
        seen = memory.settle(platform, _memory_asked(node, grants, point, wanted, miss))
        beside = cpu.sibling_busy(areas, used)
        new_clock = cpu.frequency_ghz(platform, sum(sum(row) for row in used))
        moved = max(
            abs(new_clock / clock - 1.0),
            *(abs(a / b - 1.0) for a, b in zip(seen, latency, strict=True)),
            *(abs(a - b) for a, b in zip(beside, siblings, strict=True)),
        )
        if moved < _TOLERANCE:
            break
        latency = [math.sqrt(a * b) for a, b in zip(seen, latency, strict=True)]
        siblings = [(a + b) / 2.0 for a, b in zip(beside, siblings, strict=True)]
        clock = (clock + new_clock) / 2.0
    assert point is not None  # noqa: S101 - _ROUNDS is not 0
    return point


def _response(
    node: Node, areas: cpu.CpuMap, grants: Sequence[Grant], point: _Point, tenant: int, arrivals: float
) -> queueing.Response:
    """Stationary response time of one service: queue, time slices of others, and the service itself."""
    service = node.services[tenant]
    grant = grants[tenant]
    service_ms = point.service_s[tenant] * 1000.0
    capacity = point.capacity[tenant]
    servers = max(1, math.ceil(capacity - 1e-6))
    probability, wait = queueing.queue_response(
        service_ms * servers / capacity, service.cv2, service.burstiness, arrivals, servers
    )
    if grant.cpu_quota is not None and grant.cpu_quota < areas.cpus_of(tenant):
        service_ms *= max(1.0, servers / capacity)  # throttled: the CPUs stand still for the rest of each period
    if not areas.shared(tenant):
        return queueing.Response(service_ms, service.cv2, probability, wait)
    runnable = [
        sum(point.used[i]) if i < len(node.services) else float(node.jobs[i - len(node.services)].threads)
        for i in range(len(node.tenants))
    ]
    crowd = cpu.crowding(areas, point.used, runnable, tenant)
    others = [grants[i].cpu_weight for i in range(len(grants)) if i != tenant]
    slice_ms = node.platform.time_slice_ms * min(4.0, sum(others) / len(others) / grant.cpu_weight)
    # A request longer than a slice is put aside for its competitors again and again.
    service_ms *= 1.0 + crowd.probability * crowd.competitors * math.exp(-slice_ms / service_ms)
    delay = slice_ms * max(crowd.competitors, 0.1)
    return queueing.Response(service_ms, service.cv2, probability, wait, crowd.probability, delay)


def _queues(
    node: Node, areas: cpu.CpuMap, grants: Sequence[Grant], point: _Point, state: NodeState,
    arrivals: Sequence[float], dt: float, tenant: int,
) -> tuple[float, float, float, FloatArray]:  # fmt: skip
    """(completed requests, backlog after the step, mean ms, quantiles ms) of one service.

    Beyond saturation the queue is a fluid: it grows by what is too much and must drain later, and everybody who
    arrives waits for all that is before him.
    """
    service = node.services[tenant]
    rate = point.capacity[tenant] / point.service_s[tenant]
    before = state.backlog[tenant]
    after = max(0.0, before + (arrivals[tenant] - rate) * dt)
    room = service.queue_limit_s * service.max_load
    completed = before + arrivals[tenant] * dt - after
    after = min(after, room)
    response = _response(node, areas, grants, point, tenant, min(arrivals[tenant], rate))
    waits = sorted((before / rate * 1000.0, after / rate * 1000.0))
    spectrum = queueing.quantiles(response) + waits[0] + (waits[1] - waits[0]) * queueing.LEVELS
    return completed, after, response.mean_ms + sum(waits) / 2.0, spectrum


def advance(
    node: Node, state: NodeState, grants: Sequence[Grant], loads: Mapping[str, float], dt: float
) -> tuple[NodeState, list[Flow]]:
    """Let `dt` seconds pass. Loads are fractions of max load; a service that isn't named has none.

    Returns the new state and what each tenant did, without noise. Raises NodeInputError on impossible input.
    """
    if not (math.isfinite(dt) and dt > 0):
        raise NodeInputError(f"dt is {dt}, expected a number of seconds above 0")
    check_grants(node, grants)
    platform, n = node.platform, len(node.tenants)
    arrivals = checked_loads(node, loads)
    wanted = [arrivals[i] + state.backlog[i] / dt for i in range(n)]
    held = state.occupancy_mib.sum(axis=1)
    miss = [cache.miss_ratio(node.memory_of(i), float(held[i])) for i in range(n)]
    areas = cpu.cpu_map([grant.cpus for grant in grants], platform)
    point = _fixed_point(node, areas, grants, state, wanted, miss)

    flows: list[Flow] = []
    backlog = [0.0] * n
    for i, tenant in enumerate(node.tenants):
        busy = sum(point.used[i])
        completed, mean, spectrum, service_ms = 0.0, None, None, None
        utilisation = 1.0
        if isinstance(tenant, ServiceModel):
            completed, backlog[i], mean, spectrum = _queues(node, areas, grants, point, state, arrivals, dt, i)
            busy = completed * point.service_s[i] / dt
            instructions = completed * tenant.instructions
            service_ms = point.service_s[i] * 1000.0
            utilisation = arrivals[i] * point.service_s[i] / point.capacity[i]
            if completed <= 0:
                mean, spectrum = None, None
        else:
            instructions = busy * dt * 1e9 / point.ns_per_instruction[i]
        m = tenant.memory
        accesses = instructions * m.apki / 1000.0
        quota = grants[i].cpu_quota
        throttled = dt if quota is not None and busy >= quota * 0.99 else 0.0
        flows.append(Flow(
            dt, completed, mean, spectrum, busy * dt, instructions, busy * dt * point.frequency_ghz * 1e9, accesses,
            accesses * miss[i], accesses * miss[i] * m.bytes_per_miss, float(held[i]), point.frequency_ghz, throttled,
            utilisation, service_ms,
        ))  # fmt: skip
    occupancy = _next_occupancy(node, state, grants, flows, dt)
    new = NodeState(state.time_s + dt, occupancy, tuple(backlog), tuple(point.latency_ns), tuple(point.sibling_busy))
    return new, flows


def _next_occupancy(
    node: Node, state: NodeState, grants: Sequence[Grant], flows: Sequence[Flow], dt: float
) -> FloatArray:
    """The cache after the step."""
    platform = node.platform
    masks = np.stack([cache.mask_bits(grant.way_mask, platform.ways) for grant in grants])  # (tenants, ways)
    # What a tenant would insert with an empty cache keeps a small one from being starved by its own success.
    insertions = np.array([(f.llc_misses + 0.02 * f.llc_accesses) / dt for f in flows])
    footprints = np.array([node.memory_of(i).footprint_mib for i in range(len(flows))])
    target = cache.target_occupancy(masks, insertions, footprints, platform.way_mib)
    fill = (insertions / np.maximum(masks.sum(axis=1), 1.0)) @ masks * 64.0 / 2**20  # (ways,) MiB/s
    return cache.warmed(state.occupancy_mib, target, fill, platform.way_mib, platform.warmup_s, dt)
