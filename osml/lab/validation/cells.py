"""One cell: conditions under which a service is measured; what was measured; what was predicted. The files' format."""

from __future__ import annotations

from typing import Literal

import msgspec

Scheduling = Literal["normal", "idle"]

SATURATES = 0.9
"""More is offered than can be done where less than this share of it is answered, by a service that uses more than this
share of the CPUs that it can have."""

KINDS = ("p50_ms", "p95_ms", "p99_ms", "throughput", "cpu")
"""The figures of a cell that are predicted."""

NEVER_MS = 1e9
"""Stands for an infinite time, which JSON has no number for."""


class Cell(msgspec.Struct, frozen=True):
    """Conditions. `load` is a share of what the service could do under the other conditions at most; above 1 the
    throughput at saturation is what counts. `quota` is in CPUs a period, None is no limit.

    `company` is `none`, the name of a job, or `service:NAME`; `weight` that of its group, where the service has 1;
    `scheduling` that of the company. `repeat` tells measurements of the same conditions apart.
    """

    service: str
    cpus: int
    quota: float | None
    load: float
    company: str = "none"
    weight: float = 1.0
    scheduling: Scheduling = "normal"
    repeat: int = 0

    @property
    def key(self) -> str:
        """The conditions as one word, to find the cell again in files."""
        quota = "-" if self.quota is None else f"{self.quota:g}"
        parts = (self.service, self.cpus, quota, f"{self.load:g}", self.company, f"{self.weight:g}", self.scheduling)
        return "/".join(str(part) for part in (*parts, self.repeat))

    @property
    def saturated(self) -> bool:
        """More is offered than can be done: latency means nothing, throughput does."""
        return self.load > 1.0


class Measured(msgspec.Struct, frozen=True):
    """What a cell showed over `seconds`. Latencies in ms from the due time of a request; rates a second.

    Requests that are due within the `seconds` count, also those answered after them, and those that are due up to 0.5 s
    before and answered within. `unanswered` are those that were not answered within 10 s, which counts as their
    latency. `low` and `high` are the 90 % interval of p99 from order statistics, as if requests were independent. `cpu`
    is the service's CPU time, `company_cpu` that of the company, `foreign` that of all other programs and `steal` that
    of the hypervisor, all in CPUs. `noisy` says why a cell is not scored, or is empty.
    """

    seconds: float
    rate: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    low: float | None
    high: float | None
    throughput: float
    samples: int
    errors: int
    cpu: float
    company_cpu: float
    company_throughput: float
    generator_cpu: float
    lateness_p50_ms: float | None
    lateness_p99_ms: float | None
    steal: float
    foreign: float
    waited_s: float
    throttled_share: float
    noisy: str
    histogram: list[tuple[float, int]] = []
    unanswered: int = 0

    @property
    def overloaded(self) -> bool:
        """Whether the service could not do what was offered."""
        return self.throughput < SATURATES * self.rate


class Range(msgspec.Struct, frozen=True):
    """A prediction and its 90 % interval.

    `simulated` is what the simulation alone says, where it differs. `spread` is how far apart its draws are on a
    logarithmic scale.
    """

    value: float
    low: float
    high: float
    simulated: float | None = None
    spread: float = 1.0


class Predicted(msgspec.Struct, frozen=True):
    """What the simulation says of a cell, and the simplest things that might do as well.

    `nearest_ms` are p50, p95 and p99 of the cell of the same service whose conditions are nearest, out of those that
    were measured before; `mm1_ms` those of the first fit cell over 1 - load, as of a queue M/M/1. `at` is when it was
    said.
    """

    p50_ms: Range
    p95_ms: Range
    p99_ms: Range
    throughput: Range
    cpu: Range
    nearest_ms: tuple[float, float, float]
    mm1_ms: tuple[float, float, float]
    at: float


class Row(msgspec.Struct, frozen=True):
    """A cell in the file of a run. `measured_at` is when its measurement began."""

    cell: Cell
    calibrated: bool
    measured_at: float
    measured: Measured
    predicted: Predicted | None = None
