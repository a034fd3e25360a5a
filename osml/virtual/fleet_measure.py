"""What the monitor of each node of a fleet reads of an interval, and the system entropy of it, compiled.

The same noise of finitely many samples as in `measure`, with one simplification: a sampled percentile is read off a
line through the true p50, p95 and p99 (piecewise lognormal), not off the whole distribution. Its mean is right; its
spread is within 10 % for p99 and within 30 % for p50 and p95.
"""

from __future__ import annotations

import math

from osml.virtual.columns import (
    F_CLOCK,
    F_COMPLETED,
    F_CPU_S,
    F_CYCLES,
    F_INSTRUCTIONS,
    F_LLC_MISSES,
    F_MEAN_MS,
    F_MEMORY_BYTES,
    F_OCCUPANCY_MIB,
    F_P50_MS,
    F_P95_MS,
    F_P99_MS,
    F_RESIDENT_MIB,
    FloatArray,
    IntArray,
)
from osml.virtual.fleet_noise import Streams, gamma, normal, poisson
from osml.virtual.jit import compiled
from osml.virtual.queueing_distribution import normal_quantile

# -- what is measured: one row a tenant. NaN: there was nothing to measure --------------------------------------------
(
    M_MEAN_MS, M_P50_MS, M_P95_MS, M_P99_MS, M_REQUESTS_PER_S, M_SAMPLES, M_IPC, M_INSTRUCTIONS, M_CYCLES,
    M_LLC_MISSES, M_CLOCK, M_CPUS, M_WORK_RATE, M_BANDWIDTH_GBPS, M_OCCUPANCY_MIB, M_RESIDENT_MIB,
    MEASURED_COLUMNS,
) = range(17)  # fmt: skip

E_LC, E_BE, E_S, ENTROPY_COLUMNS = range(4)
"""Columns of the entropy of a node; NaN where it is not defined."""

# -- what a kind of tenant is to the monitor; a percentile is the number of its measured column -----------------------
K_LC, K_TARGET_MS, K_PERCENTILE, K_MAX_LOAD, K_SOLO_WORK, K_SOLO_IPC, KIND_COLUMNS = range(7)

_Z95 = 1.6448536269514722
_Z99 = 2.3263478740408408


@compiled
def _at(share_above: float, p50: float, body: float, tail: float) -> float:
    """Response time that a share of all requests exceeds; `body` and `tail` are slopes of its logarithm."""
    z = -normal_quantile(min(max(share_above, 1e-12), 1.0 - 1e-12))
    return p50 * math.exp(z * body if z < _Z95 else _Z95 * body + (z - _Z95) * tail)


@compiled
def _latencies(flow: FloatArray, dt: float, noise: bool, streams: Streams, node: int, out: FloatArray) -> None:
    """Latencies and requests/s of a service."""
    requests = flow[F_COMPLETED]
    samples = poisson(streams, node, requests) if noise else requests
    out[M_SAMPLES], out[M_REQUESTS_PER_S] = samples, samples / dt
    if samples <= 0.0 or requests <= 0.0:
        return
    mean, p50, p95, p99 = flow[F_MEAN_MS], flow[F_P50_MS], flow[F_P95_MS], flow[F_P99_MS]
    if noise:
        # Order statistics: where the empirical percentiles fall in the true distribution is Dirichlet distributed.
        a = gamma(streams, node, 0.50 * samples + 0.25)
        b = gamma(streams, node, 0.45 * samples + 0.25)
        c = gamma(streams, node, 0.04 * samples + 0.25)
        d = gamma(streams, node, 0.01 * samples + 0.25)
        total = a + b + c + d
        body, tail = math.log(p95 / p50) / _Z95, math.log(p99 / p95) / (_Z99 - _Z95)
        median = p50
        p50 = _at((b + c + d) / total, median, body, tail)
        p95 = _at((c + d) / total, median, body, tail)
        p99 = _at(d / total, median, body, tail)
        spread = max(p95 - p50, 0.0) / 1.6  # about one standard deviation
        mean = max(mean + spread * normal(streams, node) / math.sqrt(samples), 0.2 * p50)
    out[M_MEAN_MS], out[M_P50_MS], out[M_P95_MS], out[M_P99_MS] = mean, p50, p95, p99


@compiled
def measure_tenant(
    flow: FloatArray, is_service: bool, dt: float, noise: bool, streams: Streams, node: int, out: FloatArray
) -> None:
    """Measure one tenant: `flow` (FLOW_COLUMNS,) of an interval of `dt` seconds into `out` (MEASURED_COLUMNS,)."""
    out[:] = math.nan
    if is_service:
        _latencies(flow, dt, noise, streams, node, out)
    instructions, misses = flow[F_INSTRUCTIONS], flow[F_LLC_MISSES]
    if noise:
        instructions *= 1.0 + 0.005 * normal(streams, node)
        misses *= 1.0 + 0.01 * normal(streams, node)
    if flow[F_CYCLES] > 0.0:
        out[M_IPC] = instructions / flow[F_CYCLES]
    out[M_INSTRUCTIONS], out[M_CYCLES], out[M_LLC_MISSES] = instructions, flow[F_CYCLES], misses
    out[M_CLOCK], out[M_CPUS] = flow[F_CLOCK], flow[F_CPU_S] / dt
    out[M_WORK_RATE], out[M_BANDWIDTH_GBPS] = instructions / dt / 1e9, flow[F_MEMORY_BYTES] / dt / 1e9
    out[M_OCCUPANCY_MIB], out[M_RESIDENT_MIB] = flow[F_OCCUPANCY_MIB], flow[F_RESIDENT_MIB]


@compiled
def node_entropy(
    kinds: FloatArray, present: IntArray, measured: FloatArray, importance: float, out: FloatArray
) -> None:
    """E_LC, E_BE and E_S of one node into `out`, as `osml.entropy.system_entropy` defines them.

    `present` holds the row of each tenant in `kinds` (kinds, KIND_COLUMNS), below 0 for an empty place.
    """
    services = seen = jobs = 0
    intolerable = slowdowns = 0.0
    for i in range(len(present)):
        if present[i] < 0:
            continue
        kind = kinds[present[i]]
        if kind[K_LC] > 0.0:
            services += 1
            latency = measured[i, int(kind[K_PERCENTILE])]
            if not math.isnan(latency):
                seen += 1
                if latency > kind[K_TARGET_MS]:
                    intolerable += 1.0 - kind[K_TARGET_MS] / latency
        else:
            jobs += 1
            rate = measured[i, M_WORK_RATE]
            slowdowns += max(1.0, kind[K_SOLO_WORK] / rate) if rate > 0.0 else math.inf
    e_lc = intolerable / seen if seen > 0 else math.nan
    e_be = 1.0 - jobs / slowdowns if jobs > 0 else math.nan
    out[E_LC], out[E_BE] = e_lc, e_be
    if services == 0:
        out[E_S] = e_be
    elif seen == 0 or jobs == 0:
        out[E_S] = e_lc
    else:
        out[E_S] = importance * e_lc + (1.0 - importance) * e_be
