"""The interference study of PARTIES (section 3.3, tables 3 and 4): loads beside antagonists."""

from __future__ import annotations

from dataclasses import dataclass, replace

from osml.simulator import catalogs
from osml.simulator.engine import MAX_LOAD
from osml.simulator.models import JobModel, PlatformModel, ServiceModel
from osml.simulator.state import Grant, Node
from osml.simulator.steady import steady
from osml.simulator.surface import tail_ms

THREADS = 8
"""Threads of the service, each on a physical core of its own."""

_STEPS_ALONE = 100
_STEPS_BESIDE = 10
"""All of table 4 are multiples of 10 %: the loads that were tried."""

_SECONDS = 60.0


@dataclass(frozen=True)
class Antagonist:
    """A job of the catalog, how many programs of one thread it is there, and where they run: "same" hyperthreads as the
    service, their "siblings", the "idle" physical cores, or "one" idle CPU.
    """

    job: str
    programs: int
    place: str


ANTAGONISTS = {
    "hyperthread": Antagonist("cpu-burner", 8, "same"),
    "cpu": Antagonist("cpu-burner", 8, "siblings"),
    "power": Antagonist("power-virus", 12, "idle"),
    "llc_capacity": Antagonist("llc-thrasher", 1, "one"),
    "llc_bandwidth": Antagonist("llc-thrasher", 12, "idle"),
    "memory_bandwidth": Antagonist("memory-thrasher", 12, "idle"),
    "memory_capacity": Antagonist("memory-hog", 1, "one"),
    "disk_bandwidth": Antagonist("disk-reader", 1, "one"),
    "network_bandwidth": Antagonist("network-flooder", 1, "one"),
}
"""Rows of table 4, set up as table 3 says."""


def _cpus(platform: PlatformModel, place: str) -> frozenset[int]:
    own = set(range(THREADS))
    beside = {sibling for cpu in own if (sibling := platform.sibling(cpu)) is not None}
    idle = set(range(platform.cpus)) - own - beside
    return frozenset({"same": own, "siblings": beside, "idle": idle, "one": {min(idle)}}[place])


def _programs(antagonist: Antagonist) -> tuple[JobModel, ...]:
    """The antagonist as what it was: programs of one thread each, which have the job's data in equal parts.

    Table 3 counts microbenchmarks, not the threads of one, and puts each application into a container of its own. So
    each program weighs as much on its CPU as the whole service does on all of its eight.
    """
    job, n = catalogs.job(antagonist.job), antagonist.programs
    memory = replace(
        job.memory, working_set_mib=job.memory.working_set_mib / n, footprint_mib=job.memory.footprint_mib / n
    )
    return tuple(replace(job, name=f"{job.name}-{k + 1}", threads=1, memory=memory) for k in range(n))


def _largest_load(node: Node, grants: list[Grant], most: float, steps: int) -> float:
    """The largest fraction of the published max load within the target, up to `most`; 0 where none is.

    From above and in steps: at a low load a service may lose its cache to the antagonist, at a higher one hold it.
    """
    service = node.services[0]
    for step in range(steps, 0, -1):
        load = most * step / steps
        flow = steady(node, grants, {service.name: load}, _SECONDS)[0]
        if tail_ms(flow, service.percentile) <= service.target_ms:
            return load
    return 0.0


def tolerated_load_pct(platform: PlatformModel, service: ServiceModel, antagonist: Antagonist) -> float:
    """Load within the target beside the antagonist, in percent of that without it, on the same eight hyperthreads."""
    ways = (1 << platform.ways) - 1
    small = replace(service, threads=THREADS)
    own = Grant(_cpus(platform, "same"), ways)
    jobs = _programs(antagonist)
    alone = _largest_load(Node(platform, (small,)), [own], MAX_LOAD, _STEPS_ALONE)
    if alone == 0.0:
        return 0.0
    grants = [own, *[Grant(_cpus(platform, antagonist.place), ways)] * len(jobs)]
    return 100.0 * _largest_load(Node(platform, (small,), jobs), grants, alone, _STEPS_BESIDE) / alone
