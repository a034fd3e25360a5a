"""The analytic engine against the event simulation: the same service times, servers and arrivals, two ways to latency.

Which cells. Services x cores x ways x utilisations. The load is searched at which the engine itself shows a
utilisation, so cache, memory bandwidth and clock are those of that load; from the settled flow come the service time,
the servers and the delays outside of the CPU, and the event simulation makes latencies of them without any formula.
Disk, network, serial parts and siblings are made not to matter, and there are no more threads than cores: what is
checked is the queue for the CPUs, up to its saturation.

How long. Near saturation a queue remembers its past for (ca2 + cs2)/(1 - u)^2 requests, so the relative error of a
simulated mean is sqrt(2 (ca2 + cs2)/requests)/(1 - u), and that of a p99 about twice as large. Runs are as long as
keeps the 95 % confidence interval of p99 at about 3 %: 150 thousand requests at half load, 30 million at 98 % (there it
is up to 8 %; every cell says its own). That would take many minutes for all
cells. So (1) a run in units of its service time is shared by all cells that differ only in that unit (the ways of one
service mostly do: once the utilisation is given, the cache only shows in the service time); (2) of the costly cells
(from 90 % up) a third, a sixth or a fourteenth of cores x services is looked at, in turn, each with one choice of ways,
as in overload; (3) very bursty arrivals near saturation, which would need billions of requests, are left out and
counted.

Stationary or finite. Below saturation the engine is asked after a load that stayed for long, and compared with a long
run: its queues build up as real ones do, which takes minutes for requests of a second. What carries over from interval
to interval is the backlog that grows above saturation. In overload one interval is compared, which starts with the
backlog that the engine says, over many seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from osml.simulator.models import PlatformModel, ServiceModel
from osml.simulator.queueing.event_simulation import Workload, long_run, window
from osml.simulator.state import Flow, Grant, Node
from osml.simulator.steady import MEASURED_S, steady
from osml.simulator.surface import first_cpus

UTILISATIONS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
OVERLOADS = (1.05, 1.2, 1.5)
_COSTLY = ((3_000_000, 3), (10_000_000, 6), (25_000_000, 14))
"""Of cells that need more requests than this, one in so many is simulated."""

_MOST_REQUESTS = 30_000_000
_OUT_OF_REACH = 5 * _MOST_REQUESTS
_MEAN_ERROR = 0.0075  # standard error of a simulated mean; a quarter of the 95 % interval of p99
_LEAST_REQUESTS = 150_000
_OVERLOAD_REQUESTS = 60_000
_MOST_SEEDS = 400
_MOST_OVERLOAD_S = 600.0
_SEARCH_ROUNDS = 30
_STATIONARY_S = 1e6
"""After so long the queue of every service has built up: sphinx, with requests of a second, takes minutes."""


@dataclass(frozen=True)
class Latencies:
    """Response times in ms."""

    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True)
class Cell:
    """One point of the grid. `p99_error` is half the relative 95 % interval of the simulated p99 (None in overload).

    In overload `backlog` is what waits after the interval by the engine and by the simulation (mean over the seeds).
    """

    service: str
    cores: int
    ways: int
    utilisation: float
    service_ms: float
    arrivals_per_s: float
    servers: int
    analytic: Latencies
    simulated: Latencies
    p99_error: float | None
    backlog: tuple[float, float] | None

    @property
    def rel_error(self) -> float:
        """Of the analytic p99; signed."""
        return self.analytic.p99_ms / self.simulated.p99_ms - 1.0


@dataclass(frozen=True)
class Report:
    """All cells of a grid, and how many were left out.

    `unreached`: at no load the engine shows this utilisation of its CPUs. `too_long`: no affordable run is precise.
    """

    cells: list[Cell]
    unreached: int
    too_long: int

    @property
    def median_rel_error(self) -> float:
        """Median of the absolute relative errors of p99."""
        return median(abs(cell.rel_error) for cell in self.cells)

    @property
    def worst_rel_error(self) -> float:
        """Largest absolute relative error of p99."""
        return max(abs(cell.rel_error) for cell in self.cells)


def core_grid(platform: PlatformModel) -> list[int]:
    """Powers of two, and all CPUs."""
    return sorted({1 << k for k in range(8) if 1 << k < platform.cpus} | {platform.cpus})


def way_grid(platform: PlatformModel) -> list[int]:
    """Few, half and all ways."""
    return sorted({max(1, platform.ways // 10), platform.ways // 2, platform.ways})


def flow_at(
    platform: PlatformModel, service: ServiceModel, cores: int, ways: int, utilisation: float, seconds: float
) -> tuple[Flow, float]:
    """(settled flow of the service alone at this utilisation, its arrivals/s) after `seconds` of that load."""
    roomy = replace(platform, disk_iops=1e9, disk_mbps=1e9, network_gbps=1e6, smt_speed=1.0)
    grants = [Grant(first_cpus(platform, cores), (1 << ways) - 1)]
    arrivals = service.max_load
    flow = None
    for turn in range(_SEARCH_ROUNDS):
        scaled = replace(service, max_load=arrivals, serial_ms=0.0, threads=min(service.threads, cores))
        flow = steady(Node(roomy, (scaled,)), grants, {service.name: 1.0}, seconds)[0]
        if abs(flow.utilisation / utilisation - 1.0) < 1e-6:
            break
        arrivals *= (utilisation / flow.utilisation) ** (1.0 if turn < _SEARCH_ROUNDS // 3 else 0.5)
    assert flow is not None  # noqa: S101 - _SEARCH_ROUNDS is not 0
    return flow, arrivals


def workload_of(service: ServiceModel, cores: int, flow: Flow, arrivals: float) -> Workload:
    """What the event simulation needs to know of a flow: no wait and no percentile is taken over."""
    response = flow.response
    if response is None:
        raise ValueError(f"{service.name} on {cores} cores completed nothing, expected a load above 0")
    cpu_ms = flow.cpu_s / flow.requests * 1000.0
    return Workload(
        response.service_ms,
        service.cv2,
        arrivals,
        min(service.threads, cores),
        service.burstiness,
        response.delay_probability,
        response.delay_ms,
        cpu_ms / service.usable / response.service_ms,
    )


def requests_for(variability: float, utilisation: float) -> int:
    """How many requests a long run needs for its precision; `variability` is ca2 + cs2."""
    return max(_LEAST_REQUESTS, int(2.0 * variability / ((1.0 - utilisation) * _MEAN_ERROR) ** 2))


class _LongRuns:
    """Long runs in units of the service time, each done once."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._done: dict[Workload, tuple[Latencies, float]] = {}

    def __call__(self, workload: Workload) -> tuple[Latencies, float]:
        unit = workload.service_ms
        hold = round(workload.hold, 3)
        arrivals = round(workload.utilisation, 4) * workload.servers / hold * 1000.0
        delay = float(f"{workload.delay_ms / unit:.2g}") if workload.delay_probability > 0 else 0.0
        key = replace(
            workload,
            service_ms=1.0,
            arrivals_per_s=arrivals,
            hold=hold,
            delay_ms=delay,
            delay_probability=round(workload.delay_probability, 3),
        )
        if key not in self._done:
            requests = min(requests_for(key.burstiness + key.cv2, key.utilisation), _MOST_REQUESTS)
            found = long_run(key, requests, self._seed + len(self._done))
            self._done[key] = Latencies(*found.percentiles), found.p99_error
        shown, error = self._done[key]
        return Latencies(shown.mean_ms * unit, shown.p50_ms * unit, shown.p95_ms * unit, shown.p99_ms * unit), error


def _analytic(flow: Flow) -> Latencies:
    if flow.mean_ms is None or flow.p50_ms is None or flow.p95_ms is None or flow.p99_ms is None:
        raise ValueError("the flow completed nothing, expected a load above 0")
    return Latencies(flow.mean_ms, flow.p50_ms, flow.p95_ms, flow.p99_ms)


def _overload_seconds(service: ServiceModel, cores: int, flow: Flow, utilisation: float) -> float:
    """How long an overload lasts before it is looked at: until chance is little beside the backlog."""
    servers = min(service.threads, cores)
    spread = math.sqrt((flow.service_ms or 0.0) / 1000.0 * (service.burstiness + service.cv2) / servers)  # sqrt(s)
    return float(math.ceil(min(max(5.0, 25.0 * spread / (utilisation - 1.0)), _MOST_OVERLOAD_S)))


def _overloaded(workload: Workload, flow: Flow, seed: int) -> tuple[Latencies, float]:
    """(response times of those who arrive in the last interval, backlog after it) over so many seeds as it takes."""
    rate = flow.requests / flow.dt
    before = round(flow.backlog_ms[0] / 1000.0 * rate)
    seeds = min(max(1, math.ceil(_OVERLOAD_REQUESTS / (workload.arrivals_per_s * MEASURED_S))), _MOST_SEEDS)
    runs = [window(workload, MEASURED_S, seed + k, before) for k in range(seeds)]
    all_ms = np.concatenate([run.latencies_ms for run in runs])
    p50, p95, p99 = (float(x) for x in np.quantile(all_ms, [0.50, 0.95, 0.99]))
    return Latencies(float(all_ms.mean()), p50, p95, p99), float(np.mean([run.backlog for run in runs]))


def crosscheck(
    platform: PlatformModel,
    services: Sequence[ServiceModel],
    seed: int = 0,
    cores: Sequence[int] | None = None,
    ways: Sequence[int] | None = None,
    utilisations: Sequence[float] = UTILISATIONS + OVERLOADS,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Compare both over the grid; `progress` is told (cells done, cells in all). Same seed, same report."""
    runs = _LongRuns(seed)
    cells: list[Cell] = []
    unreached = 0
    plan, too_long = _plan(services, cores or core_grid(platform), ways or way_grid(platform), utilisations)
    for number, (service, n_cores, n_ways, utilisation) in enumerate(plan):
        if progress is not None:
            progress(number, len(plan))
        settled_s = 2.0 * MEASURED_S if utilisation > 1.0 else _STATIONARY_S
        flow, arrivals = flow_at(platform, service, n_cores, n_ways, utilisation, settled_s)
        if utilisation > 1.0:
            seconds = _overload_seconds(service, n_cores, flow, utilisation)
            flow, arrivals = flow_at(platform, service, n_cores, n_ways, utilisation, seconds)
        workload = workload_of(service, n_cores, flow, arrivals)
        if max(abs(workload.utilisation / utilisation - 1.0), abs(flow.utilisation / utilisation - 1.0)) > 0.005:
            unreached += 1
            continue
        error = backlog = None
        if utilisation > 1.0:
            simulated, left = _overloaded(workload, flow, seed)
            backlog = (flow.backlog_ms[1] / 1000.0 * flow.requests / flow.dt, left)
        else:
            simulated, error = runs(workload)
        cells.append(
            Cell(
                service.name,
                n_cores,
                n_ways,
                utilisation,
                workload.service_ms,
                arrivals,
                workload.servers,
                _analytic(flow),
                simulated,
                error,
                backlog,
            )
        )
    return Report(cells, unreached, too_long)


def _plan(
    services: Sequence[ServiceModel], cores: Sequence[int], ways: Sequence[int], utilisations: Sequence[float]
) -> tuple[list[tuple[ServiceModel, int, int, float]], int]:
    """(the cells to look at, costly ones in turn; how many are out of reach)."""
    plan: list[tuple[ServiceModel, int, int, float]] = []
    too_long = 0
    for at, service in enumerate(services):
        for row, n_cores in enumerate(cores):
            for utilisation in utilisations:
                requests = 0 if utilisation > 1.0 else requests_for(service.burstiness + service.cv2, utilisation)
                if requests > _OUT_OF_REACH:
                    too_long += len(ways)
                    continue
                one_in = max([share for limit, share in _COSTLY if requests > limit], default=1)
                if (at + row) % one_in:
                    continue
                chosen = ways if one_in == 1 and utilisation < 1.0 else [ways[(at + row // one_in) % len(ways)]]
                plan += [(service, n_cores, n_ways, utilisation) for n_ways in chosen]
    return plan, too_long
