"""Requests per second of the event simulation, one at a time through queues of several sizes."""

from __future__ import annotations

from osml.lab.benchmarks.harness import rate, take
from osml.simulator.queueing.event_simulation import Workload, long_run

_REQUESTS = 2_000_000


def run() -> None:
    """Poisson arrivals at 80 % utilisation; the last one is bursty."""
    for servers, burstiness in ((1, 1.0), (8, 1.0), (36, 1.0), (8, 3.0)):
        workload = Workload(1.0, 0.3, 800.0 * servers, servers, burstiness)
        name = f"event_simulation_{servers}_servers" + ("_bursty" if burstiness > 1 else "")
        take(name, "requests/s", rate(_REQUESTS, lambda workload=workload: long_run(workload, _REQUESTS, seed=1)))
