"""Square-root staffing: CPUs for a service by the CPU time that it uses (Halfin and Whitt 1981)."""

from __future__ import annotations

import math

from osml.domain import Service

MOST_CPUS = 1e6
"""No node has so many: a measurement of more is none."""


def staffed_cpus(usage: float) -> float:
    """Logical CPUs for a service that uses `usage` logical CPUs: u + sqrt(u) + 1."""
    return usage + math.sqrt(usage) + 1.0


def used_cpus(service: Service) -> float | None:
    """Logical CPUs that a service was measured to use; None where that was not measured or is no amount."""
    used = service.counters.cpu_usage_cores
    return used if used is not None and 0.0 <= used < MOST_CPUS else None
