"""CPU shares, memory latency, cache latency and clock that agree with each other, for one step."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osml.base.jit import lean
from osml.simulator.columns import (
    G_CLOCK,
    G_MBA,
    G_PRIORITY,
    G_QUOTA,
    G_WEIGHT,
    P_ALL_CORE,
    P_BANDWIDTH,
    P_CLOCK,
    P_CORES,
    P_CPU_GROUPS,
    P_LATENCY,
    P_LLC_GBPS,
    P_LLC_LATENCY,
    P_POWER,
    P_RISE,
    P_SMT_SPEED,
    P_TURBO,
    S_CLOCK,
    S_LATENCY_NS,
    S_LLC_WAIT_NS,
    S_PRESSURE,
    S_SIBLING,
    T_APKI,
    T_BYTES,
    T_CPI,
    T_DEVICE_KIB,
    T_INSTRUCTIONS,
    T_LC,
    T_MLP,
    T_POWER,
    T_SWITCH_COST,
    T_THREADS,
    FloatArray,
)
from osml.simulator.physics.cpu import Areas, empty_areas, fair_shares, frequency_ghz, sibling_busy
from osml.simulator.physics.memory import (
    M_BUSY,
    M_BYTES,
    M_CAP,
    M_COMPUTE,
    M_NOW,
    M_OPEN,
    M_STALL,
    TRAFFIC_COLUMNS,
    rise,
    settle,
)
from osml.simulator.physics.stations import V_RUNNING, VISIT_ROWS

MOST_ROUNDS = 60
_BOLD, _HALVING = 8, 24
"""Whole steps for so many rounds, as the map mostly contracts, half steps for so many, which end most swings; then
fifths of a step: CPUs and memory that are both full swing longest."""
_TOLERANCE = 1e-4

# Rows of Work.points, one column a tenant: misses per LLC access, ns per instruction, slowdown by switching, seconds of
# a request with a CPU to itself, requests/s wanted; CPUs at most, wanted, within reach and used; and scratch.
(
    X_MISS, X_NS, X_SWITCHING, X_SERVICE_S, X_WANTED, X_MOST, X_DEMAND, X_CAPACITY, X_USED, X_SEEN, X_BESIDE,
    X_WEIGHT, X_PRIORITY, X_RUNNABLE, X_RATE, X_HELD, X_FOOTPRINT, X_THREADS, X_SERVICE_MS, X_STALLED, X_PRESSURE,
    X_APART, X_INSERTED,
    POINT_ROWS,
) = range(24)  # fmt: skip


class Work(NamedTuple):
    """Room that a step needs. `used` and `trial` are CPUs per (tenant, area)."""

    areas: Areas
    used: FloatArray
    trial: FloatArray
    traffic: FloatArray
    points: FloatArray
    visits: FloatArray
    share: FloatArray
    split: FloatArray


def empty_work(tenants: int, ways: int, cpus: int) -> Work:
    """Room for a node with so many tenants, ways and CPUs."""
    areas = empty_areas(tenants, cpus)
    most = len(areas.members)
    return Work(
        areas, np.zeros((tenants, most)), np.zeros((tenants, most)),
        np.zeros((tenants, TRAFFIC_COLUMNS)), np.zeros((POINT_ROWS, tenants)), np.zeros((VISIT_ROWS, tenants)),
        np.zeros((tenants, ways)), np.zeros((3, tenants)),
    )  # fmt: skip


@lean
def _traffic(tenants: FloatArray, grants: FloatArray, state: FloatArray, work: Work) -> float:
    """What every tenant asks of the memory, given the CPU time it uses; returns what devices move for them in GB/s."""
    x, traffic = work.points, work.traffic
    devices = 0.0
    for i in range(len(tenants)):
        misses = tenants[i, T_APKI] / 1000.0 * x[X_MISS, i]
        stall = misses / tenants[i, T_MLP] * x[X_SWITCHING, i]
        traffic[i, M_BYTES] = misses * tenants[i, T_BYTES]
        traffic[i, M_STALL] = stall
        traffic[i, M_COMPUTE] = x[X_NS, i] - stall * state[i, S_LATENCY_NS]
        traffic[i, M_CAP] = grants[i, G_MBA]
        traffic[i, M_BUSY] = x[X_USED, i]
        traffic[i, M_OPEN] = -1.0
        if tenants[i, T_LC] > 0.0:
            served = min(x[X_WANTED, i], x[X_CAPACITY, i] / x[X_SERVICE_S, i])
            traffic[i, M_NOW] = served * tenants[i, T_INSTRUCTIONS] * traffic[i, M_BYTES] / 1e9
            traffic[i, M_OPEN] = x[X_WANTED, i] * tenants[i, T_INSTRUCTIONS] * traffic[i, M_BYTES] / 1e9
            traffic[i, M_BUSY] = x[X_CAPACITY, i]
            devices += served * tenants[i, T_DEVICE_KIB] * 1024.0 / 1e9
    return devices


@lean
def _cpu_time(tenants: FloatArray, work: Work) -> None:
    """CPUs that everybody uses, and that each service could use if it wanted all it can get."""
    x, areas, used, n = work.points, work.areas, work.used, len(tenants)
    members, shared = areas.members, areas.shared
    crowded = False
    for i in range(n):
        x[X_DEMAND, i] = x[X_MOST, i]
        if tenants[i, T_LC] > 0.0:
            x[X_DEMAND, i] = min(x[X_WANTED, i] * x[X_SERVICE_S, i], x[X_MOST, i])
        x[X_CAPACITY, i] = x[X_MOST, i]
        crowded = crowded or shared[i] > 0
    n_areas = areas.counts[0]
    if not crowded:
        for i in range(n):
            for a in range(n_areas):
                used[i, a] = x[X_DEMAND, i] if members[a] >> i & 1 else 0.0
            x[X_USED, i] = x[X_DEMAND, i]
        return
    for i in range(n):
        if shared[i] == 0 or tenants[i, T_LC] == 0.0:
            continue
        for j in range(n):
            x[X_SEEN, j] = x[X_DEMAND if j != i else X_MOST, j]
        fair_shares(areas, x[X_SEEN], x[X_WEIGHT], x[X_PRIORITY], work.trial)
        reach = 0.0
        for a in range(n_areas):
            reach += work.trial[i, a]
        x[X_CAPACITY, i] = max(reach, 1e-3)
    for i in range(n):
        x[X_SEEN, i] = x[X_DEMAND, i]
    fair_shares(areas, x[X_SEEN], x[X_WEIGHT], x[X_PRIORITY], used)
    for i in range(n):
        x[X_USED, i] = 0.0
        for a in range(n_areas):
            x[X_USED, i] += used[i, a]


@lean
def _speeds(platform: FloatArray, tenants: FloatArray, grants: FloatArray, state: FloatArray, x: FloatArray) -> None:
    """Nanoseconds per instruction and seconds per request at the latencies and the clock of `state`."""
    for i in range(len(tenants)):
        clock = min(state[i, S_CLOCK], grants[i, G_CLOCK])
        slowed = 1.0 + (1.0 / platform[P_SMT_SPEED] - 1.0) * state[i, S_PRESSURE]
        speed = 1.0 - (1.0 - 1.0 / slowed) * state[i, S_SIBLING]
        memory_ns = x[X_MISS, i] * state[i, S_LATENCY_NS] + state[i, S_LLC_WAIT_NS]
        stalled = tenants[i, T_APKI] / 1000.0 * memory_ns / tenants[i, T_MLP]
        x[X_NS, i] = (tenants[i, T_CPI] / (clock * speed) + stalled) * x[X_SWITCHING, i]
        x[X_SERVICE_S, i] = tenants[i, T_INSTRUCTIONS] * x[X_NS, i] * 1e-9
        x[X_SERVICE_MS, i] = x[X_SERVICE_S, i] * 1000.0 * tenants[i, T_LC]
        x[X_STALLED, i] = stalled * x[X_SWITCHING, i] / x[X_NS, i]


@lean
def prepare(platform: FloatArray, tenants: FloatArray, grants: FloatArray, state: FloatArray, work: Work) -> None:
    """What does not change from round to round. Given are the areas and the visits."""
    x, areas = work.points, work.areas
    for i in range(len(tenants)):
        # One value a node, also for a tenant who has just come.
        state[i, S_CLOCK], state[i, S_LLC_WAIT_NS] = state[0, S_CLOCK], state[0, S_LLC_WAIT_NS]
        x[X_WEIGHT, i], x[X_PRIORITY, i] = grants[i, G_WEIGHT], grants[i, G_PRIORITY]
        if platform[P_CPU_GROUPS] == 0.0:  # plain threads: each weighs as much as any other
            x[X_WEIGHT, i] *= tenants[i, T_THREADS]
        x[X_MOST, i] = min(tenants[i, T_THREADS], areas.cpus_of[i], grants[i, G_QUOTA]) * work.visits[V_RUNNING, i]
        excess = max(0.0, math.log2(tenants[i, T_THREADS] / areas.cpus_of[i]))
        x[X_SWITCHING, i] = 1.0 + tenants[i, T_SWITCH_COST] * excess
        x[X_THREADS, i] = tenants[i, T_THREADS]


@lean
def ask(platform: FloatArray, tenants: FloatArray, grants: FloatArray, state: FloatArray, work: Work) -> float:
    """What everybody asks of the memory at the latencies and the clock of `state`; returns the GB/s of devices."""
    _speeds(platform, tenants, grants, state, work.points)
    _cpu_time(tenants, work)
    return _traffic(tenants, grants, state, work)


@lean
def answer(platform: FloatArray, tenants: FloatArray, state: FloatArray, work: Work, rounds: int) -> bool:
    """What siblings, clock and cache make of the memory latencies in X_SEEN; whether `state` agrees with all of that.

    Where it does not, it moves towards it.
    """
    n, x, a, b = len(tenants), work.points, platform[P_RISE], platform[P_POWER]
    sibling_busy(
        work.areas, work.used, x[X_THREADS], x[X_SERVICE_MS], x[X_STALLED], x[X_BESIDE], x[X_PRESSURE], x[X_APART]
    )
    power, accesses = 0.0, 0.0
    for i in range(n):
        power += x[X_USED, i] * tenants[i, T_POWER] * (1.0 - 0.5 * x[X_BESIDE, i])  # two siblings are one core
        accesses += x[X_USED, i] / x[X_NS, i] * tenants[i, T_APKI] / 1000.0
    clock = frequency_ghz(platform[P_CLOCK], platform[P_ALL_CORE], platform[P_TURBO], platform[P_CORES], power)
    waiting = platform[P_LLC_LATENCY] * (rise(a, b, accesses * 64.0 / platform[P_LLC_GBPS]) - 1.0)
    moved = abs(clock / state[0, S_CLOCK] - 1.0)
    moved = max(moved, abs(waiting - state[0, S_LLC_WAIT_NS]) / platform[P_LLC_LATENCY])
    for i in range(n):
        moved = max(moved, abs(x[X_SEEN, i] / state[i, S_LATENCY_NS] - 1.0))
        moved = max(moved, abs(x[X_BESIDE, i] - state[i, S_SIBLING]))
        moved = max(moved, abs(x[X_PRESSURE, i] - state[i, S_PRESSURE]) * x[X_BESIDE, i])
    if moved < _TOLERANCE or rounds >= MOST_ROUNDS:
        return True
    keep = 0.0 if rounds <= _BOLD else 0.5 if rounds <= _HALVING else 0.8
    for i in range(n):
        state[i, S_LATENCY_NS] += (x[X_SEEN, i] - state[i, S_LATENCY_NS]) * (1.0 - keep)
        state[i, S_SIBLING] += (x[X_BESIDE, i] - state[i, S_SIBLING]) * (1.0 - keep)
        state[i, S_PRESSURE] += (x[X_PRESSURE, i] - state[i, S_PRESSURE]) * (1.0 - keep)
        state[i, S_CLOCK] += (clock - state[i, S_CLOCK]) * (1.0 - keep)
        state[i, S_LLC_WAIT_NS] += (waiting - state[i, S_LLC_WAIT_NS]) * (1.0 - keep)
    return False


@lean
def solve(platform: FloatArray, tenants: FloatArray, grants: FloatArray, state: FloatArray, work: Work) -> int:
    """Find the fixed point; `state` holds where to begin and then the solution. Returns the rounds that it took.

    Given are the areas, X_MISS and X_WANTED; the rest of `work.points`, `used` and `traffic` follow.
    """
    t0, a, b = platform[P_LATENCY], platform[P_RISE], platform[P_POWER]
    prepare(platform, tenants, grants, state, work)
    rounds = 0
    while True:
        rounds += 1
        devices = ask(platform, tenants, grants, state, work)
        settle(work.traffic, platform[P_BANDWIDTH], t0, a, b, devices, work.points[X_SEEN], work.split)
        if answer(platform, tenants, state, work, rounds):
            return rounds
