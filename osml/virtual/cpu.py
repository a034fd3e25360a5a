"""CPU time: who gets how much of which CPUs (CFS or strict priority), and what hyperthreads and turbo make of it.

The CPUs of a node are cut into areas, one for each set of tenants that may run on the same CPUs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osml.virtual.columns import MAX_AREAS, FloatArray, IntArray
from osml.virtual.jit import lean
from osml.virtual.queueing import erlang_c

_EPSILON = 1e-9


class Areas(NamedTuple):
    """Room for the areas of one node.

    `counts` holds their number and that of `pairs`; `members[a]` are the tenants of area a as bits, `sizes[a]` its
    CPUs, `crowd[a]` the number of its members; a row (a, b, n) of `pairs` counts physical cores with one sibling in a
    and the other in b. `cpus_of[i]` are the CPUs of tenant i, `shared[i]` is 1 where others may run on them too.
    `work` is scratch, (tenants + 2, MAX_AREAS).
    """

    counts: IntArray
    members: IntArray
    sizes: FloatArray
    crowd: FloatArray
    pairs: IntArray
    cpus_of: FloatArray
    shared: IntArray
    work: FloatArray


def empty_areas(tenants: int) -> Areas:
    """Room for a node with so many tenants."""
    return Areas(
        np.zeros(2, np.int64), np.zeros(MAX_AREAS, np.int64), np.zeros(MAX_AREAS), np.zeros(MAX_AREAS),
        np.zeros((MAX_AREAS, 3), np.int64), np.zeros(tenants), np.zeros(tenants, np.int64),
        np.zeros((tenants + 2, MAX_AREAS)),
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
def sibling_busy(areas: Areas, used: FloatArray, shares: FloatArray) -> None:
    """Share of each tenant's running time in which the sibling hyperthread of its CPU is busy too, into `shares`.

    Siblings in one area: the scheduler fills idle cores first, so they overlap only where it has to. Siblings in
    different areas know nothing of each other: they overlap as independent events.
    """
    n, n_areas, sizes, pairs = len(shares), areas.counts[0], areas.sizes, areas.pairs
    busy, beside = areas.work[n], areas.work[n + 1]
    for a in range(n_areas):
        total = 0.0
        for i in range(n):
            total += used[i, a]
        busy[a], beside[a] = total / sizes[a], 0.0
    for k in range(areas.counts[1]):
        a, b, count = pairs[k, 0], pairs[k, 1], float(pairs[k, 2])
        if a == b:
            overlap = max(0.0, 2.0 * busy[a] - 1.0)
            beside[a] += 2.0 * count / sizes[a] * overlap / max(busy[a], _EPSILON)
        else:
            beside[a] += count / sizes[a] * busy[b]
            beside[b] += count / sizes[b] * busy[a]
    for i in range(n):
        total, overlap = 0.0, 0.0
        for a in range(n_areas):
            total += used[i, a]
            overlap += used[i, a] * beside[a]
        shares[i] = overlap / total if total > _EPSILON else 0.0


@lean
def frequency_ghz(base_ghz: float, turbo_ghz: float, physical_cores: float, power: float) -> float:
    """Clock under turbo: from the single-core turbo down to the base frequency when all physical cores are active.

    `power` are the busy CPUs, each weighted with what its program draws.
    """
    return turbo_ghz - (turbo_ghz - base_ghz) * min(1.0, power / physical_cores)


@lean
def crowding(
    areas: Areas, used: FloatArray, runnable: FloatArray, service_s: FloatArray, priorities: FloatArray, tenant: int
) -> tuple[float, float, float]:
    """What other tenants on the same CPUs do to a thread that wakes up: (probability, competitors, released).

    `probability` that no CPU is idle and somebody else runs: that of M/M/n on the CPUs that jobs leave, as the
    scheduler looks for an idle one first. `competitors` the other runnable threads per CPU,
    `released` how many CPUs per second requests leave for whoever waits: idle CPUs over the mean length of a request
    there, as in M/M/n. `runnable[j]` are the threads of tenant j that want to run at one time, `service_s[j]` is the
    length of its requests (0 of a job, which never leaves). Lower priorities don't count.
    """
    cpus = areas.cpus_of[tenant]
    busy, own, competitors, serving, completed = 0.0, 0.0, 0.0, 0.0, 0.0
    for a in range(areas.counts[0]):
        if not areas.members[a] >> tenant & 1:
            continue
        own += used[tenant, a] / cpus
        for j in range(len(runnable)):
            if priorities[j] < priorities[tenant] or not areas.members[a] >> j & 1:
                continue
            busy += used[j, a] / cpus
            if service_s[j] > 0.0:
                serving += used[j, a]
                completed += used[j, a] / service_s[j]
            if j != tenant:
                competitors += areas.sizes[a] * runnable[j] / max(areas.cpus_of[j], 1.0)
    busy = min(busy, 1.0)
    servers = cpus * (1.0 - busy) + serving  # a whole number only by chance
    whole = int(servers)
    utilisation = min(serving / max(servers, _EPSILON), 1.0)
    lower = erlang_c(whole, whole * utilisation) if whole > 0 else 1.0
    upper = erlang_c(whole + 1, (whole + 1) * utilisation)
    full = lower * (upper / max(lower, _EPSILON)) ** (servers - whole)
    probability = full * max(busy - own, 0.0) / max(busy, _EPSILON)
    return probability, competitors / cpus, (1.0 - busy) * cpus * completed / max(serving, _EPSILON)


_LATENCY_SLICES = 8.0
"""CFS: a turn of all runnable threads takes sched_latency = 8 x min_granularity, or min_granularity a thread where they
are more than 8 (kernel/sched/fair.c before 6.6: sched_nr_latency, __sched_period).
"""


@lean
def turn_ms(slice_ms: float, competitors: float, realtime: bool) -> float:
    """How long the slices of so many competitors on a CPU last together, until one's own begins.

    `slice_ms` is the least slice (min_granularity) of CFS, which is longer while few compete; that of real-time tasks
    (SCHED_RR) is what it is.
    """
    longer = 1.0 if realtime else max(_LATENCY_SLICES / (1.0 + competitors), 1.0)
    return competitors * slice_ms * longer
