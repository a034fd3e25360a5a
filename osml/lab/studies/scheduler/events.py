"""When what happens next: a tournament over the next event of each source."""

from __future__ import annotations

from osml.base.jit import lean
from osml.lab.studies.scheduler.columns import MAX_CPUS, MAX_TENANTS, Node


@lean
def put(node: Node, source: int, time: float) -> None:
    """The next event of `source` is at `time` (ms; infinite: none). Of simultaneous ones the lower source is first."""
    times, winners = node.times, node.winners
    if times[source] == time:
        return
    times[source] = time
    at = (source + len(times)) >> 1
    while at > 0:
        left, right = winners[2 * at], winners[2 * at + 1]
        winners[at] = right if times[right] < times[left] else left
        at >>= 1


@lean
def arrival_source(tenant: int) -> int:
    """Source of the arrivals of a tenant; that of its quota timer is `tenant`."""
    return MAX_TENANTS + tenant


@lean
def cpu_source(cpu: int) -> int:
    """Source of completions and ticks of a CPU."""
    return 2 * MAX_TENANTS + cpu


@lean
def balance_source(cpu: int) -> int:
    """Source of the periodic balance of a CPU."""
    return 2 * MAX_TENANTS + MAX_CPUS + cpu
