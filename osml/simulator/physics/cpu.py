"""CPU time: who gets how much of which CPUs (CFS or strict priority), and what hyperthreads and turbo make of it.

The CPUs of a node are cut into areas, one for each set of tenants that may run on the same CPUs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osml.base.jit import lean
from osml.simulator.columns import LEAST_AREAS, FloatArray, IntArray

_EPSILON = 1e-9


class Areas(NamedTuple):
    """Room for the areas of one node.

    `counts` holds their number and that of `pairs`; `members[a]` are the tenants of area a as bits, `sizes[a]` its
    CPUs, `crowd[a]` the number of its members; a row (a, b, n) of `pairs` counts physical cores with one sibling in a
    and the other in b. `cpus_of[i]` are the CPUs of tenant i, `shared[i]` is 1 where others may run on them too.
    `work` is scratch, (tenants + 5, areas).
    """

    counts: IntArray
    members: IntArray
    sizes: FloatArray
    crowd: FloatArray
    pairs: IntArray
    cpus_of: FloatArray
    shared: IntArray
    work: FloatArray


def empty_areas(tenants: int, cpus: int) -> Areas:
    """Room for a node with so many tenants and CPUs."""
    most = max(LEAST_AREAS, cpus)
    return Areas(
        np.zeros(2, np.int64), np.zeros(most, np.int64), np.zeros(most), np.zeros(most),
        np.zeros((most, 3), np.int64), np.zeros(tenants), np.zeros(tenants, np.int64),
        np.zeros((tenants + 5, most)),
    )  # fmt: skip


@lean
def map_cpus(areas: Areas, users: IntArray, physical_cores: int) -> None:
    """Find the areas: `users[cpu]` are the tenants of a CPU as bits; siblings are i and i + physical_cores."""
    members, sizes, crowds, pairs = areas.members, areas.sizes, areas.crowd, areas.pairs
    cpus_of, shared = areas.cpus_of, areas.shared
    n_areas = n_pairs = 0
    threads = 2 if len(users) > physical_cores else 1
    for core in range(physical_cores):
        first = -1
        for thread in range(threads):
            who = users[core + thread * physical_cores]
            if who == 0:
                continue
            a = 0
            while a < n_areas and members[a] != who:
                a += 1
            if a == n_areas:
                members[a], sizes[a] = who, 0.0
                n_areas += 1
            sizes[a] += 1.0
            if thread == 0:
                first = a
            elif first >= 0:
                low, high = min(first, a), max(first, a)
                k = 0
                while k < n_pairs and (pairs[k, 0] != low or pairs[k, 1] != high):
                    k += 1
                if k == n_pairs:
                    pairs[k, 0], pairs[k, 1], pairs[k, 2] = low, high, 0
                    n_pairs += 1
                pairs[k, 2] += 1
    areas.counts[0], areas.counts[1] = n_areas, n_pairs
    for i in range(len(cpus_of)):
        cpus_of[i], shared[i] = 0.0, 0
    for a in range(n_areas):
        crowd = 0
        for i in range(len(cpus_of)):
            if members[a] >> i & 1:
                crowd += 1
                cpus_of[i] += sizes[a]
        crowds[a] = crowd
        for i in range(len(cpus_of)):
            if crowd > 1 and members[a] >> i & 1:
                shared[i] = 1


@lean
def share_cpus(areas: Areas, i: int, j: int) -> bool:
    """Whether two tenants have a CPU in common."""
    for a in range(areas.counts[0]):  # noqa: SIM110 - numba compiles no generator
        if areas.members[a] >> i & 1 and areas.members[a] >> j & 1:
            return True
    return False


@lean
def _grow(
    areas: Areas, demands: FloatArray, weights: FloatArray, priorities: FloatArray, level: float, used: FloatArray
) -> None:
    """Give CPU time to the tenants of one priority level, out of what is left of each area (in `areas.work`)."""
    n, n_areas = len(demands), areas.counts[0]
    rate, left, inflow = areas.work, areas.work[n], areas.work[n + 1]
    for _ in range(n + n_areas + 1):
        step = math.inf
        inflow[:n_areas] = 0.0
        for i in range(n):
            total = 0.0
            rate[i, :n_areas] = 0.0
            if priorities[i] != level or demands[i] <= _EPSILON:
                continue
            # Room that fewer compete for is taken first: an idle CPU of one's own beats a crowded one.
            for a in range(n_areas):
                if areas.members[a] >> i & 1 and left[a] > _EPSILON:
                    total += left[a] / areas.crowd[a] ** 2
            if total <= 0.0:
                continue
            step = min(step, demands[i] / weights[i])
            for a in range(n_areas):
                if areas.members[a] >> i & 1 and left[a] > _EPSILON:
                    rate[i, a] = weights[i] * left[a] / areas.crowd[a] ** 2 / total
                    inflow[a] += rate[i, a]
        if step == math.inf:
            break
        for a in range(n_areas):
            if inflow[a] > 0.0:
                step = min(step, left[a] / inflow[a])
        for a in range(n_areas):
            left[a] -= inflow[a] * step
            for i in range(n):
                used[i, a] += rate[i, a] * step
                demands[i] -= rate[i, a] * step


@lean
def fair_shares(
    areas: Areas, demands: FloatArray, weights: FloatArray, priorities: FloatArray, used: FloatArray
) -> None:
    """CPUs that each tenant uses in each area, into `used` (tenants, areas). Eats `demands`.

    Weighted max-min fairness by progressive filling, the higher priority first: everybody who wants more grows in
    proportion to its weight, wherever there is room, until an area is full or the tenant has what it wants. This is
    what CFS with load balancing tends to; priorities are those of the real-time classes.
    """
    n, n_areas = len(demands), areas.counts[0]
    left = areas.work[n]
    for a in range(n_areas):
        left[a] = areas.sizes[a]
        for i in range(n):
            used[i, a] = 0.0
    ceiling = math.inf
    while True:
        level = -math.inf
        for i in range(n):
            if level < priorities[i] < ceiling:
                level = priorities[i]
        if level == -math.inf:
            break
        _grow(areas, demands, weights, priorities, level, used)
        ceiling = level


@lean
def packed_excess(running: float, cores: float) -> float:
    """How many threads more than `cores` run at one time, in the mean, where `running` do in the mean.

    The mean excess of a normal number; its spread was fitted to a simulation of Linux with 2 to 18 physical cores
    (osml/lab/studies/scheduler/laws.py, D10).
    """
    spread = 0.923 * math.sqrt(running / cores) * cores**-0.36
    z = (running / cores - 1.0) / max(spread, _EPSILON)
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return cores * spread * (density + z * 0.5 * math.erfc(-z / math.sqrt(2.0)))


HABIT, MOVED_MS = 0.794, 19.9
"""A thread that wakes goes back to its CPU where that is idle, whatever its sibling does; long work is moved (D10)."""


@lean
def _paired(areas: Areas, used: FloatArray, threads: FloatArray, service_ms: FloatArray, a: int, pairs: float) -> float:
    """Share of the running time in area a with a busy sibling in the same area, which has so many pairs."""
    running, homes, habit = 0.0, 0.0, 0.0
    for i in range(len(threads)):
        if areas.members[a] >> i & 1:
            homes += threads[i] * areas.sizes[a] / max(areas.cpus_of[i], 1.0)
            running += used[i, a]
            if service_ms[i] > 0.0:
                habit += used[i, a] / (1.0 + service_ms[i] / MOVED_MS)
    if running <= _EPSILON or pairs <= 0.0:
        return 0.0
    size = areas.sizes[a]
    cores = size - pairs
    most = 2.0 * pairs / size
    packed = min(2.0 * packed_excess(running, cores) / running, most)
    homes = min(homes, size)
    met = 2.0 * max(homes - cores, 0.0) / homes * running / homes  # by threads that all keep to a CPU of their own
    return packed + max(met - packed, 0.0) * HABIT * habit / running


@lean
def sibling_busy(
    areas: Areas, used: FloatArray, threads: FloatArray, service_ms: FloatArray, stalled: FloatArray,
    shares: FloatArray, pressures: FloatArray, apart: FloatArray,
) -> None:  # fmt: skip
    """Share of each tenant's running time with a busy sibling hyperthread, into `shares`, and the sibling's pressure.

    Siblings in one area: idle cores are filled first, as far as chance and the habit of threads let it be. Siblings in
    different areas know nothing of each other: they overlap as independent events. `service_ms` is the length of a
    request (0 of a job). `pressures` are 1 where the sibling computes all the time, and less by the share of its time
    in which it waits for the memory, `stalled`. `apart` is the part of the share that some requests have all the time
    and others never: a sibling in another area keeps to its CPUs, one in the same area comes and goes.
    """
    n, n_areas, sizes, pairs = len(shares), areas.counts[0], areas.sizes, areas.pairs
    busy, beside, weight, pressed = areas.work[n], areas.work[n + 1], areas.work[n + 2], areas.work[n + 3]
    foreign = areas.work[n + 4]
    for a in range(n_areas):
        total, computing = 0.0, 0.0
        for i in range(n):
            total += used[i, a]
            computing += used[i, a] * (1.0 - CALMED * stalled[i])
        busy[a], beside[a], pressed[a], foreign[a] = total / sizes[a], 0.0, 0.0, 0.0
        weight[a] = computing / total if total > _EPSILON else 1.0
    for k in range(areas.counts[1]):
        a, b, count = pairs[k, 0], pairs[k, 1], float(pairs[k, 2])
        if a == b:
            overlap = _paired(areas, used, threads, service_ms, a, count)
            beside[a] += overlap
            foreign[a] += _COMING_AND_GOING * overlap
            pressed[a] += overlap * weight[a]
        else:
            beside[a] += count / sizes[a] * busy[b]
            beside[b] += count / sizes[b] * busy[a]
            foreign[a] += count / sizes[a] * busy[b]
            foreign[b] += count / sizes[b] * busy[a]
            pressed[a] += count / sizes[a] * busy[b] * weight[b]
            pressed[b] += count / sizes[b] * busy[a] * weight[a]
    for i in range(n):
        total, overlap, pressure, always = 0.0, 0.0, 0.0, 0.0
        for a in range(n_areas):
            total += used[i, a]
            overlap += used[i, a] * beside[a]
            pressure += used[i, a] * pressed[a]
            always += used[i, a] * foreign[a]
        shares[i] = min(overlap / total, 1.0) if total > _EPSILON else 0.0
        pressures[i] = pressure / overlap if overlap > _EPSILON else 1.0
        apart[i] = min(always / total, 1.0) if total > _EPSILON else 0.0


_COMING_AND_GOING = 0.25
"""Share of the overlap with siblings of the same service that acts as if some requests had it all the time (D10)."""

CALMED = 0.35
"""A sibling that only waits for the memory presses by so much less: iBench's membw against llc on two kinds of VMs."""


_HEAVY = 1.5
"""Power a core, relative to an average program's, at which the clock is down to its base."""


@lean
def frequency_ghz(base_ghz: float, all_core_ghz: float, turbo_ghz: float, physical_cores: float, power: float) -> float:
    """Clock under turbo: from that of a single core down to that of all, which half of the cores already bring about.

    Intel's turbo bins fall like that: a Xeon E5-2697 v4 has 3.6 GHz with two active cores and 2.8 GHz with nine. Only
    programs that draw more than an average one bring the clock down to its base. `power` are the busy CPUs, each
    weighted with what its program draws.
    """
    share = power / physical_cores
    if share <= 1.0:
        return turbo_ghz - (turbo_ghz - all_core_ghz) * min(1.0, 2.0 * share)
    return all_core_ghz - (all_core_ghz - base_ghz) * min(1.0, (share - 1.0) / (_HEAVY - 1.0))
