"""Service-intervals per second of a fleet and of the vectorised environment on one core, and memory of 10,000 nodes.

A service-interval is one LC service or job for one interval of 1 s. "moving": loads and partitions change in every
interval, as in training; "steady": nothing changes, so that the fixed point of the step stays where it was.
"""

from __future__ import annotations

import numpy as np

from osml.lab.benchmarks.harness import rate, take
from osml.simulator import catalogs
from osml.simulator.fleet import Fleet

_NODES = 2000
_SERVICES = ("moses", "img-dnn", "xapian", "specjbb")


def _fleet(size: int, services: tuple[str, ...], jobs: tuple[str, ...], *, noise: bool) -> Fleet:
    platform = catalogs.platform("e5-2697v4")
    kinds = [*(catalogs.service(name, platform.id) for name in services), *(catalogs.job(name) for name in jobs)]
    fleet = Fleet(platform, kinds, size, len(kinds), noise=noise)
    fleet.place(range(len(kinds)))
    fleet.seed(1)
    return fleet


class _Run:
    """A fleet that was running for a while; calling it lets one interval pass everywhere."""

    def __init__(self, services: tuple[str, ...], jobs: tuple[str, ...], *, noise: bool, moving: bool):
        self.fleet = _fleet(_NODES, services, jobs, noise=noise)
        self.moving, self.n = moving, len(services)
        self.rng = np.random.default_rng(0)
        self.most = 36 // (self.n + len(jobs))
        self.fleet.nodes.cores[:, : self.n], self.fleet.nodes.ways[:, : self.n] = self.most, 20 // (self.n + len(jobs))
        self.loads = np.zeros((_NODES, self.fleet.places))
        self.loads[:, : self.n] = self.rng.uniform(0.2, 0.5, (_NODES, self.n))
        for _ in range(20):
            self.fleet.step(self.loads)

    def __call__(self) -> None:
        if self.moving:
            shape = (_NODES, self.n)
            self.loads[:, : self.n] = np.clip(self.loads[:, : self.n] + self.rng.normal(0, 0.01, shape), 0.1, 0.6)
            cores = self.fleet.nodes.cores[:, : self.n]
            cores[:] = np.clip(cores + self.rng.integers(-1, 2, shape), self.most - 3, self.most)
        self.fleet.step(self.loads)


def _environment() -> None:
    """Environment steps per second of the vector form with random actions, autoreset included."""
    from osml.simulator.environment import ColocationVectorEnv  # noqa: PLC0415 - needs the extra `gym`

    nodes = 1000
    env = ColocationVectorEnv(nodes, horizon=60)
    env.reset(seed=0)
    rng = np.random.default_rng(0)

    def steps() -> None:
        for _ in range(30):
            env.step(rng.integers(0, 49, (nodes, 4)))

    take("environment_steps", "environment steps/s", rate(30 * nodes, steps), runs=5)


def run() -> None:
    """Fleets with and without noise and jobs, moving and steady; memory; then the environment."""
    for name, jobs, noise, moving in (
        ("fleet_moving", (), True, True),
        ("fleet_moving_with_job", ("stream",), True, True),
        ("fleet_moving_without_noise", (), False, True),
        ("fleet_steady", (), True, False),
        ("fleet_steady_without_noise", (), False, False),
    ):
        fleet = _Run(_SERVICES[: 4 - len(jobs)], jobs, noise=noise, moving=moving)
        take(name, "service-intervals/s", rate(4 * _NODES, fleet))
    mib = _fleet(10_000, _SERVICES, ("stream",), noise=True).bytes / 2**20
    take("fleet_memory_10000_nodes_of_5", "MiB", lambda: mib, runs=1)
    _environment()
