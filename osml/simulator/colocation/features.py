"""What the agent of an environment sees of one service: raw units, float32, finite bounds (normalise in the model).

Nothing is NaN: what is missing is 0, and `measured` says so for latencies. A place where nobody is has zeros only.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from osml.base.jit import lean
from osml.simulator import columns as c
from osml.simulator.colocation.actions import free_of
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.fleet import measure as m
from osml.simulator.fleet.step import Nodes, Terms
from osml.simulator.models import PlatformModel

Features = NDArray[np.float32]

FEATURES: dict[str, tuple[str, str]] = {
    "present": ("", "1: the service is there"),
    "measured": ("", "1: latencies were measured in the last interval"),
    "cores": ("", "logical CPUs that it owns"),
    "ways": ("", "cache ways that it owns"),
    "cache_mib": ("MiB", "capacity of these ways"),
    "ipc": ("", "instructions per cycle"),
    "llc_misses_per_s": ("1/s", "last-level cache misses"),
    "bandwidth_gbps": ("GB/s", "memory traffic"),
    "cpu_usage_cores": ("", "CPU time over wall time"),
    "frequency_ghz": ("GHz", "clock"),
    "llc_occupancy_mib": ("MiB", "cache that it holds"),
    "resident_mib": ("MiB", "memory that it holds"),
    "latency_ms": ("ms", "latency at the percentile of its target"),
    "mean_ms": ("ms", "mean latency"),
    "target_ms": ("ms", "its target"),
    "requests_per_s": ("1/s", "completed requests"),
    "slack": ("", "(target - latency)/target, not below -100"),
    "neighbour_cores": ("", "logical CPUs of the other services"),
    "neighbour_ways": ("", "ways of the other services"),
    "neighbour_bandwidth_gbps": ("GB/s", "memory traffic of all others, jobs too"),
    "free_cores": ("", "logical CPUs that may be taken"),
    "free_ways": ("", "ways that may be taken"),
    "services": ("", "services that are there"),
    "jobs": ("", "best-effort jobs that are there"),
    "job_slowdown": ("", "mean of solo speed over speed of the jobs, at most 1000"),
    "e_s": ("", "system entropy, the last known"),
}
"""Columns of an observation: unit and meaning."""

N_FEATURES = len(FEATURES)
(
    O_PRESENT,
    O_MEASURED,
    O_CORES,
    O_WAYS,
    O_CACHE,
    O_IPC,
    O_MISSES,
    O_BANDWIDTH,
    O_CPUS,
    O_CLOCK,
    O_OCCUPANCY,
    O_RESIDENT,
    O_LATENCY,
    O_MEAN,
    O_TARGET,
    O_REQUESTS,
    O_SLACK,
    O_OTHER_CORES,
    O_OTHER_WAYS,
    O_OTHER_BANDWIDTH,
    O_FREE_CORES,
    O_FREE_WAYS,
    O_SERVICES,
    O_JOBS,
    O_SLOWDOWN,
    O_E_S,
) = range(N_FEATURES)

_MIB, _MS, _PER_S, _SLOWDOWN, _SLACK = 1e7, 1e7, 1e8, 1000.0, -100.0


def bounds(platform: PlatformModel) -> tuple[Features, Features]:
    """(low, high) of every feature on this platform, each (N_FEATURES,)."""
    low, high = np.zeros(N_FEATURES, np.float32), np.ones(N_FEATURES, np.float32)
    low[O_SLACK] = _SLACK
    high[[O_CORES, O_OTHER_CORES, O_FREE_CORES, O_CPUS]] = platform.cpus
    high[[O_WAYS, O_OTHER_WAYS, O_FREE_WAYS]] = platform.ways
    high[[O_CACHE, O_OCCUPANCY]] = platform.ways * platform.way_mib
    high[[O_BANDWIDTH, O_OTHER_BANDWIDTH]] = 4.0 * platform.bandwidth_gbps
    high[[O_IPC, O_CLOCK]] = 10.0
    high[O_MISSES], high[O_RESIDENT] = 1e11, _MIB
    high[[O_LATENCY, O_MEAN, O_TARGET]] = _MS
    high[O_REQUESTS], high[O_SLOWDOWN] = _PER_S, _SLOWDOWN
    high[[O_SERVICES, O_JOBS]] = c.MAX_TENANTS
    return low, high


@lean
def _own(kind: FloatArray, seen: FloatArray, dt: float, row: Features) -> None:
    """What was measured of the service itself."""
    row[O_IPC] = seen[m.M_IPC] if seen[m.M_IPC] > 0.0 else 0.0
    row[O_MISSES], row[O_BANDWIDTH] = seen[m.M_LLC_MISSES] / dt, seen[m.M_BANDWIDTH_GBPS]
    row[O_CPUS], row[O_CLOCK] = seen[m.M_CPUS], seen[m.M_CLOCK]
    row[O_OCCUPANCY], row[O_RESIDENT] = seen[m.M_OCCUPANCY_MIB], seen[m.M_RESIDENT_MIB]
    row[O_TARGET], row[O_REQUESTS] = kind[m.K_TARGET_MS], seen[m.M_REQUESTS_PER_S]
    latency = seen[int(kind[m.K_PERCENTILE])]
    if not math.isnan(latency):
        row[O_MEASURED], row[O_LATENCY], row[O_MEAN] = 1.0, latency, seen[m.M_MEAN_MS]
        row[O_SLACK] = max(1.0 - latency / kind[m.K_TARGET_MS], _SLACK)


@lean
def fill_features(
    terms: Terms,
    nodes: Nodes,
    e_s: FloatArray,
    dt: float,
    low: Features,
    high: Features,
    which: IntArray,
    features: Features,
) -> None:
    """Observations of the nodes `which` after an interval of `dt` seconds into `features` (nodes, n, N_FEATURES)."""
    services = features.shape[1]
    for at in range(len(which)):
        node = which[at]
        free_cores, free_ways = free_of(terms, nodes, node)
        cores = ways = n_services = n_jobs = 0
        bandwidth = slowdown = 0.0
        for place in range(nodes.present.shape[1]):
            kind = nodes.present[node, place]
            if kind < 0:
                continue
            bandwidth += nodes.measured[node, place, m.M_BANDWIDTH_GBPS]
            if terms.kinds[kind, m.K_LC] > 0.0:
                cores += nodes.cores[node, place]
                ways += nodes.ways[node, place]
                n_services += 1
            else:
                rate = max(nodes.measured[node, place, m.M_WORK_RATE], 1e-9)
                slowdown += min(max(terms.kinds[kind, m.K_SOLO_WORK] / rate, 1.0), _SLOWDOWN)
                n_jobs += 1
        for place in range(services):
            row = features[node, place]
            row[:] = 0.0
            kind = nodes.present[node, place]
            if kind < 0:
                continue
            row[O_PRESENT], row[O_CORES], row[O_WAYS] = 1.0, nodes.cores[node, place], nodes.ways[node, place]
            row[O_CACHE] = nodes.ways[node, place] * terms.platform[c.P_WAY_MIB]
            seen = nodes.measured[node, place]
            _own(terms.kinds[kind], seen, dt, row)
            row[O_OTHER_CORES], row[O_OTHER_WAYS] = cores - nodes.cores[node, place], ways - nodes.ways[node, place]
            row[O_OTHER_BANDWIDTH] = bandwidth - seen[m.M_BANDWIDTH_GBPS]
            row[O_FREE_CORES], row[O_FREE_WAYS] = max(free_cores, 0), max(free_ways, 0)
            row[O_SERVICES], row[O_JOBS] = n_services, n_jobs
            row[O_SLOWDOWN] = slowdown / n_jobs if n_jobs > 0 else 0.0
            row[O_E_S] = e_s[node]
            for k in range(len(row)):
                row[k] = min(max(row[k], low[k]), high[k])
