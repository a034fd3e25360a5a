"""What is known of a service after its fit cells were measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """Work is CPU time a request in ms of a service that never sleeps; base is the part of a latency that is no CPU
    time of the service.

    A thread that wakes up spends `wake_ms` more after a long sleep, and 1 - exp(-sleep / cool_ms) of that after a
    shorter one (cold caches, the kernel's idle loop). Beside a computing or a streaming job this is multiplied by
    `beside_stress` and `beside_triad`, and the base is that of busy CPUs. `shape` are quantiles of a request's work at
    even levels, with mean 1. `work_error` and `base_error` are relative standard errors. `generator_ms` is what a
    request costs the load generator.
    """

    service: str
    threads: int
    bound: bool
    work_ms: float
    wake_ms: float
    cool_ms: float
    beside_stress: float
    beside_triad: float
    base_ms: float
    base_busy_ms: float
    shape: tuple[float, ...]
    work_error: float
    base_error: float
    generator_ms: float

    def wake_beside(self, company: str) -> float:
        """Cost of a wake-up after a long sleep beside this company, ms."""
        return self.wake_ms * {"stress": self.beside_stress, "triad": self.beside_triad}.get(company, 1.0)

    def base_beside(self, company: str) -> float:
        """The base beside this company: an idle CPU has to be woken up first, a busy one not."""
        return self.base_busy_ms if company in ("stress", "triad") else self.base_ms
