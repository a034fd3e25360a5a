"""Random mixes of services and a job on shared CPUs: the analytic node beside the simulation of the scheduler.

python -m osml.lab.studies.scheduler.mixes [draws]
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from osml.lab.studies.scheduler.analytic import plain_job, plain_platform, plain_service
from osml.lab.studies.scheduler.model import Job, Machine, Service, cfs
from osml.lab.studies.scheduler.simulation import simulate
from osml.simulator.columns import FloatArray
from osml.simulator.state import Flow, Grant, Node
from osml.simulator.steady import steady


class Draw(NamedTuple):
    """Services and the threads of a job that share so many CPUs, as plain threads or in CPU groups."""

    cpus: int
    jobs: int
    grouped: bool
    services: list[Service]


def draw(rng: np.random.Generator) -> Draw:
    """3 to 12 CPUs, one to three services of 0.1 to 6 ms a request, and up to two job threads more than CPUs."""
    cpus, count = int(rng.integers(3, 13)), int(rng.integers(1, 4))
    jobs, grouped = int(rng.integers(0, cpus + 3)), bool(rng.random() < 0.4)
    wanted = rng.dirichlet(np.ones(count) * 2) * rng.uniform(0.2, 0.75) * cpus * (0.9 if jobs == 0 else 0.7)
    services: list[Service] = []
    for share in wanted:
        work = float(0.1 * 60.0 ** rng.random())
        threads = int(rng.choice([4, 8, cpus, 2 * cpus]))
        used = min(float(share), 0.8 * min(threads, cpus))
        cv2 = float(rng.choice([0.07, 0.3, 1.0]))
        services.append(Service(threads, rate=used / work * 1000.0, work_ms=work, cv2=cv2, grouped=grouped))
    return Draw(cpus, jobs, grouped, services)


def simulated(one: Draw) -> list[tuple[float, float]]:
    """(p95, p99) in ms of each service, request by request."""
    seconds = min(max(6000.0 / min(service.rate for service in one.services), 8.0), 40.0)
    tenants = [*one.services, *([Job(one.jobs, grouped=one.grouped)] if one.jobs else [])]
    found = simulate(Machine(one.cpus), cfs(10), tenants, seconds, seconds * 0.2, bin_s=1.0)
    return [(run.quantile(0.95), run.quantile(0.99)) for run in found.tenants[: len(one.services)]]


def analytic(one: Draw) -> list[Flow]:
    """The same on the node: programs that use no memory."""
    platform = plain_platform(one.cpus, False, 1.0, one.grouped, 3.0)
    services = tuple(
        replace(plain_service(platform, s.rate, s.work_ms, s.cv2, s.threads), name=f"service-{i}")
        for i, s in enumerate(one.services)
    )
    node = Node(platform, services, (plain_job(one.jobs),) if one.jobs else ())
    everything = [Grant(frozenset(range(one.cpus)), (1 << platform.ways) - 1)] * len(node.tenants)
    return steady(node, everything, {service.name: 1.0 for service in services}, 60.0)


def errors(draws: int, seed: int = 1) -> FloatArray:
    """|ln(node/simulation)| of p95 and p99, (services, 2)."""
    rng, found = np.random.default_rng(seed), list[tuple[float, float]]()
    for _ in range(draws):
        one = draw(rng)
        for flow, (p95, p99) in zip(analytic(one), simulated(one), strict=False):
            found.append((abs(np.log((flow.p95_ms or 1e9) / p95)), abs(np.log((flow.p99_ms or 1e9) / p99))))
    return np.array(found)


def main(draws: int) -> None:
    """Print the errors."""
    found = errors(draws)
    for name, column in (("p95", found[:, 0]), ("p99", found[:, 1])):
        print(f"{name}: {len(column)} services, median {np.median(column):.2f}, mean {column.mean():.2f}, "
              f"90 % below {np.quantile(column, 0.9):.2f}")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
