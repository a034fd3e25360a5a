"""What other tenants on the same CPUs do to a request: the wait of a thread that wakes up, and turns in between.

CFS is Linux before 6.6, EEVDF from then on. The laws were fitted to a simulation of both schedulers with
threads, groups and slices (osml/lab/studies/scheduler).
"""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.simulator.columns import FloatArray
from osml.simulator.physics.cpu import Areas
from osml.simulator.queueing import erlang_c

_EPSILON, _LAW_SLICE_MS = 1e-9, 3.0

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
requests that follow too closely. Where it has about so many, it can be found in either state.
"""

_BETWEEN = 1.0
"""Threads over which the share of wake-ups that preempt falls from all to none."""

_TICKED = 0.33
"""Wait until the tick ends a job's slice, in least slices (250 ticks/s)."""


@lean
def turn_ms(slice_ms: float, competitors: float, realtime: bool) -> float:
    """How long the slices of so many competitors on a CPU last together, until one's own begins.

    `slice_ms` is the least slice (min_granularity) of CFS, which is longer while few compete; that of real-time tasks
    (SCHED_RR) is what it is.
    """
    longer = 1.0 if realtime else max(_LATENCY_SLICES / (1.0 + competitors), 1.0)
    return competitors * slice_ms * longer


@lean
def preempting(weight: float, running: float) -> float:
    """Share of wake-ups at which a thread of a CPU group preempts a job that always runs, at once (Linux before 6.6).

    A thread that slept has credit. In a group of its own (cgroup v2, containers) the credit is worth the less, the
    more threads of the group are `running`: its weight (1: the default of 100 or 1024) is divided among them.
    """
    over = running - _CREDIT * weight + _CALM
    return min(max(0.5 - over / _BETWEEN, 0.0), 1.0)


@lean
def erlang_between(servers: float, offered: float) -> float:
    """Probability of waiting in M/M/n for a number of servers that need not be whole."""
    if offered >= servers:
        return 1.0
    whole = int(servers)
    lower = erlang_c(whole, offered) if offered < whole else 1.0
    upper = erlang_c(whole + 1, offered)
    return lower * (upper / max(lower, _EPSILON)) ** (servers - whole)


@lean
def group_bound_ms(part: float, own: float, used: float, service_ms: float) -> float:
    """Longest mean wait of a service in a CPU group beside jobs, with least slices of 3 ms (D3).

    `part` are the CPUs without a job over those that services use (at most 1), `own` is what a thread uses of a CPU.
    """
    return (1.63 + 1.33 * service_ms) * part**-0.556 * own**0.851 * max(used, _EPSILON) ** -0.663


@lean
def beside_jobs(
    free: float, used: float, own: float, service_ms: float, slice_ms: float, grouped: bool
) -> tuple[float, float]:
    """(share of wake-ups that wait, their wait in ms) of a service with `free` CPUs that no job thread is on.

    It queues for these as in M/M/n, until its threads share those of the jobs, which bounds the wait. `used` are the
    CPUs that services use, `own` is what each thread of this one uses of a CPU. 885 services in 450 draws of the
    simulation: 3 to 12 CPUs, up to three services and a job (osml/lab/studies/scheduler/mixes.py).
    """
    full, scale = erlang_between(free, used), slice_ms / _LAW_SLICE_MS
    part = min(free / max(used, _EPSILON), 1.0)
    if grouped:
        bound = group_bound_ms(part, own, used, service_ms) * scale
    else:
        bound = (0.2 + 0.3 * service_ms) * (1.0 + 1.5 * own) * scale
    if free <= used:
        return full, bound
    queued = full * service_ms / (free - used)
    mean = 1.0 / (1.0 / max(queued, _EPSILON) + 1.0 / max(bound, _EPSILON))
    return full, mean / max(full, _EPSILON)


@lean
def eevdf_wake_up(
    cpus: float, jobs: float, running: float, service_ms: float, weight: float, grouped: bool
) -> tuple[float, float]:
    """(share of wake-ups that wait, their wait in ms) beside a job thread on each CPU, under EEVDF.

    A thread that slept still owes the job what it ran (its lag is kept), and never less than about a quarter of that,
    as even a small debt waits for a slice to end. Slices of 3 ms. 864 cases of the simulation.
    """
    own = weight / max(1.0, min(running, cpus)) if grouped else weight
    owed = (1.0 if grouped else jobs) / cpus / own
    mean = service_ms * 0.648 * math.sqrt(owed * owed + 0.27 * 0.27)
    probability = min(1.0, mean / (1.014 + 0.5 * service_ms))
    return probability, mean / max(probability, _EPSILON)


@lean
def crowding(
    areas: Areas, used: FloatArray, runnable: FloatArray, service_s: FloatArray, priorities: FloatArray, tenant: int,
    threads: float, slice_ms: float, weight: float, grouped: bool, eevdf: bool,
) -> tuple[float, float, float, float, float]:  # fmt: skip
    """What other tenants on the same CPUs do to a thread that wakes up.

    (share of wake-ups that wait, their wait in ms, share that find no idle CPU and somebody else running, other
    runnable threads per CPU, their turn in ms). The scheduler looks for an idle CPU first, so none is idle as in M/M/n
    on the CPUs that jobs leave (`beside_jobs`), and without jobs one waits until a request leaves a CPU, or for half a
    turn. Where a job runs on every CPU, a thread stays where it was: it preempts the job, or waits until the tick does,
    and waits for other services that are there. `runnable[j]` are the threads of tenant j that want to run at one time,
    `service_s[j]` is the length of its requests (0 of a job, which never leaves). Lower priorities don't count.
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
    full = erlang_between(servers, min(serving, servers))
    crowded = full * max(busy - own, 0.0) / max(busy, _EPSILON)
    turn = turn_ms(slice_ms, competitors, realtime)
    if crowded <= 0.0 or competitors <= 0.0:
        return 0.0, 0.0, 0.0, competitors, turn
    leave = completed / max(serving, _EPSILON) / 1000.0  # requests per ms and CPU
    running, service_ms = own * cpus, service_s[tenant] * 1000.0
    probability, wait = crowded, 1.0 / ((1.0 - busy) * cpus * leave + 2.0 / turn)
    if realtime or jobs <= 0.0:
        return probability, wait, crowded, competitors, turn
    free = cpus - jobs
    by_jobs = min(jobs, 1.0)
    found = beside_jobs(max(free, 1.0), serving, min(running / threads, 1.0), service_ms, slice_ms, grouped)
    # The longer of both: services are in each other's way, too.
    mean = max(found[0] * found[1] * by_jobs, probability * wait * (1.0 - by_jobs))
    probability = max(found[0] * by_jobs, crowded * (1.0 - by_jobs))
    everywhere = min(max(1.0 - free, 0.0), 1.0)
    if everywhere > 0.0:
        met, stays = _at_every_cpu(
            cpus, jobs, crowded, turn, running, service_ms, slice_ms, weight, grouped, eevdf
        )  # fmt: skip
        mean += everywhere * (met * stays - mean)
        probability += everywhere * (met - probability)
    return probability, mean / max(probability, _EPSILON), crowded, competitors, turn


@lean
def _at_every_cpu(
    cpus: float, jobs: float, crowded: float, turn: float, running: float, service_ms: float, slice_ms: float,
    weight: float, grouped: bool, eevdf: bool,
) -> tuple[float, float]:  # fmt: skip
    """(share of wake-ups that wait, their wait in ms) where a job runs on every CPU."""
    if eevdf:
        return eevdf_wake_up(cpus, jobs, running, service_ms, weight, grouped)
    if not grouped:
        return 0.0, 0.0  # a plain thread that slept preempts a job at once
    return crowded * (1.0 - preempting(weight, running)), min(turn / 2.0, _TICKED * slice_ms)


@lean
def time_sharing(
    servers: float, threads: float, utilisation: float, service_ms: float, cv2: float
) -> tuple[float, float, float]:
    """(share of the waits that threads spread over all, share of requests put aside, for how long in ms).

    Of a service with more threads than CPUs under CFS: a part of the wait goes to the few that are put aside in the
    middle of a request, the mean stays. Only so many requests can be in turns as there are threads. 64 cases of the
    simulation, 36 threads on 4 and 8 CPUs (D6).
    """
    if threads <= servers or utilisation >= 1.0:
        return 0.0, 0.0, 0.0
    full = erlang_between(servers, servers * utilisation)
    shared = (1.0 - 0.66 / (1.0 + service_ms / 3.16)) * (1.0 - utilisation ** (threads - servers))
    aside = full * (1.0 - math.exp(-service_ms / 15.2))
    mean = shared * full * service_ms / (servers * (1.0 - utilisation))
    return shared, aside, mean / max(aside, _EPSILON)


@lean
def throttled(
    quota: float, period_ms: float, utilisation: float, service_ms: float, cv2: float, threads: float
) -> tuple[float, float]:
    """(share of requests that wait for the end of a period, how long in ms) under a quota of CPU time.

    With D, the decay of the work that waits for a server as fast as the quota, and a head start of what is left of the
    period. What each thread may overrun until a tick sees it counts, too. 576 cases of the simulation, quotas from 1.5
    (D4). A request longer than its threads' part of the quota is stopped once a period on its way.
    """
    load = min(utilisation, 0.985)
    decay = 0.67 * load * service_ms * (1.0 + cv2) / (2.0 * quota * (1.0 - load))
    ends = math.exp(-0.659 * math.sqrt((1.0 - load) * period_ms / decay))
    overrun = math.exp(-0.169 * threads / (quota * decay))
    over = math.exp(-period_ms / decay)
    probability = ends * overrun * decay / period_ms * (1.0 - over)
    mean = ends * overrun * decay * (2.0 * decay / period_ms * (1.0 - over) - over)
    if quota < 1.0:  # even one thread runs only a part of each period
        stops = service_ms / (quota * period_ms)
        pause = (1.0 - quota) * period_ms
        mean += min(stops, 1.0) * pause + max(stops - 1.0, 0.0) * pause
        probability += (1.0 - probability) * min(stops, 1.0)
    return min(probability, 1.0), mean / max(probability, _EPSILON)
