"""Short laws that repeat what the simulation finds, each with the sweep that it was fitted to and its error.

They give what the node's distribution of response times takes: (wait_probability, wait_ms, delay_probability,
delay_ms), a wait for a server and a delay by the scheduler, each zero or exponential and independent. Work is lognormal
with mean `work_ms` and squared coefficient of variation `cv2`. Errors are of ln(law / simulation).
Where the node of osml.simulator uses a law, its formula is called here, not repeated.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from osml.simulator.physics import cpu, waking
from osml.simulator.queueing import erlang_c


class Delays(NamedTuple):
    """A wait and a delay, each 0 or exponential with that mean in ms."""

    wait_probability: float
    wait_ms: float
    delay_probability: float
    delay_ms: float

    @property
    def mean_ms(self) -> float:
        """Mean of both together."""
        return self.wait_probability * self.wait_ms + self.delay_probability * self.delay_ms


def _queue(servers: int, offered: float, work_ms: float, cv2: float) -> tuple[float, float]:
    """(probability, mean wait of those who wait) with n servers (M/M/n x (1 + cv2)/2); infinite in overload."""
    if offered >= servers:
        return 1.0, math.inf
    return erlang_c(servers, offered), 0.5 * (1.0 + cv2) * work_ms / (servers - offered)


def sibling_share(busy: float, cores: int, core_first: bool, work_ms: float) -> float:
    """D10: share of running time with a busy sibling, `busy` of the 2 x `cores` CPUs being used by one service.

    Idle cores are filled first, but chance makes more threads run than there are cores: the mean excess of a normal
    number of running threads, over them. Threads that go back to their CPU whenever it is idle (`core_first` false, as
    Linux does) meet their sibling as independent events do, with a share of 0.79; active balance undoes that for work
    beyond 20 ms. 144 cases, 2 to 18 cores: mean error 0.022, largest 0.09 (in share, not its logarithm).
    """
    running = 2.0 * busy * cores
    packed = min(2.0 * cpu.packed_excess(running, float(cores)) / running, 1.0)
    if core_first or packed >= busy:
        return packed
    return packed + (busy - packed) * cpu.HABIT / (1.0 + work_ms / cpu.MOVED_MS)


def first_come(cpus: int, utilisation: float, work_ms: float, cv2: float) -> Delays:
    """First come, first served by as many servers as CPUs: what time_sharing is compared with."""
    return Delays(*_queue(cpus, cpus * utilisation, work_ms, cv2), 0.0, 0.0)


def time_sharing(cpus: int, threads: int, utilisation: float, work_ms: float, cv2: float) -> Delays:
    """D6: many more threads than CPUs. A part of the wait goes to the few who are put aside within a request.

    Sharing keeps the mean at that of M/M/n; a request is put aside at all with 1 - exp(-work / 15 ms). Fitted to 36
    threads on 4 and 8 CPUs under CFS, work of 0.3 to 20 ms, cv2 0.3 and 1, utilisation 0.5 to 0.92: p99 of 64 cases,
    mean error 0.11, largest 0.40; first come first served: 0.48 and 1.34.
    """
    full, wait = _queue(cpus, cpus * utilisation, work_ms, cv2)
    shared, aside, aside_ms = waking.time_sharing(float(cpus), float(threads), utilisation, work_ms, cv2)
    return Delays(full * (1.0 - shared), wait, aside, aside_ms)


def throttled(quota: float, period_ms: float, load: float, work_ms: float, cv2: float, threads: int) -> Delays:
    """D4: a quota of CPUs (above 1, below the threads) that is used to `load`, a period of so many ms.

    With D, the decay of the workload of a server as fast as the quota, and a head start of what is left of the period:
    P(throttled for x) = A B (e^(-x/D) (x + D) - D e^(-P/D)) / P. A: the workload only counts when a period ends
    (Siegmund's correction of a random walk), B: what each thread may overrun until a tick sees it. Fitted to periods of
    10 to 100 ms, quotas of 1.5 to 3, 4 to 16 threads, work of 0.3 to 5 ms, load 0.3 to 0.9: p99 of 576 cases, mean
    error 0.06, median 0.013, largest 0.51.
    """
    full, wait = _queue(threads, load * quota, work_ms, cv2)
    return Delays(full, wait, *waking.throttled(quota, period_ms, load, work_ms, cv2, float(threads)))


def beside_jobs(cpus: int, jobs: int, used: float, threads: int, work_ms: float, cv2: float, grouped: bool) -> Delays:
    """D3: a service that uses `used` CPUs beside `jobs` threads that always run, under CFS, all on the same CPUs.

    The service queues for the CPUs without a job, as in M/M/n, until its threads share those of the jobs instead, which
    the balance of busy CPUs brings about (here every 8 ms; with the square root of that interval the wait grows). With
    a job on every CPU a plain thread preempts it at once, and so does a group while it uses less than 1.5 CPUs (at
    about 2 CPUs both states last, and the law has the slow one). Fitted to 18 and 36 CPUs, 4 to 16 threads, 0.8 to 6
    CPUs used, work of 0.03 to 3 ms, from 8 CPUs without a job to 6 job threads more than CPUs. Mean wait + 0.05 work
    + 0.01 ms, plain threads: 342 cases, mean error 0.14 (0.22 where fewer than used + 1.5 CPUs have no job), largest
    1.11; p99: 0.14, median 0.03. Groups: 324 cases, 0.16 (0.21), largest 0.99; p99: 0.15, median 0.04.
    Intervals of 8 to 128 ms were tried with 3 services; Linux has 16 times the size of the domain, 576 ms on 36 CPUs.
    """
    free = cpus - jobs
    if free <= 0:
        if not grouped or used < 1.5:
            return Delays(0.0, 0.0, 0.0, 0.0)
        return Delays(0.0, 0.0, 0.95, 0.94 / 0.95)
    full, wait = _queue(free, used, work_ms, cv2)
    part, own = min(free / used, 1.0), used / threads
    if grouped:
        bound = waking.group_bound_ms(part, own, used, work_ms)
    else:
        bound = (3.19 + 5.70 * work_ms) * part**0.241 * own**2.23 * used**-0.697
    mean = 1.0 / (1.0 / max(full * wait, 1e-12) + 1.0 / bound)
    return Delays(0.0, 0.0, full, mean / full)


def eevdf_wake_up(
    cpus: int, jobs: int, used: float, threads: int, work_ms: float, cv2: float, weight: float, grouped: bool
) -> Delays:
    """EEVDF: a service of this weight (jobs: 1) with a job on each CPU; slices of 3 ms, ticks of 1 ms.

    A thread that slept owes the job what it ran (lag is kept): work x weight of the jobs on a CPU over its own, and
    never less than about a quarter of that, as even a small debt waits for a slice to end. The rest is a queue at the
    CPU time that is its fair share. p95 of 864 cases (2 to 8 CPUs, 4 and 8 threads, weights 1 to 44, work 0.05 to 3 ms,
    up to 0.7 of the fair share): mean error 0.24, median 0.15, 90 % below 0.46; groups 0.15, plain threads 0.32. Weak
    for work of 0.05 ms above half of the fair share: all CPUs can be in a slice of the job, and many requests wait for
    one slice (too short by up to a factor of 9).
    """
    share = weight / (weight + 1.0) if grouped else weight * threads / (weight * threads + jobs)
    capacity = min(cpus * share, float(threads))
    load = min(used / capacity, 0.98)
    servers = min(cpus, threads)
    full, wait = _queue(servers, servers * load, work_ms, cv2)
    late = waking.eevdf_wake_up(float(cpus), float(jobs), used, work_ms, weight, grouped)
    return Delays(full, wait * servers / capacity, *late)


def exceeds_after_step(
    wait_ms: float, seconds: float, cpus: int, before: float, now: float, work_ms: float, cv2: float
) -> float:
    """D8: probability that a request waits longer, so many seconds after the utilisation went from `before` to `now`.

    The workload is a Brownian motion with drift -n (1 - now) and variance now n s (1 + cv2) that is reflected at 0; the
    exact solution from an empty queue. A wait of y is a workload of n y, and what first fills the idle CPUs: 0.634 of
    the mean rest of the work of so many, less 0.263 sqrt(n) requests. Holds below, at and above saturation. Fitted to
    the 95th percentile of the wait + 0.3 of the work: 4 to 16 CPUs, before 0.3 and 0.6, now 0.85 to 1.2, 1.5 to 38
    works later, 144 cases: mean error 0.08, 90 % below 0.18, largest 0.28.
    """
    work, servers = work_ms / 1000.0, float(cpus)
    drift, spread = servers * (1.0 - now), math.sqrt(now * servers * work * (1.0 + cv2) * seconds)
    filling = 0.634 * servers * (1.0 - before) * 0.5 * (1.0 + cv2) - 0.263 * math.sqrt(servers)
    x = servers * wait_ms / 1000.0 + filling * work
    over = 0.5 * math.erfc((x + drift * seconds) / spread / math.sqrt(2.0))
    reflected = 0.5 * math.erfc((x - drift * seconds) / spread / math.sqrt(2.0))
    if reflected > 0.0:
        over += math.exp(math.log(reflected) - 2.0 * drift * x * seconds / spread**2)
    return min(over, 1.0)


def wait_after_step(
    level: float, seconds: float, cpus: int, before: float, now: float, work_ms: float, cv2: float
) -> float:
    """D8: wait in ms at a level, from exceeds_after_step."""
    low, high = 0.0, 1000.0 * (seconds * max(now, 1.0) + 100.0 * work_ms / 1000.0)
    if exceeds_after_step(low, seconds, cpus, before, now, work_ms, cv2) <= 1.0 - level:
        return 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if exceeds_after_step(middle, seconds, cpus, before, now, work_ms, cv2) > 1.0 - level:
            low = middle
        else:
            high = middle
    return low
