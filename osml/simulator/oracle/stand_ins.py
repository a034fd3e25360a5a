"""Stand-ins: tenants that disturb a service no more than the real ones would, whatever the partition.

What one tenant does to another with CPUs and ways of its own is: it draws power (the clock falls), moves memory, reads
the cache, uses memory, disk and network. A stand-in does all this as the real tenant does at the best that it may get
(most cores and ways), but in 1/SCALE of the CPU time: it never disturbs by hyperthreads. A service that misses its
target beside the stand-ins therefore misses it beside the real tenants in any partition that gives them no more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from osml.simulator.models import JobModel, MemoryBehaviour, PlatformModel, ServiceModel
from osml.simulator.physics.cache import miss_ratio
from osml.simulator.physics.memory import MAX_UTILISATION, rise

SCALE = 1e4


def _shrunk(
    memory: MemoryBehaviour, ways: int, platform: PlatformModel, cpu_scale: float, slower: float
) -> MemoryBehaviour:
    """The same accesses and traffic out of 1/cpu_scale of the CPU time, the least power (both siblings of each core
    busy, which count as one); misses as on `ways` ways, always.
    """
    held = ways * platform.way_mib
    least = platform.physical_cores / platform.cpus
    missed = miss_ratio(memory.miss_min, memory.working_set_mib, memory.steepness, held)
    return replace(
        memory,
        cpi=memory.cpi * slower,
        apki=memory.apki * cpu_scale,
        mlp=memory.mlp * cpu_scale / slower,
        miss_min=missed,
        working_set_mib=1e-9,
        steepness=1.0,
        power=memory.power * cpu_scale * least,
    )


def of_service(service: ServiceModel, platform: PlatformModel, cores: int, ways: int) -> ServiceModel:
    """The stand-in of a service that gets at most so many cores and ways."""
    switching = 1.0 + service.switch_cost * max(0.0, math.log2(service.threads / cores))
    return replace(
        service,
        threads=1,
        instructions=service.instructions / SCALE,
        switch_cost=0.0,
        memory=_shrunk(service.memory, ways, platform, SCALE, switching),
    )


def least_share_served(target_ms: float, seconds: float) -> float:
    """Share of its requests that a service within its target has answered, at least: the rest is a tolerated backlog.

    After `seconds` of too little capacity the last request waits (arrivals/capacity - 1) x seconds.
    """
    return 1.0 / (1.0 + target_ms / 1000.0 / seconds)


def shares_of_jobs(jobs: Sequence[JobModel], cores: int) -> list[float]:
    """CPUs of jobs that share so many cores: equal, but nobody gets more than its threads."""
    shares = [0.0] * len(jobs)
    left, growing = float(cores), list(range(len(jobs)))
    while growing and left > 1e-9:
        level = left / len(growing)
        full = [i for i in growing if jobs[i].threads - shares[i] <= level]
        for i in full or growing:
            more = jobs[i].threads - shares[i] if full else level
            shares[i] += more
            left -= more
        growing = [i for i in growing if i not in full] if full else []
    return shares


def of_job(job: JobModel, platform: PlatformModel, cpus: float, ways: int) -> JobModel:
    """The stand-in of a job that runs `cpus` CPUs all the time, on at most so many ways; it wants a quota of 1/SCALE.

    A slower job moves less, so it is taken at its slowest: base clock, busy siblings, the longest wait for the cache.
    """
    m = job.memory
    longest = platform.llc_latency_ns * (rise(platform.latency_rise, platform.latency_power, MAX_UTILISATION) - 1.0)
    slowest_ns = m.cpi / (platform.frequency_ghz * platform.smt_speed) + m.apki / 1000.0 * longest / m.mlp
    memory = _shrunk(m, ways, platform, SCALE * cpus, 1.0)
    return replace(job, threads=1, memory=replace(memory, cpi=slowest_ns * platform.turbo_ghz))
