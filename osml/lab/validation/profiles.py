"""What is known of a service after its fit cells were measured."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """What `calibrate` found.

    Work is CPU time a request in ms without what waking up costs, `saturated_ms` that of a service that never sleeps
    because more is asked of it than it can do. Base is the part of a latency that is no CPU time of the service.

    A thread that wakes up spends `wake_ms` more where it slept long (cold caches, the kernel's idle loop, a virtual CPU
    that the hypervisor took away), and less the more often it is woken up: exp(-rate * cool_ms) of that. With two CPUs
    this is multiplied by `on_two_cpus`, beside a computing or a streaming job by `beside_stress` or `beside_triad`
    instead, and the base is that of busy CPUs.

    `shape` are quantiles of a request's work at even levels, with mean 1. `work_error` and `base_error` are relative
    standard errors. `generator_ms` is what a request costs the load generator. `tight` is a quota and
    the work at saturation under it: each throttled period costs something, which counts more in a short one.
    """

    service: str
    threads: int
    bound: bool
    work_ms: float
    saturated_ms: float
    wake_ms: float
    cool_ms: float
    on_two_cpus: float
    beside_stress: float
    beside_triad: float
    base_ms: float
    base_busy_ms: float
    shape: tuple[float, ...]
    work_error: float
    base_error: float
    generator_ms: float
    tight: tuple[float, float] | None = None

    def wake_beside(self, company: str, cpus: int, rate: float) -> float:
        """Mean cost of a wake-up in ms beside this company, at so many requests a second."""
        alone = self.on_two_cpus if cpus > 1 else 1.0
        factor = {"stress": self.beside_stress, "triad": self.beside_triad}.get(company, alone)
        return self.wake_ms * factor * math.exp(-rate / 1000.0 * self.cool_ms)

    def work_at(self, load: float, quota: float | None) -> float:
        """CPU time a request in ms at this load and quota, without what waking up costs."""
        if load <= 1.0:
            return self.work_ms
        if quota is not None and self.tight is not None and quota <= self.tight[0]:
            return self.tight[1]
        return self.saturated_ms

    def base_beside(self, company: str) -> float:
        """The base beside this company: an idle CPU has to be woken up first, a busy one not."""
        return self.base_busy_ms if company in ("stress", "triad") else self.base_ms
