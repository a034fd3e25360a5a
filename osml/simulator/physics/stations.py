"""What a request waits for outside of the CPU: its serial part, pages that are not resident, the disk, the network."""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.simulator.columns import (
    G_DISK_IOPS,
    G_MEMORY_MIB,
    G_NETWORK_GBPS,
    P_CLOCK,
    P_DISK_IOPS,
    P_DISK_MBPS,
    P_LATENCY,
    P_MEMORY_MIB,
    P_NETWORK_GBPS,
    T_APKI,
    T_BYTES,
    T_CPI,
    T_DISK_IOS,
    T_DISK_MBPS,
    T_ELSEWHERE,
    T_FLOWS,
    T_FOOTPRINT,
    T_LC,
    T_MISS_MIN,
    T_MLP,
    T_NETWORK_GBPS,
    T_NETWORK_KIB,
    T_PAGES,
    T_SERIAL_MS,
    T_STACK_MS,
    T_THREADS,
    FloatArray,
)
from osml.simulator.physics.memory import fair_split
from osml.simulator.physics.residency import reclaim

_FULL = 0.985
"""Above this utilisation a station's queue is the backlog of whoever waits for it."""

_DISK_SLICE_MS = 100.0
"""For so long the disk's scheduler lets a sequential reader go on before others have their turn (CFQ: slice_sync)."""

_GBIT_PER_KIB = 8 * 1024 / 1e9

# Rows of the table that visit() fills, one column a tenant: what each request does and waits for.
(
    V_RESIDENT, V_MISSED, V_RUNNING, V_IOS, V_LIMIT, V_ALL_MS, V_DELAY_PROBABILITY, V_DELAY_MS, V_DEMAND,
    V_WEIGHT, V_GRANTED,
    VISIT_ROWS,
) = range(12)  # fmt: skip


@lean
def _residency(
    platform: FloatArray, tenants: FloatArray, grants: FloatArray, arrivals: FloatArray, visits: FloatArray
) -> bool:
    """Share of each footprint that is in memory; returns whether all together want more than there is."""
    n, total = len(tenants), 0.0
    for i in range(n):
        total += min(tenants[i, T_FOOTPRINT], grants[i, G_MEMORY_MIB])
        allowed = min(1.0, grants[i, G_MEMORY_MIB] / tenants[i, T_FOOTPRINT])
        visits[V_RESIDENT, i], visits[V_MISSED, i] = allowed, 1.0 - allowed
        visits[V_WEIGHT, i], visits[V_RUNNING, i] = allowed, 1.0
    short = total > platform[P_MEMORY_MIB]
    if short:
        reclaim(platform, tenants, arrivals, visits[V_WEIGHT], visits[V_RESIDENT], visits[V_MISSED])
    return short


@lean
def _limit(visits: FloatArray, per_request: float, capacity: float, i: int) -> float:
    """Requests/s that a station would let through if tenant i asked for all: what is left, or its share."""
    left, weight = capacity, 0.0
    for j in range(visits.shape[1]):
        left -= visits[V_GRANTED, j]
        weight += visits[V_WEIGHT, j] if j == i or visits[V_DEMAND, j] > 0.0 else 0.0
    return max(visits[V_GRANTED, i] + max(left, 0.0), capacity * visits[V_WEIGHT, i] / weight) / per_request


@lean
def _wait(visits: FloatArray, i: int, rate: float, limit: float, mean_ms: float) -> None:
    """Add a wait to what every request of tenant i goes through: M/M/1 at its share of the station."""
    load = min(rate / max(limit, 1e-12), _FULL)
    visits[V_ALL_MS, i] += mean_ms / (1.0 - load)


@lean
def _sweep_mbps(platform: FloatArray, tenants: FloatArray, i: int) -> float:
    """How fast a job goes through its memory while all of it is there; what is missing it reads from the disk."""
    misses = tenants[i, T_APKI] / 1000.0 * tenants[i, T_MISS_MIN]
    ns = tenants[i, T_CPI] / platform[P_CLOCK] + misses * platform[P_LATENCY] / tenants[i, T_MLP]
    return 1000.0 * tenants[i, T_THREADS] * misses * tenants[i, T_BYTES] / ns


@lean
def _disk(
    platform: FloatArray, tenants: FloatArray, grants: FloatArray, wanted: FloatArray, visits: FloatArray, short: bool
) -> None:
    n = len(tenants)
    streams = 0.0
    for i in range(n):
        if tenants[i, T_LC] == 0.0 and visits[V_RESIDENT, i] < 1.0:
            sweep = _sweep_mbps(platform, tenants, i)
            streams += (1.0 if short else 1.0 - visits[V_RESIDENT, i]) * sweep
            if short:  # in turn through more than there is, under LRU: what comes next has always gone already
                visits[V_RUNNING, i] = min(1.0, platform[P_DISK_MBPS] / sweep)
        faults = tenants[i, T_PAGES] * visits[V_MISSED, i]
        visits[V_IOS, i] = tenants[i, T_DISK_IOS] + faults
        visits[V_DEMAND, i] = min(wanted[i] * visits[V_IOS, i], grants[i, G_DISK_IOPS])
        visits[V_WEIGHT, i] = 1.0
        streams += tenants[i, T_DISK_MBPS]
    # A sequential reader takes what it can get; the disk's scheduler keeps half of the time for the others.
    kept = max(0.5, 1.0 - streams / platform[P_DISK_MBPS])
    capacity = platform[P_DISK_IOPS] * kept
    fair_split(visits[V_DEMAND], visits[V_WEIGHT], capacity, visits[V_GRANTED])
    for i in range(n):
        ios = visits[V_IOS, i]
        if tenants[i, T_LC] == 0.0 or ios <= 1e-9:
            continue
        limit = min(_limit(visits, ios, capacity, i), grants[i, G_DISK_IOPS] / ios)
        visits[V_LIMIT, i] = min(visits[V_LIMIT, i], limit)
        mean_ms = 1000.0 / (limit * ios)
        load = min(wanted[i] / limit, _FULL)
        once = -math.expm1(-ios)
        visits[V_DELAY_PROBABILITY, i] = once
        visits[V_DELAY_MS, i] = ios / once * mean_ms / (1.0 - load) + (1.0 - kept) * _DISK_SLICE_MS / 2.0


@lean
def _network(
    platform: FloatArray, tenants: FloatArray, grants: FloatArray, wanted: FloatArray, visits: FloatArray
) -> None:
    n = len(tenants)
    link = platform[P_NETWORK_GBPS]
    for i in range(n):
        asked = wanted[i] * tenants[i, T_NETWORK_KIB] * _GBIT_PER_KIB + tenants[i, T_NETWORK_GBPS]
        visits[V_DEMAND, i] = min(asked, grants[i, G_NETWORK_GBPS])
        visits[V_WEIGHT, i] = max(tenants[i, T_FLOWS], 1.0)
    fair_split(visits[V_DEMAND], visits[V_WEIGHT], link, visits[V_GRANTED])
    for i in range(n):
        size = tenants[i, T_NETWORK_KIB] * _GBIT_PER_KIB
        if tenants[i, T_LC] == 0.0 or size <= 0.0:
            continue
        limit = min(_limit(visits, size, link, i), grants[i, G_NETWORK_GBPS] / size)
        visits[V_LIMIT, i] = min(visits[V_LIMIT, i], limit)
        _wait(visits, i, wanted[i], limit, 1000.0 / limit)


@lean
def visit(
    platform: FloatArray, tenants: FloatArray, grants: FloatArray, arrivals: FloatArray, wanted: FloatArray,
    visits: FloatArray,
) -> None:  # fmt: skip
    """Fill `visits` (VISIT_ROWS, tenants) for `wanted` requests/s of each service: `arrivals` and its backlog.

    V_LIMIT are the requests/s that the serial part, memory, disk and network let through. Every request waits V_ALL_MS
    for the stack, the serial part and the network; one that needs the disk, with V_DELAY_PROBABILITY, waits V_DELAY_MS
    for it (means, exponential).
    """
    for i in range(len(tenants)):
        visits[V_LIMIT, i] = math.inf
        visits[V_ALL_MS, i] = tenants[i, T_STACK_MS]
        visits[V_DELAY_PROBABILITY, i], visits[V_DELAY_MS, i] = 0.0, 0.0
        serial = tenants[i, T_SERIAL_MS]
        if serial > 0.0:
            # One dispatcher or lock for all CPUs of the socket: the part in a cache domain has its share of it.
            visits[V_LIMIT, i] = 1000.0 / serial / (1.0 + tenants[i, T_ELSEWHERE])
            load = min(wanted[i] / visits[V_LIMIT, i], _FULL)
            visits[V_ALL_MS, i] += serial * load / (2.0 * (1.0 - load))  # M/D/1; the part itself is in the work
    short = _residency(platform, tenants, grants, arrivals, visits)
    _disk(platform, tenants, grants, wanted, visits, short)
    _network(platform, tenants, grants, wanted, visits)
