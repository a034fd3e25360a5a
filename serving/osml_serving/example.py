"""One real observation: for the warm-up of the policies, and for the documentation of the API."""

from __future__ import annotations

from osml.domain import CacheDomain, Counters, Latency, MbaRange, Observation, Platform, Service

PLATFORM = Platform(
    id="e5-2697v4",
    cores=36,
    cpus="0-35",
    siblings=[[cpu, cpu + 18] for cpu in range(18)],
    ways=20,
    way_mib=2.25,
    domains=[CacheDomain(id=0, cpus="0-35")],
    mba=MbaRange(min=10, max=100, step=10),
    max_groups=16,
    bandwidth_gbps=76.8,
    memory_gib=256,
    frequency_ghz=2.3,
)

EXAMPLE = Observation(
    node="node-17",
    seq=0,
    time_s=12.0,
    interval_s=1.0,
    platform=PLATFORM,
    services=[
        Service(
            name="moses",
            kind="lc",
            target_ms=15.0,
            ideal_ms=3.1,
            latency=Latency(mean_ms=6.2, p95_ms=11.8, p99_ms=18.4, requests_per_s=940, samples=940, age_s=0.2),
            counters=Counters(cpu_usage_cores=7.4, threads=36, ipc=0.91, llc_occupancy_mib=11.5, bandwidth_gbps=9.1),
        ),
        Service(
            name="xapian",
            kind="lc",
            target_ms=5.0,
            ideal_ms=1.9,
            latency=Latency(mean_ms=1.4, p95_ms=2.7, p99_ms=3.6, requests_per_s=2700, samples=2700, age_s=0.2),
            counters=Counters(cpu_usage_cores=5.0, threads=36, ipc=1.21, llc_occupancy_mib=6.5, bandwidth_gbps=4.4),
        ),
        Service(
            name="stream",
            kind="be",
            ipc_solo=0.62,
            counters=Counters(cpu_usage_cores=16.0, threads=16, ipc=0.35, llc_occupancy_mib=18, bandwidth_gbps=41),
        ),
    ],
)
