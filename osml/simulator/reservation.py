"""One service beside jobs, its memory bandwidth reserved: the arrangement of OMBM (Sung et al., 2018, section 3).

The service has one core, half of the cache (section 3.3; or any other part of both) and a reservation that it cannot
exceed; the jobs have the other cores, the other half and the rest of the bandwidth. STREAM as the only job is the worst
contention (section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from osml.simulator import catalogs
from osml.simulator.models import PlatformModel, ServiceModel
from osml.simulator.physics.memory import MAX_UTILISATION
from osml.simulator.state import Flow, Grant, Node
from osml.simulator.steady import steady

RUN_S = 60.0
"""Length of one measurement. The paper does not say; tails are those of the last second."""

WORST = ("stream",)
_LEAST_PERCENT = 0.5  # of the peak: what is left to the jobs where the service has all


def reserved_node(platform: PlatformModel, service: ServiceModel, jobs: Sequence[str] = WORST, cpus: int = 1) -> Node:
    """The service on so many CPUs, and the jobs, each of these with one thread per CPU that is left."""
    others = platform.cpus - cpus
    models = tuple(replace(job, threads=min(job.threads, others)) for job in map(catalogs.job, jobs))
    return Node(platform, (service,), models)


def reserving(
    platform: PlatformModel, bandwidth_gbps: float, n_jobs: int = 1, cpus: int = 1, ways: int | None = None
) -> list[Grant]:
    """Grants of `reserved_node`: so much for the service, equal parts of the rest for the jobs.

    A job's grant is the same whatever the other jobs do; so is the service's.
    """
    ways = platform.ways // 2 if ways is None else ways
    own = 100.0 * bandwidth_gbps / platform.bandwidth_gbps
    rest = max(100.0 - own, _LEAST_PERCENT) / max(n_jobs, 1)
    job = Grant(frozenset(range(cpus, platform.cpus)), (1 << (platform.ways - ways)) - 1, mba_percent=rest)
    mask = ((1 << ways) - 1) << (platform.ways - ways)
    return [Grant(frozenset(range(cpus)), mask, mba_percent=min(own, 100.0)), *[job] * n_jobs]


def moved_share(platform: PlatformModel) -> float:
    """GB/s that a tenant can move for each GB/s of its reservation, which is a share of the peak."""
    return platform.usable_bandwidth * MAX_UTILISATION


def reserved_flows(
    platform: PlatformModel,
    service: ServiceModel,
    load: float,
    bandwidth_gbps: float,
    jobs: Sequence[str] = WORST,
    seconds: float = RUN_S,
    cpus: int = 1,
    ways: int | None = None,
) -> list[Flow]:
    """The service (first) and the jobs, so many seconds after the load (a fraction of max load) began."""
    node = reserved_node(platform, service, jobs, cpus)
    grants = reserving(platform, bandwidth_gbps, len(jobs), cpus, ways)
    return steady(node, grants, {service.name: load}, seconds)
