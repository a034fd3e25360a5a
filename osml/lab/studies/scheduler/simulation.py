"""The way in: descriptions and a seed in, what every tenant did out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from osml.lab.studies.scheduler import columns as c
from osml.lab.studies.scheduler.columns import FloatArray
from osml.lab.studies.scheduler.groups import group_entity
from osml.lab.studies.scheduler.loop import simulate_node
from osml.lab.studies.scheduler.model import IDLE_WEIGHT, Job, Kernel, Machine, Service


@dataclass(frozen=True)
class Outcome:
    """What one tenant did after the warm-up.

    `arrived_s` and `response_ms` belong to each request that arrived, NaN where it was not done at the end. `bins` are
    the sums of each bin, shape (bins, columns.SUM_COLUMNS), of the whole run.
    """

    seconds: float
    arrived_s: FloatArray
    work_ms: FloatArray
    response_ms: FloatArray
    sums: FloatArray
    bins: FloatArray
    left_ms: float

    def quantile(self, level: float) -> float:
        """Response time in ms at a level, of the requests that were done."""
        done = self.response_ms[np.isfinite(self.response_ms)]
        return float(np.quantile(done, level)) if len(done) else math.nan

    @property
    def mean_ms(self) -> float:
        """Mean response time."""
        return float(np.nanmean(self.response_ms))

    @property
    def cpus(self) -> float:
        """CPUs that it kept busy."""
        return float(self.sums[c.A_CPU]) / self.seconds / 1000.0

    @property
    def throughput(self) -> float:
        """Requests that were done, a second."""
        return float(self.sums[c.A_COMPLETED]) / self.seconds

    @property
    def work_rate(self) -> float:
        """Work that was done, in CPUs of full speed."""
        return float(self.sums[c.A_WORK]) / self.seconds / 1000.0

    @property
    def sibling_busy(self) -> float:
        """Share of its running time in which the sibling was busy."""
        return float(self.sums[c.A_BESIDE] / max(self.sums[c.A_CPU], 1e-300))

    @property
    def throttled_s(self) -> float:
        """Time that its CPUs were throttled, summed over CPUs."""
        return float(self.sums[c.A_THROTTLED]) / 1000.0


@dataclass(frozen=True)
class Run:
    """Outcomes in the order of the tenants, and how many events it took."""

    tenants: tuple[Outcome, ...]
    events: int


def _arrivals(rng: np.random.Generator, service: Service, seconds: float) -> FloatArray:
    """Arrival times in ms: a renewal process of rate 1, stretched to the rates."""
    starts = [0.0, *(at for at, _ in service.steps)]
    rates = [service.rate, *(rate for _, rate in service.steps)]
    times = np.array([*starts, max(seconds, starts[-1]) + 1.0])
    passed = np.concatenate([[0.0], np.cumsum(np.diff(times) * np.array(rates))])
    total = float(passed[-1])
    n = int(total + 8.0 * math.sqrt(total * service.burstiness) + 50.0)
    intervals = rng.standard_exponential(n)
    if service.burstiness > 1.0:  # two phases that carry equal loads
        p = 0.5 * (1.0 + math.sqrt((service.burstiness - 1.0) / (service.burstiness + 1.0)))
        phase = np.where(rng.random(n) < p, p, 1.0 - p)
        intervals /= 2.0 * phase
    unit = np.cumsum(intervals)
    keep = unit < total
    return np.interp(unit[keep], passed, times) * 1000.0


def _requests(rng: np.random.Generator, service: Service, seconds: float) -> FloatArray:
    """Rows (arrival, work, NaN or a draw of think time), as Node.requests."""
    if service.clients > 0:
        fastest = min(service.clients / max(service.think_ms, 1e-9), 2.0 * service.threads / service.work_ms)
        n = int(fastest * seconds * 1000.0 * 1.2 + 1000.0)
        arrivals = np.full(n, np.nan)
    else:
        arrivals = _arrivals(rng, service, seconds)
        n = len(arrivals)
    sigma = math.sqrt(math.log1p(service.cv2))
    if service.shape:
        work = service.work_ms * np.interp(rng.random(n), np.linspace(0.0, 1.0, len(service.shape)), service.shape)
    else:
        work = service.work_ms * np.exp(sigma * rng.standard_normal(n) - 0.5 * sigma * sigma)
    draws = rng.standard_exponential(n) if service.clients > 0 else np.full(n, np.nan)
    return np.stack([arrivals, work, draws], axis=1)


def _describe(node: c.Node, machine: Machine, t: int, tenant: Job | Service, first: int) -> None:
    """Fill the rows of one tenant and its threads."""
    row, info, cpus = node.tenant[t], node.info[t], machine.cpus
    row[c.T_WEIGHT] = IDLE_WEIGHT if tenant.idle else tenant.weight
    row[c.T_QUOTA], row[c.T_PERIOD] = tenant.quota * tenant.period_ms, tenant.period_ms
    # Timers start at odd times, so that no period runs in step with the ticks.
    row[c.T_POOL], row[c.T_REFILL], row[c.T_SLACK] = row[c.T_QUOTA], tenant.period_ms + 1.3 * (t + 1), 1e18
    row[c.T_NEXT] = math.inf
    speeds = machine.speeds
    for other in range(node.sizes[c.S_TENANTS]):
        row[c.T_SPEED + other] = speeds if isinstance(speeds, int | float) else speeds[t][other]
    info[c.I_SERVICE], info[c.I_GROUP] = isinstance(tenant, Service), tenant.grouped
    info[c.I_PRIORITY], info[c.I_IDLE], info[c.I_ROBIN] = tenant.priority, tenant.idle, tenant.robin
    info[c.I_FIRST], info[c.I_THREADS], info[c.I_THINKING] = first, tenant.threads, -1
    own = sorted(set(tenant.cpus)) or list(range(cpus))
    if own[0] < 0 or own[-1] >= cpus:
        raise ValueError(f"tenant {t} has CPUs {own[0]} to {own[-1]}, the machine has 0 to {cpus - 1}")
    node.may[t, own] = 1
    weight = 1.0 if tenant.grouped else row[c.T_WEIGHT]
    for k in range(tenant.threads):
        node.link[first + k, c.L_TENANT], node.link[first + k, c.L_CPU] = t, own[k % len(own)]
        node.entity[first + k, c.E_WEIGHT] = weight
        node.asleep[t, k] = first + k
    if isinstance(tenant, Service):
        info[c.I_BOUND], info[c.I_LIFO], info[c.I_ASLEEP] = tenant.bound, tenant.lifo, tenant.threads
        row[c.T_THINK], row[c.T_WAKE], row[c.T_COOL] = tenant.think_ms, tenant.wake_cost_ms, tenant.cool_ms


def _node(
    machine: Machine, kernel: Kernel, tenants: Sequence[Job | Service], seconds: float, seed: int
) -> tuple[c.Node, FloatArray, list[int]]:
    """The node at time 0, all requests, and where those of each tenant begin and end."""
    n, threads = len(tenants), sum(tenant.threads for tenant in tenants)
    if machine.cpus > c.MAX_CPUS or threads > c.MAX_THREADS or not 0 < n <= c.MAX_TENANTS:
        raise ValueError(
            f"{machine.cpus} CPUs, {threads} threads, {n} tenants, expected at most {c.MAX_CPUS}, {c.MAX_THREADS}, "
            f"and 1 to {c.MAX_TENANTS}"
        )
    speeds = machine.speeds
    if not isinstance(speeds, int | float) and (len(speeds) != n or any(len(row) != n for row in speeds)):
        raise ValueError(f"speeds is {speeds}, expected a number, or {n} rows of {n} numbers for {n} tenants")
    # A stream a tenant: adding one leaves the requests of the others as they are.
    seeds = np.random.SeedSequence(seed).spawn(n)
    rows = [
        _requests(np.random.default_rng(own), tenant, seconds) if isinstance(tenant, Service) else np.empty((0, 3))
        for own, tenant in zip(seeds, tenants, strict=True)
    ]
    ends = np.cumsum([0, *(len(part) for part in rows)]).tolist()
    node, requests = c.empty_node(machine.cpus, n), np.concatenate([*rows, np.empty((1, 3))])
    first = 0
    for t, tenant in enumerate(tenants):
        _describe(node, machine, t, tenant, first)
        first += tenant.threads
        info = node.info[t]
        info[c.I_BEGIN] = info[c.I_HEAD] = info[c.I_TAIL] = ends[t]
        info[c.I_END] = ends[t + 1]
        if isinstance(tenant, Service) and tenant.clients > 0:
            info[c.I_THINKING] = tenant.clients
            node.tenant[t, c.T_NEXT] = requests[ends[t], 2] * tenant.think_ms / tenant.clients
    if machine.smt:
        half = machine.cpus // 2
        for cpu in range(machine.cpus):
            node.number[cpu, c.N_SIBLING] = (cpu + half) % machine.cpus
    for t in range(n):
        for cpu in range(machine.cpus):
            e = group_entity(t, cpu)
            node.link[e, c.L_TENANT], node.link[e, c.L_CPU] = t, cpu
            node.entity[e, c.E_WEIGHT] = node.tenant[t, c.T_WEIGHT]
    k = node.kernel
    k[c.K_EEVDF], k[c.K_TICK], k[c.K_LATENCY] = kernel.eevdf, kernel.tick_ms, kernel.latency_ms
    k[c.K_MIN], k[c.K_WAKE], k[c.K_BASE], k[c.K_PARITY] = (
        kernel.min_ms, kernel.wake_ms, kernel.base_ms, kernel.run_to_parity,
    )  # fmt: skip
    k[c.K_ROBIN], k[c.K_SWITCH], k[c.K_REFILL] = kernel.robin_ms, kernel.switch_us / 1000.0, kernel.refill_ms
    k[c.K_HOT], k[c.K_NEWIDLE], k[c.K_BALANCE] = kernel.hot_ms, kernel.newidle_ms, kernel.balance_ms
    k[c.K_BUSY_FACTOR], k[c.K_ACTIVE], k[c.K_CORE_FIRST] = kernel.busy_factor, kernel.active_every, kernel.core_first
    k[c.K_QUOTA_SLICE], k[c.K_ANY_RT] = kernel.quota_slice_ms, any(tenant.priority > 0 for tenant in tenants)
    k[c.K_ANY_IDLE], k[c.K_IDLE_CPUS] = any(tenant.idle for tenant in tenants), machine.cpus
    k[c.K_NOISE] = 1.0 + seed % 2147483646
    return node, requests, ends


def simulate(
    machine: Machine,
    kernel: Kernel,
    tenants: Sequence[Job | Service],
    seconds: float,
    warmup_s: float = 0.0,
    seed: int = 1,
    bin_s: float = 0.1,
) -> Run:
    """Run a node for so many seconds (whole bins). The same seed gives the same result."""
    bins, skipped = max(round(seconds / bin_s), 1), round(warmup_s / bin_s)
    if not 0 <= skipped < bins:
        raise ValueError(f"warmup_s is {warmup_s}, expected less than the {seconds} s of the run")
    node, requests, ends = _node(machine, kernel, tenants, seconds, seed)
    snapshots = np.zeros((bins, len(tenants), c.SUM_COLUMNS))
    simulate_node(node, requests, bin_s * 1000.0, snapshots)
    outcomes: list[Outcome] = []
    for t in range(len(tenants)):
        rows = requests[ends[t] : node.info[t, c.I_TAIL]]
        rows = rows[rows[:, 0] >= warmup_s * 1000.0]
        before = snapshots[skipped - 1, t] if skipped else np.zeros(c.SUM_COLUMNS)
        queued = requests[node.info[t, c.I_HEAD] : node.info[t, c.I_TAIL], 1].sum()
        first, count = node.info[t, c.I_FIRST], node.info[t, c.I_THREADS]
        held = node.entity[first : first + count, c.E_LEFT][node.link[first : first + count, c.L_REQUEST] >= 0].sum()
        outcomes.append(
            Outcome(
                (bins - skipped) * bin_s,
                rows[:, 0] / 1000.0,
                rows[:, 1],
                rows[:, 2],
                snapshots[-1, t] - before,
                np.diff(snapshots[:, t], axis=0, prepend=0.0),
                float(queued + held),
            )
        )
    return Run(tuple(outcomes), int(node.kernel[c.K_EVENTS]))
