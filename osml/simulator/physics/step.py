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
    F_BACKLOG_SHARE,
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
    G_PERIOD_MS,
    G_QUOTA,
    G_SLICE_MS,
    G_WEIGHT,
    P_CORES,
    P_CPU_GROUPS,
    P_EEVDF,
    P_SMT_SPEED,
    P_WARMUP_S,
    P_WAY_MIB,
    P_WAYS,
    S_BACKLOG,
    S_CLOCK,
    S_PRESSURE,
    S_QUEUED,
    S_SCORE,
    S_SHOCK,
    T_APKI,
    T_BURSTINESS,
    T_BYTES,
    T_CV2,
    T_ELSEWHERE,
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
from osml.simulator.physics.cpu import map_cpus, share_cpus
from osml.simulator.physics.fixed_point import (
    X_APART,
    X_CAPACITY,
    X_FOOTPRINT,
    X_HELD,
    X_INSERTED,
    X_MISS,
    X_NS,
    X_PRIORITY,
    X_RATE,
    X_RUNNABLE,
    X_SEEN,
    X_SERVICE_S,
    X_STALLED,
    X_USED,
    X_WANTED,
    Work,
    solve,
)
from osml.simulator.physics.stations import (
    V_ALL_MS,
    V_DELAY_MS,
    V_DELAY_PROBABILITY,
    V_IOS,
    V_LIMIT,
    V_RESIDENT,
    V_RUNNING,
    visit,
)
from osml.simulator.physics.waking import crowding, throttled, time_sharing
from osml.simulator.queueing import (
    MAX_UTILISATION,
    behind_backlog,
    build_up,
    chance_factor,
    common_share,
    look_up_slow,
    percentiles,
    queue_response,
    ramp,
    relaxation_s,
    spread_between,
    together,
)

_SHORT, _LONG, _RARE = 0.03, 0.2, 2e-3
"""A delay of at most the first share of the service time is taken as a fixed part of it, from the second share on as
random: that of many short waits hardly varies. One that is rarer than the third does not show in a p99."""


_REFILL_PART_S, _LONGEST_FOLLOWED_S = 0.25, 10.0
"""How finely the cache follows a step, and up to what length: in a longer one it only goes towards its end."""


@lean
def _delay(flows: FloatArray, i: int, probability: float, wait_ms: float, service_ms: float) -> None:
    """Add a delay that is 0 or exponential: what is short or rare to the service time, the rest to the other delays."""
    if probability <= 0.0 or wait_ms <= 0.0:
        return
    random = min(max((wait_ms / service_ms - _SHORT) / (_LONG - _SHORT), 0.0), 1.0)
    random *= min(probability / _RARE, 1.0)
    everybody, flows[i, F_DELAY_PROBABILITY], flows[i, F_DELAY_MS] = together(
        flows[i, F_DELAY_PROBABILITY], flows[i, F_DELAY_MS], probability * random, wait_ms
    )
    flows[i, F_SERVICE_MS] += everybody + (1.0 - random) * probability * wait_ms


@lean
def _crowd(
    platform: FloatArray, tenants: FloatArray, grants: FloatArray, work: Work, flows: FloatArray, i: int
) -> None:
    """Add what the time slices of others do to a request to `flows`."""
    x, n = work.points, len(tenants)
    service_ms = x[X_SERVICE_S, i] * 1000.0
    others, company = 0.0, 0
    for j in range(n):
        x[X_RUNNABLE, j] = x[X_USED, j]
        if tenants[j, T_LC] == 0.0:
            x[X_RUNNABLE, j] = tenants[j, T_THREADS] * work.visits[V_RUNNING, j]
        if j != i and share_cpus(work.areas, i, j):
            others += grants[j, G_WEIGHT]
            company += 1
    mean = others / max(company, 1)
    heavier = min(4.0, mean / grants[i, G_WEIGHT])  # what the others weigh beside it
    slice_ms = grants[i, G_SLICE_MS] * heavier
    # CFS compares with what a thread weighs by default, EEVDF with those who compete.
    weight = grants[i, G_WEIGHT] / (mean if platform[P_EEVDF] > 0.0 and company > 0 else 100.0)
    probability, wait, crowded, competitors, turn = crowding(
        work.areas, work.used, x[X_RUNNABLE], x[X_SERVICE_S], x[X_PRIORITY], i, tenants[i, T_THREADS], slice_ms,
        weight, platform[P_CPU_GROUPS] > 0.0, platform[P_EEVDF] > 0.0,
    )  # fmt: skip
    if crowded <= 0.0:
        return
    # A request longer than a slice is put aside for its competitors again and again.
    flows[i, F_SERVICE_MS] += service_ms * crowded * competitors * heavier * math.exp(-turn / competitors / service_ms)
    _delay(flows, i, probability, wait, service_ms)


@lean
def _arrive(
    tenants: FloatArray, grants: FloatArray, state: FloatArray, arrivals: float, dt: float, work: Work,
    flows: FloatArray, i: int,
) -> None:  # fmt: skip
    """Queue of one service in front of its CPUs: completions, backlog, and how long requests wait.

    Beyond saturation the queue is a fluid: it grows by what is too much and must drain later, and everybody who
    arrives waits for all that is before him. What chance adds builds up from step to step.
    """
    x = work.points
    capacity, quota, period_ms = x[X_CAPACITY, i] * tenants[i, T_USABLE], grants[i, G_QUOTA], grants[i, G_PERIOD_MS]
    rate = min(capacity / x[X_SERVICE_S, i], work.visits[V_LIMIT, i])
    service_ms, threads = x[X_SERVICE_S, i] * 1000.0, tenants[i, T_THREADS]
    within = x[X_CAPACITY, i]  # a quota does not stop threads from running side by side
    limited = quota < min(threads, work.areas.cpus_of[i])
    if limited:
        within = min(threads, work.areas.cpus_of[i])
    pooled = 1.0 + tenants[i, T_ELSEWHERE]  # idle threads in other domains of the socket take requests of this one
    servers = max(1, math.ceil(within * pooled - 1e-6))
    shown_ms = service_ms * servers / (within * pooled * tenants[i, T_USABLE])
    reaching = min(arrivals, work.visits[V_LIMIT, i]) * pooled
    probability, wait_ms = queue_response(shown_ms, tenants[i, T_CV2], tenants[i, T_BURSTINESS], reaching, servers)

    stationary = probability * wait_ms * min(arrivals, rate) / 1000.0
    before = state[i, S_BACKLOG]
    queued, fluid = min(state[i, S_QUEUED], stationary), max(0.0, before + (arrivals - rate) * dt)
    after = min(fluid, tenants[i, T_QUEUE_LIMIT])
    gap = max(abs(1.0 - arrivals / rate), 1.0 - MAX_UTILISATION)
    variability = tenants[i, T_CV2] + tenants[i, T_BURSTINESS]
    memory_s = relaxation_s(shown_ms / 1000.0, variability, servers, gap)
    share, end = build_up(queued / stationary if stationary > 0.0 else 1.0, dt / memory_s)
    joined = min(stationary * end - queued, 0.5 * (before + arrivals * dt - fluid))
    flows[i, F_COMPLETED] = before + arrivals * dt - fluid - joined
    # Where the load has fallen, or capacity grown, the queue is longer than it stays: from now on that is a backlog.
    state[i, S_BACKLOG] = after + state[i, S_QUEUED] - queued
    state[i, S_QUEUED] = queued + joined
    flows[i, F_UTILISATION] = arrivals / rate

    chance, level = 1.0, 0.0
    if not math.isnan(state[i, S_SHOCK]):
        kept = math.exp(-dt / memory_s)
        state[i, S_SCORE] = kept * state[i, S_SCORE] + math.sqrt(1.0 - kept * kept) * state[i, S_SHOCK]
        spread = spread_between(dt / memory_s)
        chance = chance_factor(spread, state[i, S_SCORE])
        level = common_share(spread)
    wait_ms = behind_backlog(wait_ms, min(before, after) / rate * 1000.0) * share * chance
    turns, aside, aside_ms = 0.0, 0.0, 0.0
    if threads > work.areas.cpus_of[i]:  # what others use of the CPUs does not stop threads from running side by side
        turns, aside, aside_ms = time_sharing(within, threads, arrivals / rate, service_ms, tenants[i, T_CV2])
    flows[i, F_SERVICE_MS] = service_ms
    _delay(flows, i, aside, aside_ms * share * chance, service_ms)
    if limited:
        stop, stop_ms = throttled(quota, period_ms, arrivals / rate, service_ms, tenants[i, T_CV2], threads)
        _delay(flows, i, stop, stop_ms * share * chance, service_ms)
    flows[i, F_WAIT_PROBABILITY], flows[i, F_WAIT_MS] = probability * (1.0 - turns), wait_ms * (1.0 - level)
    all_wait = probability * wait_ms * level
    flows[i, F_BACKLOG_MS_BEFORE] = before / rate * 1000.0 + all_wait
    flows[i, F_BACKLOG_MS_AFTER] = after / rate * 1000.0 + all_wait
    flows[i, F_BACKLOG_SHARE] = 1.0
    if after <= 0.0 and before > 0.0:  # drained before the step ends
        flows[i, F_BACKLOG_SHARE] = min(1.0, before / (rate - arrivals) / dt)


@lean
def _respond(
    platform: FloatArray, tenants: FloatArray, tables: FloatArray, grants: FloatArray, state: FloatArray, work: Work,
    flows: FloatArray, i: int,
) -> None:  # fmt: skip
    """The distribution of the response time of one service."""
    x = work.points
    service_ms = x[X_SERVICE_S, i] * 1000.0
    slowed = (1.0 / platform[P_SMT_SPEED] - 1.0) * state[i, S_PRESSURE] * (1.0 - x[X_STALLED, i])
    slow50, slow95, slow99 = look_up_slow(tables[int(tenants[i, T_TABLE])], x[X_APART, i], 1.0 + slowed)
    if work.areas.shared[i] > 0:
        _crowd(platform, tenants, grants, work, flows, i)
    _delay(flows, i, 1.0, work.visits[V_ALL_MS, i], service_ms)
    _delay(flows, i, work.visits[V_DELAY_PROBABILITY, i], work.visits[V_DELAY_MS, i], service_ms)
    if flows[i, F_COMPLETED] <= 0.0:
        flows[i, F_MEAN_MS] = flows[i, F_P50_MS] = flows[i, F_P95_MS] = flows[i, F_P99_MS] = math.nan
        return
    mean, p50, p95, p99 = percentiles(
        tables[int(tenants[i, T_TABLE])], flows[i, F_SERVICE_MS], tenants[i, T_CV2], flows[i, F_WAIT_PROBABILITY],
        flows[i, F_WAIT_MS], flows[i, F_DELAY_PROBABILITY], flows[i, F_DELAY_MS],
    )  # fmt: skip
    before, after, share = flows[i, F_BACKLOG_MS_BEFORE], flows[i, F_BACKLOG_MS_AFTER], flows[i, F_BACKLOG_SHARE]
    first, last = min(before, after), max(before, after)
    flows[i, F_MEAN_MS] = mean + first + 0.5 * (last - first) * share
    flows[i, F_P50_MS] = max(p50 + slow50 * service_ms, 0.5 * p50) + ramp(0.50, first, last, share)
    flows[i, F_P95_MS] = p95 + slow95 * service_ms + ramp(0.95, first, last, share)
    flows[i, F_P99_MS] = p99 + slow99 * service_ms + ramp(0.99, first, last, share)


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
    flows[i, F_THROTTLED_S] = dt if busy >= grants[i, G_QUOTA] * tenants[i, T_USABLE] * 0.99 else 0.0
    flows[i, F_DISK_IOS] = flows[i, F_COMPLETED] * work.visits[V_IOS, i]
    flows[i, F_NETWORK_BYTES] = flows[i, F_COMPLETED] * tenants[i, T_NETWORK_KIB] * 1024.0
    flows[i, F_RESIDENT_MIB] = tenants[i, T_FOOTPRINT] * work.visits[V_RESIDENT, i]


@lean
def _refill(
    platform: FloatArray, tenants: FloatArray, masks: IntArray, occupancy: FloatArray, dt: float, work: Work,
    flows: FloatArray,
) -> None:  # fmt: skip
    """The cache after the step.

    Who holds more of a shared way inserts less into it, so what all end up with changes as they move there. A long
    step is therefore followed in parts; in one, the cache would swing from step to step about where it has to settle.
    """
    x, ways, way_mib = work.points, int(platform[P_WAYS]), platform[P_WAY_MIB]
    sharers = 0
    for i in range(len(tenants)):
        width = 0
        for way in range(ways):
            width += masks[i] >> way & 1
        for j in range(len(tenants)):
            if j != i and masks[i] & masks[j] != 0:
                sharers |= 1 << i
        x[X_INSERTED, i] = (flows[i, F_LLC_ACCESSES] / dt + 1e-9) / width
        x[X_SEEN, i] = flows[i, F_LLC_MISSES] / dt / width * 64.0 / 2**20
        x[X_FOOTPRINT, i] = tenants[i, T_FOOTPRINT]
    parts = max(1, math.ceil(dt / _REFILL_PART_S)) if sharers and dt <= _LONGEST_FOLLOWED_S else 1
    for part in range(parts):
        for i in range(len(tenants)):
            x[X_RATE, i] = x[X_INSERTED, i]
            if sharers >> i & 1:
                held = x[X_HELD, i]
                if part > 0:
                    held = 0.0
                    for way in range(ways):
                        held += occupancy[i, way]
                row = tenants[i]
                x[X_RATE, i] *= insertion_ratio(row[T_MISS_MIN], row[T_WORKING_SET], row[T_STEEPNESS], held)
        target_occupancy(masks, x[X_RATE], x[X_FOOTPRINT], ways, way_mib, work.share)
        warm(occupancy, work.share, masks, x[X_SEEN], ways, way_mib, platform[P_WARMUP_S], dt / parts)


@lean
def begin(
    platform: FloatArray, tenants: FloatArray, users: IntArray, arrivals: FloatArray, dt: float, state: FloatArray,
    occupancy: FloatArray, work: Work,
) -> None:  # fmt: skip
    """What is known before anybody runs: areas, misses, requests/s wanted."""
    x, ways = work.points, int(platform[P_WAYS])
    map_cpus(work.areas, users, int(platform[P_CORES]))
    for i in range(len(tenants)):
        held = 0.0
        for way in range(ways):
            held += occupancy[i, way]
        held = min(held, tenants[i, T_FOOTPRINT])  # lines that it left behind are copies of those that it has
        x[X_HELD, i] = held
        x[X_MISS, i] = miss_ratio(tenants[i, T_MISS_MIN], tenants[i, T_WORKING_SET], tenants[i, T_STEEPNESS], held)
        x[X_WANTED, i] = arrivals[i] + state[i, S_BACKLOG] / dt


@lean
def finish(
    platform: FloatArray, tenants: FloatArray, tables: FloatArray, grants: FloatArray, masks: IntArray,
    arrivals: FloatArray, dt: float, state: FloatArray, occupancy: FloatArray, flows: FloatArray, work: Work,
) -> None:  # fmt: skip
    """Queues, counters and the cache, once CPU shares and latencies agree."""
    for i in range(len(tenants)):
        flows[i, :] = 0.0
        if tenants[i, T_LC] > 0.0:
            _arrive(tenants, grants, state, arrivals[i], dt, work, flows, i)
            _respond(platform, tenants, tables, grants, state, work, flows, i)
        _count(platform, tenants, grants, state, dt, work, flows, i)
    _refill(platform, tenants, masks, occupancy, dt, work, flows)


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
    x = work.points
    begin(platform, tenants, users, arrivals, dt, state, occupancy, work)
    visit(platform, tenants, grants, arrivals, x[X_WANTED], work.visits)
    for i in range(len(tenants)):
        x[X_WANTED, i] = min(x[X_WANTED, i], work.visits[V_LIMIT, i])
    rounds = solve(platform, tenants, grants, state, work)
    finish(platform, tenants, tables, grants, masks, arrivals, dt, state, occupancy, flows, work)
    return rounds
