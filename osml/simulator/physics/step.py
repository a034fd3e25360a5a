"""One step of the virtual node, compiled: state, grants and arrivals in, new state and flows out.

The chain of cause and effect: grants -> CPU shares and cache -> memory latency -> service times -> CPU shares again (a
fixed point), then queues and counters.
"""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.simulator.columns import (
    F_BACKLOG_MS_AFTER,
    F_BACKLOG_MS_BEFORE,
    F_CLOCK,
    F_COMPLETED,
    F_CPU_S,
    F_CYCLES,
    F_DELAY_MS,
    F_DELAY_PROBABILITY,
    F_DISK_IOS,
    F_INSTRUCTIONS,
    F_LLC_ACCESSES,
    F_LLC_MISSES,
    F_MEAN_MS,
    F_MEMORY_BYTES,
    F_NETWORK_BYTES,
    F_OCCUPANCY_MIB,
    F_P50_MS,
    F_P95_MS,
    F_P99_MS,
    F_RESIDENT_MIB,
    F_SERVICE_MS,
    F_THROTTLED_S,
    F_UTILISATION,
    F_WAIT_MS,
    F_WAIT_PROBABILITY,
    G_CLOCK,
    G_QUOTA,
    G_SLICE_MS,
    G_WEIGHT,
    P_CORES,
    P_CPU_GROUPS,
    P_WARMUP_S,
    P_WAY_MIB,
    P_WAYS,
    S_BACKLOG,
    S_CLOCK,
    T_APKI,
    T_BURSTINESS,
    T_BYTES,
    T_CV2,
    T_FOOTPRINT,
    T_INSTRUCTIONS,
    T_LC,
    T_MISS_MIN,
    T_NETWORK_KIB,
    T_QUEUE_LIMIT,
    T_STEEPNESS,
    T_TABLE,
    T_THREADS,
    T_USABLE,
    T_WORKING_SET,
    FloatArray,
    IntArray,
)
from osml.simulator.physics.cache import insertion_ratio, miss_ratio, target_occupancy, warm
from osml.simulator.physics.cpu import crowding, map_cpus
from osml.simulator.physics.fixed_point import (
    X_CAPACITY,
    X_FOOTPRINT,
    X_HELD,
    X_MISS,
    X_NS,
    X_PRIORITY,
    X_RATE,
    X_RUNNABLE,
    X_SEEN,
    X_SERVICE_S,
    X_USED,
    X_WANTED,
    Work,
    solve,
)
from osml.simulator.physics.stations import (
    V_DELAY_MS,
    V_DELAY_PROBABILITY,
    V_IOS,
    V_LIMIT,
    V_RESIDENT,
    V_RUNNING,
    visit,
)
from osml.simulator.queueing import behind_backlog, percentiles, queue_response

_NEGLIGIBLE = 0.1
"""A delay of at most this share of the service time is taken as a fixed part of it."""


@lean
def _crowd(
    platform: FloatArray, tenants: FloatArray, grants: FloatArray, work: Work, flows: FloatArray, i: int
) -> float:
    """Add what the time slices of others do to a request to `flows`; returns its service time in ms with them."""
    x, n = work.points, len(tenants)
    service_ms = flows[i, F_SERVICE_MS]
    others = 0.0
    for j in range(n):
        x[X_RUNNABLE, j] = x[X_USED, j]
        if tenants[j, T_LC] == 0.0:
            x[X_RUNNABLE, j] = tenants[j, T_THREADS] * work.visits[V_RUNNING, j]
        others += grants[j, G_WEIGHT] if j != i else 0.0
    weight = grants[i, G_WEIGHT]
    slice_ms = grants[i, G_SLICE_MS] * min(4.0, others / max(n - 1, 1) / weight)
    probability, wait, crowded, competitors, turn = crowding(
        work.areas, work.used, x[X_RUNNABLE], x[X_SERVICE_S], x[X_PRIORITY], i, tenants[i, T_THREADS], slice_ms,
        weight / 100.0, platform[P_CPU_GROUPS] > 0.0,
    )  # fmt: skip
    if crowded <= 0.0:
        return service_ms
    # A request longer than a slice is put aside for its competitors again and again.
    service_ms *= 1.0 + crowded * competitors * math.exp(-turn / competitors / service_ms)
    if probability <= 0.0:
        return service_ms
    mean = flows[i, F_DELAY_PROBABILITY] * flows[i, F_DELAY_MS] + probability * wait
    flows[i, F_DELAY_PROBABILITY] += (1.0 - flows[i, F_DELAY_PROBABILITY]) * probability
    flows[i, F_DELAY_MS] = mean / flows[i, F_DELAY_PROBABILITY]
    return service_ms


@lean
def _respond(
    platform: FloatArray, tenants: FloatArray, tables: FloatArray, grants: FloatArray, state: FloatArray,
    arrivals: float, dt: float, work: Work, flows: FloatArray, i: int,
) -> None:  # fmt: skip
    """Queue of one service: completions, backlog and the distribution of its response time.

    Beyond saturation the queue is a fluid: it grows by what is too much and must drain later, and everybody who
    arrives waits for all that is before him.
    """
    x = work.points
    capacity = x[X_CAPACITY, i] * tenants[i, T_USABLE]
    flows[i, F_SERVICE_MS] = x[X_SERVICE_S, i] * 1000.0
    by_cpu = capacity / x[X_SERVICE_S, i]
    rate = min(by_cpu, work.visits[V_LIMIT, i])
    before = state[i, S_BACKLOG]
    after = max(0.0, before + (arrivals - rate) * dt)
    completed = before + arrivals * dt - after
    state[i, S_BACKLOG] = after = min(after, tenants[i, T_QUEUE_LIMIT])
    flows[i, F_COMPLETED] = completed
    flows[i, F_UTILISATION] = arrivals / rate
    flows[i, F_BACKLOG_MS_BEFORE], flows[i, F_BACKLOG_MS_AFTER] = before / rate * 1000.0, after / rate * 1000.0

    servers = max(1, math.ceil(x[X_CAPACITY, i] - 1e-6))
    shown_ms = flows[i, F_SERVICE_MS] * servers / capacity
    reaching = min(arrivals, work.visits[V_LIMIT, i])
    wait = queue_response(shown_ms, tenants[i, T_CV2], tenants[i, T_BURSTINESS], reaching, servers)
    flows[i, F_WAIT_PROBABILITY] = wait[0]
    first, last = min(before, after) / rate * 1000.0, max(before, after) / rate * 1000.0
    flows[i, F_WAIT_MS] = behind_backlog(wait[1], first)
    flows[i, F_DELAY_PROBABILITY] = work.visits[V_DELAY_PROBABILITY, i]
    flows[i, F_DELAY_MS] = work.visits[V_DELAY_MS, i]
    service_ms = flows[i, F_SERVICE_MS]
    if grants[i, G_QUOTA] < work.areas.cpus_of[i]:
        # Throttled: the CPUs stand still for the rest of each period.
        flows[i, F_SERVICE_MS] = service_ms = service_ms * max(1.0, servers / x[X_CAPACITY, i])
    if work.areas.shared[i] > 0:
        flows[i, F_SERVICE_MS] = _crowd(platform, tenants, grants, work, flows, i)
    delay = flows[i, F_DELAY_PROBABILITY] * flows[i, F_DELAY_MS]
    if delay < _NEGLIGIBLE * flows[i, F_SERVICE_MS]:
        flows[i, F_SERVICE_MS] += delay
        flows[i, F_DELAY_PROBABILITY] = 0.0
    if completed <= 0.0:
        flows[i, F_MEAN_MS] = flows[i, F_P50_MS] = flows[i, F_P95_MS] = flows[i, F_P99_MS] = math.nan
        return
    mean, p50, p95, p99 = percentiles(
        tables[int(tenants[i, T_TABLE])], flows[i, F_SERVICE_MS], tenants[i, T_CV2], flows[i, F_WAIT_PROBABILITY],
        flows[i, F_WAIT_MS], flows[i, F_DELAY_PROBABILITY], flows[i, F_DELAY_MS],
    )  # fmt: skip
    flows[i, F_MEAN_MS] = mean + (first + last) / 2.0
    flows[i, F_P50_MS] = p50 + first + 0.50 * (last - first)
    flows[i, F_P95_MS] = p95 + first + 0.95 * (last - first)
    flows[i, F_P99_MS] = p99 + first + 0.99 * (last - first)


@lean
def _count(
    platform: FloatArray, tenants: FloatArray, grants: FloatArray, state: FloatArray, dt: float, work: Work,
    flows: FloatArray, i: int,
) -> None:  # fmt: skip
    """The counters of one tenant."""
    x = work.points
    clock = min(state[i, S_CLOCK], grants[i, G_CLOCK])
    if tenants[i, T_LC] > 0.0:
        busy = flows[i, F_COMPLETED] * x[X_SERVICE_S, i] / dt
        instructions = flows[i, F_COMPLETED] * tenants[i, T_INSTRUCTIONS]
    else:
        busy = x[X_USED, i]
        instructions = busy * dt * 1e9 / x[X_NS, i]
        flows[i, F_UTILISATION] = 1.0
        flows[i, F_MEAN_MS] = flows[i, F_P50_MS] = flows[i, F_P95_MS] = flows[i, F_P99_MS] = math.nan
    accesses = instructions * tenants[i, T_APKI] / 1000.0
    flows[i, F_CPU_S] = busy * dt
    flows[i, F_INSTRUCTIONS] = instructions
    flows[i, F_CYCLES] = busy * dt * clock * 1e9
    flows[i, F_LLC_ACCESSES] = accesses
    flows[i, F_LLC_MISSES] = accesses * x[X_MISS, i]
    flows[i, F_MEMORY_BYTES] = flows[i, F_LLC_MISSES] * tenants[i, T_BYTES]
    flows[i, F_OCCUPANCY_MIB] = x[X_HELD, i]
    flows[i, F_CLOCK] = clock
    flows[i, F_THROTTLED_S] = dt if busy >= grants[i, G_QUOTA] * 0.99 else 0.0
    flows[i, F_DISK_IOS] = flows[i, F_COMPLETED] * work.visits[V_IOS, i]
    flows[i, F_NETWORK_BYTES] = flows[i, F_COMPLETED] * tenants[i, T_NETWORK_KIB] * 1024.0
    flows[i, F_RESIDENT_MIB] = tenants[i, T_FOOTPRINT] * work.visits[V_RESIDENT, i]


@lean
def _refill(
    platform: FloatArray, tenants: FloatArray, masks: IntArray, occupancy: FloatArray, dt: float, work: Work,
    flows: FloatArray,
) -> None:  # fmt: skip
    """The cache after the step."""
    x, ways, way_mib = work.points, int(platform[P_WAYS]), platform[P_WAY_MIB]
    for i in range(len(tenants)):
        width, shared = 0, False
        for way in range(ways):
            width += masks[i] >> way & 1
        for j in range(len(tenants)):
            shared = shared or (j != i and masks[i] & masks[j] != 0)
        ratio = 1.0
        if shared:
            row = tenants[i]
            ratio = insertion_ratio(row[T_MISS_MIN], row[T_WORKING_SET], row[T_STEEPNESS], x[X_HELD, i])
        x[X_RATE, i] = (flows[i, F_LLC_ACCESSES] * ratio / dt + 1e-9) / width
        x[X_SEEN, i] = flows[i, F_LLC_MISSES] / dt / width * 64.0 / 2**20
        x[X_FOOTPRINT, i] = tenants[i, T_FOOTPRINT]
    target_occupancy(masks, x[X_RATE], x[X_FOOTPRINT], ways, way_mib, work.share)
    warm(occupancy, work.share, masks, x[X_SEEN], ways, way_mib, platform[P_WARMUP_S], dt)


@lean
def step_node(
    platform: FloatArray, tenants: FloatArray, tables: FloatArray, grants: FloatArray, users: IntArray,
    masks: IntArray, arrivals: FloatArray, dt: float, state: FloatArray, occupancy: FloatArray, flows: FloatArray,
    work: Work,
) -> int:  # fmt: skip
    """Let `dt` seconds pass on one node; `state` and `occupancy` (tenants, ways) move on, `flows` are filled.

    `tables` are percentile tables (queueing.tables), by T_TABLE; `users[cpu]` are the tenants that may run on a CPU,
    as bits; `masks` their ways, as bits; `arrivals` requests/s. Returns the rounds of the fixed point.
    """
    x, n, ways = work.points, len(tenants), int(platform[P_WAYS])
    map_cpus(work.areas, users, int(platform[P_CORES]))
    for i in range(n):
        held = 0.0
        for way in range(ways):
            held += occupancy[i, way]
        x[X_HELD, i] = held
        x[X_MISS, i] = miss_ratio(tenants[i, T_MISS_MIN], tenants[i, T_WORKING_SET], tenants[i, T_STEEPNESS], held)
        x[X_WANTED, i] = arrivals[i] + state[i, S_BACKLOG] / dt
    visit(platform, tenants, grants, arrivals, x[X_WANTED], work.visits)
    for i in range(n):
        x[X_WANTED, i] = min(x[X_WANTED, i], work.visits[V_LIMIT, i])
    rounds = solve(platform, tenants, grants, state, work)
    for i in range(n):
        flows[i, :] = 0.0
        if tenants[i, T_LC] > 0.0:
            _respond(platform, tenants, tables, grants, state, arrivals[i], dt, work, flows, i)
        _count(platform, tenants, grants, state, dt, work, flows, i)
    _refill(platform, tenants, masks, occupancy, dt, work, flows)
    return rounds
