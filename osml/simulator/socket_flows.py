"""What a tenant did on several sockets in the same step, as one flow."""

from __future__ import annotations

from collections.abc import Sequence

from osml.simulator.measure import mixed_quantile
from osml.simulator.state import KNOWN_LEVELS, Flow


def merged(flows: Sequence[Flow]) -> Flow:
    """Amounts are summed; latencies are those of all requests, each counted once.

    The shape of the queue is that of the socket with the most requests.
    """
    if len(flows) == 1:
        return flows[0]
    requests = sum(flow.requests for flow in flows)
    most = max(flows, key=lambda flow: flow.requests)
    levels = mixed_quantile(flows, KNOWN_LEVELS) or [None, None, None]
    served = [flow for flow in flows if flow.service_ms is not None]
    cpu_s = sum(flow.cpu_s for flow in flows)
    cycles_ghz = sum(flow.frequency_ghz * flow.cpu_s for flow in flows)
    return most._replace(
        requests=requests,
        mean_ms=sum((f.mean_ms or 0.0) * f.requests for f in flows) / requests if requests > 0 else None,
        p50_ms=levels[0],
        p95_ms=levels[1],
        p99_ms=levels[2],
        cpu_s=cpu_s,
        instructions=sum(flow.instructions for flow in flows),
        cycles=sum(flow.cycles for flow in flows),
        llc_accesses=sum(flow.llc_accesses for flow in flows),
        llc_misses=sum(flow.llc_misses for flow in flows),
        memory_bytes=sum(flow.memory_bytes for flow in flows),
        occupancy_mib=sum(flow.occupancy_mib for flow in flows),
        frequency_ghz=cycles_ghz / cpu_s if cpu_s > 0 else most.frequency_ghz,
        throttled_s=max(flow.throttled_s for flow in flows),
        utilisation=max(flow.utilisation for flow in flows),
        service_ms=sum(f.service_ms or 0.0 for f in served) / len(served) if served else None,
        disk_ios=sum(flow.disk_ios for flow in flows),
        network_bytes=sum(flow.network_bytes for flow in flows),
        resident_mib=sum(flow.resident_mib for flow in flows),
    )
