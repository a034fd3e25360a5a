"""What can be simulated: a machine, a kernel, and tenants. Plain descriptions, checked; no state."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

IDLE_WEIGHT = 3.0 / 1024.0
"""Weight of SCHED_IDLE."""


@dataclass(frozen=True)
class Machine:
    """`cpus` logical CPUs; with `smt` the siblings i and i + cpus/2 share a core.

    `speeds[a][b]` is the speed of tenant a while b runs on the sibling; one number holds for all pairs.
    """

    cpus: int
    smt: bool = False
    speeds: float | tuple[tuple[float, ...], ...] = 0.65

    def __post_init__(self) -> None:
        if self.cpus < 1 or (self.smt and self.cpus % 2):
            raise ValueError(f"cpus is {self.cpus}, expected at least 1, and an even number with SMT")


@dataclass(frozen=True)
class Kernel:
    """The scheduler's numbers, in ms. `cfs` and `eevdf` give the kernel's defaults for a number of CPUs.

    `tick_ms` is the timer (4: 250 Hz), `latency_ms`, `min_ms` and `wake_ms` are sched_latency, min_granularity and
    wakeup_granularity of CFS, `base_ms` is the slice of EEVDF and `run_to_parity` its feature. A switch costs
    `switch_us`; a thread that another tenant preempted makes up for `refill_ms` of lost cache. `hot_ms`: who ran so
    recently is not pulled; `newidle_ms`: a CPU whose idle times are shorter on average pulls nobody when it gets idle.
    Every `balance_ms` (0: never) a CPU balances, a busy one every `busy_factor`-th time, and an idle core takes a
    running thread of a doubly busy one every `active_every`-th time (0: never). `core_first`: a waking thread looks for
    an idle core even where its own CPU is idle.
    """

    eevdf: bool = False
    tick_ms: float = 4.0
    latency_ms: float = 24.0
    min_ms: float = 3.0
    wake_ms: float = 4.0
    base_ms: float = 3.0
    run_to_parity: bool = True
    robin_ms: float = 100.0
    switch_us: float = 0.0
    refill_ms: float = 0.0
    hot_ms: float = 0.5
    newidle_ms: float = 0.5
    balance_ms: float = 8.0
    busy_factor: int = 1
    active_every: int = 4
    core_first: bool = False
    quota_slice_ms: float = 5.0

    def __post_init__(self) -> None:
        for name in ("tick_ms", "latency_ms", "min_ms", "wake_ms", "base_ms", "robin_ms", "quota_slice_ms"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a time above 0")
        if self.busy_factor < 1:
            raise ValueError(f"busy_factor is {self.busy_factor}, expected at least 1")


def _scale(cpus: int) -> int:
    """The kernel's factor for its times: 1 + log2 of at most 8 CPUs."""
    return 1 + int(math.log2(min(cpus, 8)))


def cfs(cpus: int, tick_ms: float = 4.0) -> Kernel:
    """CFS of Linux 4.x to 6.5 with its defaults on so many CPUs.

    One number is not the default: busy CPUs balance as often as idle ones. Linux makes them wait 16 times as long.
    """
    f = _scale(cpus)
    return Kernel(False, tick_ms, 6.0 * f, 0.75 * f, 1.0 * f)


def eevdf(cpus: int, tick_ms: float = 4.0) -> Kernel:
    """EEVDF of Linux 6.6 to 6.8 with its defaults on so many CPUs."""
    return replace(Kernel(True, tick_ms, base_ms=0.75 * _scale(cpus)), newidle_ms=0.05)


@dataclass(frozen=True)
class Tenant:
    """What services and jobs have in common.

    `threads` may run on `cpus` (empty: all). `weight` is that of the group (cpu.weight/100), or where the tenant is not
    `grouped` of each thread. `quota` is in CPUs a `period_ms` (cpu.max). A `priority` above 0 is SCHED_FIFO, with
    `robin` SCHED_RR; `idle` is SCHED_IDLE (cpu.idle).
    """

    threads: int
    cpus: tuple[int, ...] = ()
    weight: float = 1.0
    grouped: bool = False
    quota: float = math.inf
    period_ms: float = 100.0
    priority: int = 0
    robin: bool = False
    idle: bool = False

    def __post_init__(self) -> None:
        if self.threads < 1:
            raise ValueError(f"threads is {self.threads}, expected at least 1")
        if self.quota < math.inf and (not self.grouped or self.priority > 0):
            raise ValueError("a quota needs a group of fair threads")
        if not self.weight > 0.0 or not self.quota > 0.0 or not self.period_ms > 0.0:
            raise ValueError("weight, quota and period_ms are above 0")
        if self.priority > 0 and self.idle:
            raise ValueError("a real-time thread is not SCHED_IDLE")


@dataclass(frozen=True)
class Job(Tenant):
    """Threads that always run."""


@dataclass(frozen=True)
class Service(Tenant):
    """Threads that serve one first-come-first-served queue.

    Requests arrive at `rate` a second with a squared coefficient of variation `burstiness` (from 1: Poisson) of the
    intervals; from each time of `steps` (seconds, rate) on at another rate. With `clients` the loop is closed: each
    thinks for `think_ms` (mean, exponential) between its requests. Work is lognormal: mean `work_ms` at full speed,
    squared coefficient of variation `cv2`; with `shape` (quantiles of work at even levels, mean 1) it is drawn from
    these instead. A thread that wakes up loses `wake_cost_ms` of CPU time to cold caches where it slept longer than
    `cool_ms`. `bound`: a request belongs to the thread that it wakes
    (connections), else who runs first takes it. `lifo`: the thread that fell asleep last is woken, else who slept
    longest.
    """

    rate: float = 0.0
    work_ms: float = 1.0
    cv2: float = 1.0
    burstiness: float = 1.0
    steps: tuple[tuple[float, float], ...] = ()
    clients: int = 0
    think_ms: float = 0.0
    bound: bool = False
    lifo: bool = False
    shape: tuple[float, ...] = ()
    wake_cost_ms: float = 0.0
    cool_ms: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shape and (len(self.shape) < 2 or min(self.shape) <= 0.0):
            raise ValueError("shape has at least two quantiles, all above 0")
        if self.wake_cost_ms < 0.0 or not self.cool_ms > 0.0:
            raise ValueError("wake_cost_ms is at least 0, cool_ms above 0")
        if not self.work_ms > 0.0 or self.cv2 < 0.0 or self.burstiness < 1.0:
            raise ValueError("work_ms is above 0, cv2 at least 0, burstiness at least 1")
        times = [0.0, *(at for at, _ in self.steps)]
        if any(later <= sooner for sooner, later in pairwise(times)) or any(rate < 0.0 for _, rate in self.steps):
            raise ValueError(f"steps is {self.steps}, expected ascending times above 0, and rates of at least 0")
        if (self.clients > 0) == (self.rate > 0.0):
            raise ValueError("a service has either a rate or clients")
