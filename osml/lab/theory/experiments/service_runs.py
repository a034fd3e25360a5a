"""A service of the catalog, request by request: for the TLT theorem, whose every term is then measured by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from osml.base.failure import InputError
from osml.base.jit import compiled
from osml.lab.theory.tlt import FloatArray, counted_within
from osml.simulator.calibration.crosscheck import workload_of
from osml.simulator.models import PlatformModel, ServiceModel
from osml.simulator.queueing.event_simulation import Workload, serve
from osml.simulator.state import Grant, Node
from osml.simulator.steady import steady
from osml.simulator.surface import first_cpus

_MOST_REQUESTS = 20_000_000
_MEMORY_TIMES = 20.0


@dataclass(frozen=True)
class ServiceRun:
    """What was counted in a span of time.

    `latencies_ms` of the requests that were answered within it, `throughput_per_s` how many those are a second,
    `outstanding` the mean number of requests in the system, counted over time and not by Little's law.
    """

    workload: Workload
    seconds: float
    latencies_ms: FloatArray
    throughput_per_s: float
    outstanding: float


def workload_on(platform: PlatformModel, service: ServiceModel, load: float, cores: int, ways: int) -> Workload:
    """The queue of a service alone on so many cores and ways of a node, at a share of its max load."""
    for name, wanted, there in (("cores", cores, platform.cpus), ("ways", ways, platform.ways)):
        if not 1 <= wanted <= there:
            raise InputError(f"{name} is {wanted}, expected 1 to {there} on {platform.id}")
    node = Node(platform, (service,))
    flow = steady(node, [Grant(first_cpus(platform, cores), (1 << ways) - 1)], {service.name: load})[0]
    return workload_of(service, cores, flow, load * service.max_load)


@compiled
def _timed(
    rng: np.random.Generator, row: FloatArray, free: FloatArray, requests: int, arrival: FloatArray, latency: FloatArray
) -> None:
    """Fill the arrival and the latency of each request, in ms; the first arrives at 0."""
    clock = 0.0
    for k in range(requests):
        arrival[k] = clock
        _, _, clock = serve(rng, row, free, clock, math.inf, math.inf, latency[k : k + 1])


def run_service(workload: Workload, requests: int, seed: int = 0) -> ServiceRun:
    """Serve about so many requests and count; a start of 20 times the queue's memory is not counted.

    A queue without a stationary state (utilisation of 1 or more) is counted from its start: there Little's law does not
    hold. Raises InputError for too many requests.
    """
    if not 100 <= requests <= _MOST_REQUESTS:
        raise InputError(f"requests is {requests}, expected 100 to {_MOST_REQUESTS}")
    gap, lead = 1.0 - workload.utilisation, 0
    if gap > 0.0:
        memory = (workload.burstiness + workload.cv2) / (gap * gap) + workload.servers
        lead = int(min(_MEMORY_TIMES * memory, float(requests)))
    total = lead + requests
    arrival, latency = np.empty(total), np.empty(total)
    _timed(np.random.default_rng(seed), workload.row(), np.zeros(workload.servers), total, arrival, latency)
    begin, end = float(arrival[lead]), float(arrival[-1])
    latencies, throughput, outstanding = counted_within(arrival, arrival + latency, begin, end)
    return ServiceRun(workload, (end - begin) / 1000.0, latencies, throughput, outstanding)
