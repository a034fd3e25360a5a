"""Parameters of platforms, services and jobs, as the catalogs give them."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class MemoryBehaviour:
    """How a program uses cache and memory, per instruction.

    `cpi` are cycles per instruction without misses of the last-level cache, `apki` its accesses per kilo-instruction,
    `mlp` the misses that overlap, `bytes_per_miss` the traffic of one miss with prefetch and write-back.
    The miss ratio at c MiB is miss_min + (1 - miss_min)/(1 + (c/working_set_mib)^steepness).
    """

    cpi: float
    apki: float
    miss_min: float
    working_set_mib: float
    steepness: float
    mlp: float
    bytes_per_miss: float
    footprint_mib: float


@dataclass(frozen=True)
class ServiceModel:
    """A latency-critical service: requests of `instructions` with squared coefficient of variation `cv2`.

    `max_load` is in requests/s, `target_ms` is for p99, `burstiness` is the squared coefficient of variation of the
    arrival intervals (1 = Poisson), `switch_cost` the slowdown per doubling of threads over CPUs, `queue_limit_s` how
    many seconds of max load the queue holds before requests are refused.
    """

    name: str
    platform: str
    max_load: float
    target_ms: float
    threads: int
    instructions: float
    cv2: float
    burstiness: float
    switch_cost: float
    queue_limit_s: float
    memory: MemoryBehaviour


@dataclass(frozen=True)
class JobModel:
    """A best-effort job: `threads` threads that always have work."""

    name: str
    threads: int
    memory: MemoryBehaviour


@dataclass(frozen=True)
class PlatformModel:
    """One socket: `cpus` logical CPUs over `physical_cores`, one last-level cache, one memory.

    `usable_bandwidth` is the share of the peak that programs reach, `latency_rise` and `latency_power` are a and b of
    t(u) = t0 (1 + a u^b/(1 - u)), `smt_speed` the speed of a thread whose sibling is busy, `time_slice_ms` what a
    woken thread waits per competitor, `warmup_s` the shortest time constant of the cache.
    """

    id: str
    cpu: str
    cpus: int
    physical_cores: int
    frequency_ghz: float
    turbo_ghz: float
    ways: int
    way_mib: float
    bandwidth_gbps: float
    memory_gib: float
    mba: bool
    max_groups: int
    usable_bandwidth: float
    memory_latency_ns: float
    latency_rise: float
    latency_power: float
    smt_speed: float
    time_slice_ms: float
    warmup_s: float

    def sibling(self, cpu: int) -> int | None:
        """The other hyperthread of the same physical core; None without SMT. Numbered as Linux does: i and i + n."""
        if self.cpus == self.physical_cores:
            return None
        return cpu + self.physical_cores if cpu < self.physical_cores else cpu - self.physical_cores

    @property
    def siblings(self) -> list[list[int]]:
        """Logical CPUs of each physical core."""
        if self.cpus == self.physical_cores:
            return [[cpu] for cpu in range(self.cpus)]
        return [[core, core + self.physical_cores] for core in range(self.physical_cores)]

    def cpu_order(self) -> list[int]:
        """All CPUs, siblings next to each other: the order in which a scheduler hands them out."""
        return [cpu for pair in self.siblings for cpu in pair]


def on_platform(job: JobModel, platform: PlatformModel) -> JobModel:
    """The job with no more threads than the platform has CPUs."""
    return replace(job, threads=min(job.threads, platform.cpus))
