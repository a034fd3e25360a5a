"""Profiles of services from the virtual node: one measurement is one run beside STREAM (OMBM, section 3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np

from osml.bandwidth import Profile, adaptive_lines, classic_lines
from osml.bandwidth.adaptive import PROFILINGS
from osml.bandwidth.offline import EXIT_SHARE, SAMPLES_GBPS
from osml.base.failure import InputError
from osml.domain import Percentile
from osml.simulator import catalogs
from osml.simulator.measure import measure
from osml.simulator.models import PlatformModel, ServiceModel
from osml.simulator.reservation import RUN_S, WORST, reserved_flows
from osml.simulator.state import Flow
from osml.simulator.surface import tail_ms

Method = Literal["classic", "adaptive"]

RATES = {"silo": (1000.0, 10_000.0), "masstree": (1000.0, 150_000.0), "img-dnn": (100.0, 1500.0)}
"""Ranges of request rates in the paper (section 4.3)."""

_LOWEST_SHARE = 0.1  # of max load, for services of which the paper says nothing


def deployed(service: str, platform: str) -> tuple[PlatformModel, ServiceModel]:
    """Models of the catalog; InputError lists the known names."""
    try:
        return catalogs.platform(platform), catalogs.service(service, platform)
    except catalogs.CatalogError as error:
        raise InputError(str(error)) from None


def rates_of(service: ServiceModel) -> tuple[float, float]:
    """The range of rates to profile: the paper's on its platform, else 10 to 100 % of max load."""
    found = RATES.get(service.name)
    if found is not None and math.isclose(found[1], service.max_load):
        return found
    return _LOWEST_SHARE * service.max_load, service.max_load


@dataclass
class VirtualProfiler:
    """Measures tails on the virtual node, with the noise of as many samples as a run has. `measured` counts the runs.

    `true_ms` is the tail without noise; `jobs` are who contends. The service has `cpus` and `ways` (None: half of all).
    """

    platform: PlatformModel
    service: ServiceModel
    seed: int = 0
    jobs: Sequence[str] = WORST
    each: Callable[[], object] = field(default=lambda: None)  # called after each measurement
    measured: int = 0
    cpus: int = 1
    ways: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.cpus < self.platform.cpus:
            raise InputError(
                f"--cores is {self.cpus}, expected 1 to {self.platform.cpus - 1}: {self.platform.id} has "
                f"{self.platform.cpus}, and STREAM needs at least one"
            )
        if self.ways is not None and not 1 <= self.ways < self.platform.ways:
            raise InputError(
                f"--ways is {self.ways}, expected 1 to {self.platform.ways - 1}: {self.platform.id} has "
                f"{self.platform.ways}, and STREAM needs at least one"
            )

    def __call__(self, bandwidth_gbps: float, qps: float) -> float:
        """Tail in ms of one run."""
        flow = self._flow(bandwidth_gbps, qps)
        noise = np.random.default_rng([self.seed, self.measured])
        whole_run = flow._replace(requests=flow.requests * RUN_S)
        found = measure([whole_run], noise)
        self.measured += 1
        self.each()
        tails = {"p50": found.p50_ms, "p95": found.p95_ms, "p99": found.p99_ms}
        tail = tails[self.service.percentile]
        return self.longest_ms if tail is None else tail

    def true_ms(self, bandwidth_gbps: float, qps: float) -> float:
        """Tail in ms without noise."""
        return min(tail_ms(self._flow(bandwidth_gbps, qps), self.service.percentile), self.longest_ms)

    def _flow(self, bandwidth_gbps: float, qps: float) -> Flow:
        load = qps / self.service.max_load
        return reserved_flows(
            self.platform, self.service, load, bandwidth_gbps, self.jobs, cpus=self.cpus, ways=self.ways
        )[0]

    @property
    def longest_ms(self) -> float:
        """What stands for a service that answered nothing in a whole run."""
        return RUN_S * 1e4


def profile_virtual(
    profiler: VirtualProfiler,
    method: Method = "adaptive",
    *,
    samples_gbps: Sequence[float] = SAMPLES_GBPS,
    exit_share: float = EXIT_SHARE,
    profilings: int = PROFILINGS,
    rates: tuple[float, float] | None = None,
) -> Profile:
    """A profile of a service on the virtual node.

    `samples_gbps` and `exit_share` steer the classic method, `profilings` the adaptive one.
    """
    platform, service = profiler.platform, profiler.service
    least_qps, most_qps = rates or rates_of(service)
    peak = platform.bandwidth_gbps
    if method == "classic":
        if max(samples_gbps) > peak or min(samples_gbps) <= 0:
            raise InputError(f"bandwidth samples {list(samples_gbps)} GB/s, expected values above 0 up to {peak:g}")
        lines = classic_lines(profiler, samples_gbps, least_qps, most_qps, exit_share)
    else:
        lines = adaptive_lines(profiler, peak, least_qps, most_qps, RUN_S, profilings)
    return Profile(
        service=service.name,
        platform=platform.id,
        method=method,
        percentile=cast(Percentile, service.percentile),
        cores=profiler.cpus,
        ways=platform.ways // 2 if profiler.ways is None else profiler.ways,
        peak_gbps=peak,
        lines=lines,
        simulated=True,
        run_s=RUN_S,
        source=f"virtual node, {profiler.measured} runs of {RUN_S:g} s beside {', '.join(profiler.jobs)}, "
        f"seed {profiler.seed}",
    )
