"""What the monitor of each node of a fleet reads of an interval, and the system entropy of it, compiled.

The same noise of finitely many samples as in `measure`, with one simplification: a sampled percentile is read off a
line through the true p50, p95 and p99 (piecewise lognormal), not off the whole distribution. Its mean is right, its
spread within 10 % for p50 and p99 and within 20 % for p95.
"""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.simulator.columns import (
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
from osml.simulator.fleet.noise import Streams, gamma, normal, poisson
from osml.simulator.queueing.distribution import normal_quantile

# -- what is measured: one row a tenant. NaN: there was nothing to measure --------------------------------------------
(
    M_MEAN_MS,
    M_P50_MS,
    M_P95_MS,
    M_P99_MS,
    M_REQUESTS_PER_S,
    M_SAMPLES,
    M_IPC,
    M_INSTRUCTIONS,
    M_CYCLES,
    M_LLC_MISSES,
    M_CLOCK,
    M_CPUS,
    M_WORK_RATE,
    M_BANDWIDTH_GBPS,
    M_OCCUPANCY_MIB,
    M_RESIDENT_MIB,
    MEASURED_COLUMNS,
) = range(17)

E_LC, E_BE, E_S, ENTROPY_COLUMNS = range(4)
"""Columns of the entropy of a node; NaN where it is not defined."""

# -- what a kind of tenant is to the monitor; a percentile is the number of its measured column -----------------------
K_LC, K_TARGET_MS, K_PERCENTILE, K_MAX_LOAD, K_SOLO_WORK, K_SOLO_IPC, KIND_COLUMNS = range(7)

_Z95 = 1.6448536269514722
_Z99 = 2.3263478740408408


@lean
def _at(share_above: float, p50: float, body: float, tail: float) -> float:
    """Response time that a share of all requests exceeds; `body` and `tail` are slopes of its logarithm."""
    z = -normal_quantile(min(max(share_above, 1e-12), 1.0 - 1e-12))
    return p50 * math.exp(z * body if z < _Z95 else _Z95 * body + (z - _Z95) * tail)


@lean
def _latencies(
    flows: FloatArray, i: int, dt: float, noise: bool, streams: Streams, measured: FloatArray, node: int, place: int
) -> None:
    """Latencies and requests/s of a service."""
    requests = flows[i, F_COMPLETED]
    samples = poisson(streams, node, requests) if noise else requests
    measured[node, place, M_SAMPLES], measured[node, place, M_REQUESTS_PER_S] = samples, samples / dt
    if samples <= 0.0 or requests <= 0.0:
        return
    mean, p50, p95, p99 = flows[i, F_MEAN_MS], flows[i, F_P50_MS], flows[i, F_P95_MS], flows[i, F_P99_MS]
    if noise:
        # Order statistics: where the empirical percentiles fall in the true distribution is Dirichlet distributed.
        a = gamma(streams, node, 0.50 * samples + 0.25)
        b = gamma(streams, node, 0.45 * samples + 0.25)
        c = gamma(streams, node, 0.04 * samples + 0.25)
        d = gamma(streams, node, 0.01 * samples + 0.25)
        scale = 1.0 / (a + b + c + d)
        body, tail = math.log(p95 / p50) * (1.0 / _Z95), math.log(p99 / p95) * (1.0 / (_Z99 - _Z95))
        median = p50
        p50 = _at((b + c + d) * scale, median, body, tail)
        p95 = _at((c + d) * scale, median, body, tail)
        p99 = _at(d * scale, median, body, tail)
        spread = max(p95 - p50, 0.0) / 1.6  # about one standard deviation
        mean = max(mean + spread * normal(streams, node) / math.sqrt(samples), 0.2 * p50)
    measured[node, place, M_MEAN_MS], measured[node, place, M_P50_MS] = mean, p50
    measured[node, place, M_P95_MS], measured[node, place, M_P99_MS] = p95, p99


@lean
def measure_tenant(
    flows: FloatArray,
    i: int,
    is_service: bool,
    dt: float,
    noise: bool,
    streams: Streams,
    measured: FloatArray,
    node: int,
    place: int,
) -> None:
    """Measure one tenant: row i of `flows`, of an interval of `dt` seconds, into `measured` (nodes, places, columns).

    Plain indices: a view of an array costs as much as a random number.
    """
    for k in range(MEASURED_COLUMNS):
        measured[node, place, k] = math.nan
    if is_service:
        _latencies(flows, i, dt, noise, streams, measured, node, place)
    instructions, misses, cycles = flows[i, F_INSTRUCTIONS], flows[i, F_LLC_MISSES], flows[i, F_CYCLES]
    if noise:
        instructions *= 1.0 + 0.005 * normal(streams, node)
        misses *= 1.0 + 0.01 * normal(streams, node)
    if cycles > 0.0:
        measured[node, place, M_IPC] = instructions / cycles
    measured[node, place, M_INSTRUCTIONS], measured[node, place, M_CYCLES] = instructions, cycles
    measured[node, place, M_LLC_MISSES] = misses
    measured[node, place, M_CLOCK], measured[node, place, M_CPUS] = flows[i, F_CLOCK], flows[i, F_CPU_S] / dt
    measured[node, place, M_WORK_RATE] = instructions / dt / 1e9
    measured[node, place, M_BANDWIDTH_GBPS] = flows[i, F_MEMORY_BYTES] / dt / 1e9
    measured[node, place, M_OCCUPANCY_MIB] = flows[i, F_OCCUPANCY_MIB]
    measured[node, place, M_RESIDENT_MIB] = flows[i, F_RESIDENT_MIB]


@lean
def node_entropy(
    kinds: FloatArray, present: IntArray, measured: FloatArray, importance: float, node: int, out: FloatArray
) -> None:
    """E_LC, E_BE and E_S of one node into `out` (nodes, ENTROPY_COLUMNS), as `osml.entropy.system_entropy` has them.

    `present` (nodes, places) holds the row of each tenant in `kinds` (kinds, KIND_COLUMNS), below 0 where nobody is.
    """
    services = seen = jobs = 0
    intolerable = slowdowns = 0.0
    for place in range(present.shape[1]):
        kind = present[node, place]
        if kind < 0:
            continue
        if kinds[kind, K_LC] > 0.0:
            services += 1
            latency = measured[node, place, int(kinds[kind, K_PERCENTILE])]
            if not math.isnan(latency):
                seen += 1
                if latency > kinds[kind, K_TARGET_MS]:
                    intolerable += 1.0 - kinds[kind, K_TARGET_MS] / latency
        else:
            jobs += 1
            rate = measured[node, place, M_WORK_RATE]
            slowdowns += max(1.0, kinds[kind, K_SOLO_WORK] / rate) if rate > 0.0 else math.inf
    e_lc = intolerable / seen if seen > 0 else math.nan
    e_be = 1.0 - jobs / slowdowns if jobs > 0 else math.nan
    out[node, E_LC], out[node, E_BE] = e_lc, e_be
    if services == 0:
        out[node, E_S] = e_be
    elif seen == 0 or jobs == 0:
        out[node, E_S] = e_lc
    else:
        out[node, E_S] = importance * e_lc + (1.0 - importance) * e_be
