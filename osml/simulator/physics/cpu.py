"""CPU time: who gets how much of which CPUs (CFS or strict priority), and what hyperthreads and turbo make of it.

The CPUs of a node are cut into areas, one for each set of tenants that may run on the same CPUs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osml.base.jit import lean
from osml.simulator.columns import MAX_AREAS, FloatArray, IntArray
from osml.simulator.queueing import erlang_c

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


_LATENCY_SLICES = 8.0
"""CFS: a turn of all runnable threads takes sched_latency = 8 x min_granularity, or min_granularity a thread where they
are more than 8 (kernel/sched/fair.c before 6.6: sched_nr_latency, __sched_period).
"""

_CREDIT = 3.0
"""CFS: whoever wakes lags sched_latency/2 behind at most (place_entity) and preempts where it lags more than
wakeup_granularity x NICE_0/weight (wakeup_gran): with the kernel's defaults a third of the credit.
"""

_CALM = 1.5
"""A group preempts while it has fewer than _CREDIT x weight - _CALM threads running: 1 for the one that wakes, half for
requests that follow too closely (osml/lab/studies/cfs_groups.py).
"""

_CAUGHT = 0.5
"""With fewer, too, once _CREDIT x weight + _CAUGHT threads run or wait: whoever waits is runnable, so the next waits
(the same study). A stall of 6 ms brings a service of eight threads there, and only a pause of 55 ms leads out: it
is the state in which a service is found.
"""

_TICKED = 0.75
"""Wait until the tick ends a job's slice, in least slices (2.1 to 3 of 3 ms in the same study, 250 ticks/s)."""

_HUNGRY = 0.8
"""From this share of their fair share of the CPUs on, more and more sleepers have no credit left (the same study)."""


@lean
def turn_ms(slice_ms: float, competitors: float, realtime: bool) -> float:
    """How long the slices of so many competitors on a CPU last together, until one's own begins.

    `slice_ms` is the least slice (min_granularity) of CFS, which is longer while few compete; that of real-time tasks
    (SCHED_RR) is what it is.
    """
    longer = 1.0 if realtime else max(_LATENCY_SLICES / (1.0 + competitors), 1.0)
    return competitors * slice_ms * longer


@lean
def preempting(grouped: bool, weight: float, running: float, late: float, busy: float, fair: float) -> float:
    """Share of wake-ups at which a service preempts a job that always runs, at once (Linux before 6.6).

    A thread that slept has credit. In a group of its own (cgroup v2, containers) the credit is worth the less, the
    more threads of the group are `running`, or `late` as they would be if they waited: its weight (1: the default of
    100 or 1024) is divided among them. Threads of one group have credit until all services use their fair share of the
    CPUs, `busy` against `fair`.
    """
    if grouped:
        many = running >= _CREDIT * weight - _CALM or running + late >= _CREDIT * weight + _CAUGHT
        return 0.0 if many else 1.0
    return min(max((1.0 - busy / fair) / (1.0 - _HUNGRY), 0.0), 1.0)


@lean
def crowding(
    areas: Areas, used: FloatArray, runnable: FloatArray, service_s: FloatArray, priorities: FloatArray, tenant: int,
    threads: float, slice_ms: float, weight: float, grouped: bool,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """What other tenants on the same CPUs do to a thread that wakes up.

    (share of wake-ups that wait, their wait in ms, share that find no idle CPU and somebody else running, other
    runnable threads per CPU, their turn in ms). The scheduler looks for an idle CPU first, so none is idle as in M/M/n
    on the CPUs that jobs leave. Then one waits until a request leaves a CPU, as in M/M/n, or for half a turn.
    Where a job runs on every CPU, a thread stays where it was: it preempts the job, or waits until the tick does, and
    waits for other services that are there. `runnable[j]` are the threads of tenant j that want to run at one
    time, `service_s[j]` is the length of its requests (0 of a job, which never leaves). Lower priorities don't count.
    """
    cpus, realtime = areas.cpus_of[tenant], priorities[tenant] > 0.0
    busy, own, competitors, serving, completed, jobs = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for a in range(areas.counts[0]):
        if not areas.members[a] >> tenant & 1:
            continue
        own += used[tenant, a] / cpus
        for j in range(len(runnable)):
            if priorities[j] < priorities[tenant] or not areas.members[a] >> j & 1:
                continue
            busy += used[j, a] / cpus
            wanting = areas.sizes[a] * runnable[j] / max(areas.cpus_of[j], 1.0)
            if service_s[j] > 0.0:
                serving += used[j, a]
                completed += used[j, a] / service_s[j]
            else:
                jobs += min(wanting, areas.sizes[a])
            if j != tenant:
                competitors += wanting
    busy, competitors = min(busy, 1.0), competitors / cpus
    servers = cpus * (1.0 - busy) + serving  # a whole number only by chance
    whole = int(servers)
    utilisation = min(serving / max(servers, _EPSILON), 1.0)
    lower = erlang_c(whole, whole * utilisation) if whole > 0 else 1.0
    upper = erlang_c(whole + 1, (whole + 1) * utilisation)
    full = lower * (upper / max(lower, _EPSILON)) ** (servers - whole)
    crowded = full * max(busy - own, 0.0) / max(busy, _EPSILON)
    turn = turn_ms(slice_ms, competitors, realtime)
    if crowded <= 0.0 or competitors <= 0.0:
        return 0.0, 0.0, 0.0, competitors, turn
    leave = completed / max(serving, _EPSILON) / 1000.0  # requests per ms and CPU
    wait = 1.0 / ((1.0 - busy) * cpus * leave + 2.0 / turn)
    everywhere = min(max(jobs - cpus + 1.0, 0.0), 1.0)  # one CPU without a job and jobs wander
    if everywhere <= 0.0 or realtime:
        return crowded, wait, crowded, competitors, turn
    fair = cpus / (cpus + jobs)
    running, ticked = own * cpus, _TICKED * slice_ms
    late = min(running / service_s[tenant] * ticked / 1000.0, threads - running)
    at_once = preempting(grouped, weight, running, late, serving / cpus, fair)
    behind = min(max(serving / cpus - own, 0.0), crowded)  # other services, which have credit, too
    met = crowded - at_once * (crowded - behind)
    ticked = min(wait, ticked) if grouped else wait
    stays = (at_once * behind / (leave + 2.0 / turn) + (1.0 - at_once) * crowded * ticked) / max(met, _EPSILON)
    probability = crowded + everywhere * (met - crowded)
    total = (1.0 - everywhere) * crowded * wait + everywhere * met * stays
    return probability, total / max(probability, _EPSILON), crowded, competitors, turn
