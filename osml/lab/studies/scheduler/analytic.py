"""The same cases on the analytic node: programs that use no memory, a clock of 1 GHz, no network and no disk."""

from __future__ import annotations

import math
from dataclasses import fields, replace

from osml.lab.studies.scheduler.laws import Delays
from osml.simulator import catalogs
from osml.simulator.engine import advance
from osml.simulator.models import JobModel, MemoryBehaviour, PlatformModel, ServiceModel
from osml.simulator.queueing import quantile
from osml.simulator.state import Flow, Grant, Node, initial_state

_NOTHING = ("stack_ms", "serial_ms", "disk_ios", "pages", "network_kib", "device_kib", "switch_cost")


def plain_memory(memory: MemoryBehaviour) -> MemoryBehaviour:
    """A program that only computes."""
    return replace(memory, cpi=1.0, apki=0.0, footprint_mib=1.0, power=1.0)


def plain_platform(cpus: int, smt: bool, smt_speed: float, grouped: bool, slice_ms: float) -> PlatformModel:
    """A machine of 1 GHz whose clock never changes."""
    cores = cpus // 2 if smt else cpus
    return replace(
        catalogs.platform(catalogs.platform_names()[0]), cpus=cpus, physical_cores=cores, frequency_ghz=1.0,
        all_core_ghz=1.0, turbo_ghz=1.0, smt_speed=smt_speed, cpu_groups=grouped, time_slice_ms=slice_ms,
    )  # fmt: skip


def plain_service(platform: PlatformModel, rate: float, work_ms: float, cv2: float, threads: int) -> ServiceModel:
    """A service that only computes, `work_ms` a request."""
    first = catalogs.service(catalogs.service_names()[0])
    nothing = {field.name: 0.0 for field in fields(first) if field.name in _NOTHING}
    return replace(
        first, platform=platform.id, max_load=rate, threads=threads, instructions=work_ms * 1e6, cv2=cv2,
        burstiness=1.0, usable=1.0, queue_limit_s=1e6, memory=plain_memory(first.memory), **nothing,
    )  # fmt: skip


def plain_job(threads: int) -> JobModel:
    """A job that only computes, on so many threads."""
    first = catalogs.job(catalogs.job_names()[0])
    return replace(first, threads=threads, disk_mbps=0.0, network_gbps=0.0, memory=plain_memory(first.memory))


def node_flows(
    loads: list[float],
    cpus: int,
    rate: float,
    work_ms: float,
    cv2: float,
    threads: int,
    *,
    jobs: int = 0,
    quota: float | None = None,
    period_ms: float = 100.0,
    weight: float = 1.0,
    grouped: bool = True,
    smt: bool = False,
    smt_speed: float = 1.0,
    slice_ms: float = 3.0,
) -> list[Flow]:
    """What the service does in each second at these loads (of `rate`), on the analytic node."""
    platform = plain_platform(cpus, smt, smt_speed, grouped, slice_ms)
    service = plain_service(platform, rate, work_ms, cv2, threads)
    every, ways = frozenset(range(cpus)), (1 << platform.ways) - 1
    grants = [Grant(every, ways, cpu_quota=quota, cpu_period_ms=period_ms, cpu_weight=100.0 * weight)]
    programs: tuple[JobModel, ...] = ()
    if jobs:
        programs = (plain_job(jobs),)
        grants.append(Grant(every, ways))
    node = Node(platform, (service,), programs)
    state, flows = initial_state(node), list[Flow]()
    for load in loads:
        state, found = advance(node, state, grants, {service.name: load}, 1.0)
        flows.append(found[0])
    return flows


def law_quantile(level: float, work_ms: float, cv2: float, delays: Delays) -> float:
    """Response time in ms at a level under a law, by the node's distribution."""
    if not math.isfinite(delays.wait_ms):
        return math.inf
    return float(quantile(level, work_ms, max(cv2, 1e-6), *delays))
