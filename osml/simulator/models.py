"""Parameters of platforms, services and jobs, as the catalogs give them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class MemoryBehaviour:
    """How a program uses the core, the cache and the memory, per instruction.

    `cpi` are cycles per instruction without misses of the last-level cache, `apki` its accesses per kilo-instruction,
    `mlp` the misses that overlap, `bytes_per_miss` the traffic of one demand miss with prefetch and write-back.
    The miss ratio at c MiB is miss_min + (1 - miss_min)/(1 + (c/working_set_mib)^steepness). `footprint_mib` is all
    memory that it keeps, `power` what a CPU that runs it draws, relative to an average program.
    """

    cpi: float
    apki: float
    miss_min: float
    working_set_mib: float
    steepness: float
    mlp: float
    bytes_per_miss: float
    footprint_mib: float
    power: float


@dataclass(frozen=True)
class ServiceModel:
    """A latency-critical service on one platform: requests of `instructions` with squared coefficient of variation
    `cv2`.

    `max_load` is in requests/s, `target_ms` holds for `percentile`, `threads` serve at most so many requests at a time.
    `burstiness` is the squared coefficient of variation of the arrival intervals (1 = Poisson), `switch_cost` the
    slowdown per doubling of threads over CPUs, `usable` the share of its CPU time that it can use before its queue
    grows (locks, uneven workers), `queue_limit_s` how many seconds of max load the queue holds before requests are
    refused. Outside of the CPU a request waits `stack_ms` (mean, exponential) in the network stack, passes a part
    of `serial_ms` that only one request can be in at a time (a dispatcher, a lock), does `disk_ios` random reads,
    touches `pages` pages that come from disk when they are not resident, and sends `network_kib`. Devices move
    `device_kib` through the memory for it (packets, blocks): no program waits for that, but all share the bandwidth.
    `scaled` says how a load that nobody published was found; empty where it was published.
    """

    name: str
    platform: str
    max_load: float
    target_ms: float
    percentile: str
    threads: int
    instructions: float
    cv2: float
    burstiness: float
    switch_cost: float
    usable: float
    queue_limit_s: float
    stack_ms: float
    serial_ms: float
    disk_ios: float
    pages: float
    network_kib: float
    device_kib: float
    memory: MemoryBehaviour
    scaled: str = ""


@dataclass(frozen=True)
class JobModel:
    """A best-effort job: `threads` threads that always have work.

    `disk_mbps` and `network_gbps` are what it would read and send if it could, over `flows` connections.
    """

    name: str
    threads: int
    disk_mbps: float
    network_gbps: float
    flows: float
    memory: MemoryBehaviour


@dataclass(frozen=True)
class PlatformModel:
    """One cache domain: `cpus` logical CPUs over `physical_cores` and one last-level cache; memory, disk and network.

    A socket has `domains` of them (AMD: its CCX), which share its memory, disk and network: these are of the
    socket. `link_gbps` is what a domain moves to and from the memory at most. `vendor` (intel, amd) says what resctrl
    offers: AMD's takes way masks with holes, and MBA in eighths of a GB/s for each domain.

    `usable_bandwidth` is the share of the peak that programs reach, `latency_rise` and `latency_power` are a and b of
    t(u) = t0 (1 + a u^b/(1 - u)^0.641), which holds for the memory (t0 = `memory_latency_ns`) and for the cache itself
    (t0 = `llc_latency_ns`, u = traffic over `llc_gbps`). `all_core_ghz` is the turbo clock with all cores active,
    `smt_speed` the speed of a thread whose sibling computes all the time, `time_slice_ms` the least time slice of its
    scheduler (CFS: min_granularity). `cpu_groups` says whether each tenant is a CPU group of its own (containers,
    cgroup v2) or all are plain threads (taskset), `eevdf` whether its Linux is 6.6 or later (EEVDF) or older (CFS).
    `warmup_s` is the shortest time constant of the cache.
    `reserved_gib` of `memory_gib` belong to the system; `disk_iops` are random reads, `disk_mbps` sequential ones;
    `network_gbps` is the link.
    """

    id: str
    cpu: str
    cpus: int
    physical_cores: int
    frequency_ghz: float
    all_core_ghz: float
    turbo_ghz: float
    ways: int
    way_mib: float
    bandwidth_gbps: float
    memory_gib: float
    reserved_gib: float
    mba: bool
    max_groups: int
    usable_bandwidth: float
    memory_latency_ns: float
    latency_rise: float
    latency_power: float
    llc_gbps: float
    llc_latency_ns: float
    smt_speed: float
    time_slice_ms: float
    cpu_groups: bool
    eevdf: bool
    warmup_s: float
    disk_iops: float
    disk_mbps: float
    network_gbps: float
    domains: int = 1
    link_gbps: float = math.inf
    vendor: str = "intel"

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
