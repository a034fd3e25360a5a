"""What a monitor reads: the flows of some steps, with the noise of finitely many samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from osml.simulator import queueing
from osml.simulator.state import Flow


@dataclass(frozen=True)
class Measurement:
    """One interval of one tenant. None: there was nothing to measure."""

    interval_s: float
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    requests_per_s: float | None
    samples: int | None
    ipc: float | None
    instructions: float
    cycles: float
    llc_misses: float
    frequency_ghz: float
    cpu_usage_cores: float
    work_rate: float
    bandwidth_gbps: float
    llc_occupancy_mib: float
    rss_mib: float
    disk_iops: float
    network_mbps: float


def mixed_quantile(flows: Sequence[Flow], levels: Sequence[float]) -> list[float] | None:
    """Response time at each level over several steps, every step weighted by its requests; None without requests."""
    spectra = [(flow.quantiles_ms, flow.requests) for flow in flows]
    parts = [(spectrum, requests) for spectrum, requests in spectra if spectrum is not None]
    if not parts:
        return None
    values = np.sort(np.concatenate([spectrum for spectrum, _ in parts]))
    below = sum(np.interp(values, spectrum, queueing.LEVELS) * requests for spectrum, requests in parts)
    return [float(x) for x in np.interp(levels, below / sum(requests for _, requests in parts), values)]


def mixed_mean(flows: Sequence[Flow]) -> float:
    """Mean response time in ms over several steps, every step weighted by its requests; infinite without requests."""
    requests = sum(flow.requests for flow in flows)
    return sum((flow.mean_ms or 0.0) * flow.requests for flow in flows) / requests if requests > 0 else float("inf")


def _sampled_levels(samples: int, rng: np.random.Generator) -> list[float]:
    """Where the empirical p50, p95 and p99 of so many samples fall in the true distribution (order statistics)."""
    gaps = rng.dirichlet(np.array([0.50, 0.45, 0.04, 0.01]) * samples + 0.25)
    return [float(x) for x in np.cumsum(gaps)[:3]]


def measure(flows: Sequence[Flow], rng: np.random.Generator, seen: float = 1.0) -> Measurement:
    """The measurement of consecutive steps of one tenant; latencies and rate from a share `seen` of the requests."""
    span = sum(flow.dt for flow in flows)
    requests = sum(flow.requests for flow in flows)
    mean_ms = p50_ms = p95_ms = p99_ms = None
    rate = samples = None
    if any(flow.response is not None or flow.service_ms is not None for flow in flows):
        samples = int(rng.poisson(requests * seen)) if requests * seen < 1e6 else round(requests * seen)
        rate = samples / seen / span
        quantiles = mixed_quantile(flows, _sampled_levels(samples, rng)) if samples > 0 else None
        if quantiles is not None:
            spread = max(quantiles[1] - quantiles[0], 0.0) / 1.6  # about one standard deviation
            noisy = mixed_mean(flows) + spread * float(rng.standard_normal()) / samples**0.5
            mean_ms = max(noisy, quantiles[0] * 0.2)
            p50_ms, p95_ms, p99_ms = quantiles
    jitter = 1.0 + 0.005 * float(rng.standard_normal())
    cycles = sum(flow.cycles for flow in flows)
    instructions = sum(flow.instructions for flow in flows) * jitter
    return Measurement(
        interval_s=span,
        mean_ms=mean_ms,
        p50_ms=p50_ms,
        p95_ms=p95_ms,
        p99_ms=p99_ms,
        requests_per_s=rate,
        samples=samples,
        ipc=instructions / cycles if cycles > 0 else None,
        instructions=instructions,
        cycles=cycles,
        llc_misses=sum(flow.llc_misses for flow in flows) * (1.0 + 0.01 * float(rng.standard_normal())),
        frequency_ghz=sum(flow.frequency_ghz * flow.dt for flow in flows) / span,
        cpu_usage_cores=sum(flow.cpu_s for flow in flows) / span,
        work_rate=instructions / span / 1e9,
        bandwidth_gbps=sum(flow.memory_bytes for flow in flows) / span / 1e9,
        llc_occupancy_mib=flows[-1].occupancy_mib,
        rss_mib=flows[-1].resident_mib,
        disk_iops=sum(flow.disk_ios for flow in flows) / span,
        network_mbps=sum(flow.network_bytes for flow in flows) * 8e-6 / span,
    )
