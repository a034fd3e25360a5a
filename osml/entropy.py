"""System entropy E_S of Ah-Q (Liu et al., TPDS 2024), section V: how much interference a node's services cannot take.

All values are dimensionless and lie in [0, 1]; 0 is best. Latencies are in ms, at the percentile of the target.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from osml.domain import Entropy, Service, ServiceEntropy

RELATIVE_IMPORTANCE = 0.8  # RI of equation 17, as the authors set it (section V-B)


def tolerance(ideal_ms: float, target_ms: float) -> float:
    """A_i = 1 - TL_i0 / M_i (equation 11). 0 where even the ideal latency misses the target."""
    return max(0.0, 1.0 - ideal_ms / target_ms)


def interference(ideal_ms: float, real_ms: float) -> float:
    """R_i = 1 - TL_i0 / TL_i1 (equation 12). 0 where the measurement is below the ideal (noise)."""
    return max(0.0, 1.0 - ideal_ms / real_ms) if real_ms > 0 else 0.0


def remaining_tolerance(real_ms: float, target_ms: float) -> float:
    """ReT_i = A_i > R_i ? 1 - TL_i1 / M_i : 0 (equation 13).

    A_i > R_i is the same as TL_i1 < M_i, so the ideal latency is not needed.
    """
    return max(0.0, 1.0 - real_ms / target_ms)


def intolerable(real_ms: float, target_ms: float) -> float:
    """Q_i = R_i > A_i ? 1 - M_i / TL_i1 : 0 (equation 14). R_i > A_i is the same as TL_i1 > M_i."""
    return 1.0 - target_ms / real_ms if real_ms > target_ms else 0.0


def lc_entropy(intolerables: Sequence[float]) -> float:
    """E_LC = mean of Q_i (equation 15). Raises ValueError when there is no service."""
    if not intolerables:
        raise ValueError("E_LC is not defined without a service")
    return sum(intolerables) / len(intolerables)


def be_entropy(slowdowns: Sequence[float]) -> float:
    """E_BE = 1 - m / sum(IPC_solo / IPC_real) (equation 16), from slowdowns >= 1; a stopped job (inf) gives 1.

    Raises ValueError when there is no job.
    """
    if not slowdowns:
        raise ValueError("E_BE is not defined without a job")
    total = sum(max(1.0, slowdown) for slowdown in slowdowns)
    return 1.0 if math.isinf(total) else 1.0 - len(slowdowns) / total


def combine(e_lc: float | None, e_be: float | None, importance: float = RELATIVE_IMPORTANCE) -> float | None:
    """E_S = RI E_LC + (1 - RI) E_BE (equation 17); of one kind alone it is that kind's entropy (section V-B)."""
    if e_lc is None or e_be is None:
        return e_be if e_lc is None else e_lc
    return importance * e_lc + (1.0 - importance) * e_be


def service_entropy(name: str, ideal_ms: float | None, real_ms: float, target_ms: float) -> ServiceEntropy:
    """A_i, R_i, ReT_i, Q_i of one LC service."""
    return ServiceEntropy(
        name=name,
        tolerance=None if ideal_ms is None else tolerance(ideal_ms, target_ms),
        interference=None if ideal_ms is None else interference(ideal_ms, real_ms),
        remaining_tolerance=remaining_tolerance(real_ms, target_ms),
        intolerable=intolerable(real_ms, target_ms),
    )


def system_entropy(services: Sequence[Service], relative_importance: float = RELATIVE_IMPORTANCE) -> Entropy:
    """E_LC, E_BE and E_S of what was measured in one interval.

    Services without a measurement are left out of the means. Where LC services exist and none was measured, E_S is
    None: the BE jobs alone say nothing about targets.
    """
    measured = [
        service_entropy(service.name, service.ideal_ms, latency_ms, service.target_ms)
        for service in services
        if service.kind == "lc" and service.target_ms is not None and (latency_ms := service.latency_ms) is not None
    ]
    slowdowns = [slow for service in services if service.kind == "be" and (slow := service.slowdown) is not None]
    e_lc = lc_entropy([entry.intolerable for entry in measured]) if measured else None
    e_be = be_entropy(slowdowns) if slowdowns else None
    blind = e_lc is None and any(service.kind == "lc" for service in services)
    return Entropy(e_lc, e_be, None if blind else combine(e_lc, e_be, relative_importance), measured)
