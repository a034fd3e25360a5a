"""Square-root staffing: CPUs for a service by the CPU time that it uses (Halfin and Whitt 1981)."""

from __future__ import annotations

import math


def staffed_cpus(usage: float) -> float:
    """Logical CPUs for a service that uses `usage` logical CPUs: u + sqrt(u) + 1."""
    return usage + math.sqrt(usage) + 1.0
