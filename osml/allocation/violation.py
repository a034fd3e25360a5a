"""How long targets have been missed, and when to tell the scheduler above (PARTIES, algorithm 1: migrate)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from osml.domain import Infeasible, Service

MIGRATE_AFTER_S = 60.0
_MINUTES = (1, 2, 5, 10, 30)


def violated_since(services: Mapping[str, Service], since_s: float | None, now_s: float) -> float | None:
    """Since when some LC service has missed its target without a pause; None while all are known to meet theirs.

    `services` are the LC services. One without a measurement neither starts nor ends a violation. A time that has not
    come yet (the clock started again), or that is no time (a damaged state), counts as not known.
    """
    if since_s is not None and not -math.inf < since_s <= now_s:
        since_s = None
    known = [slack for service in services.values() if (slack := service.slack) is not None]
    if known and min(known) < 0:
        return now_s if since_s is None else since_s
    return None if len(known) == len(services) else since_s


def migration(services: Mapping[str, Service], since_s: float | None, now_s: float) -> Infeasible | None:
    """After a minute of violation: which targets are missed, and whom to move away.

    PARTIES moves the service that moves most cheaply: a stateless one, otherwise the one with the most relaxed target.
    Which services are stateless is not known here.
    """
    if since_s is None or now_s - since_s < MIGRATE_AFTER_S:
        return None
    violated = sorted(name for name, s in services.items() if s.slack is not None and s.slack < 0)
    if not violated:
        return None
    relaxed = max(services.values(), key=lambda s: (s.target_ms or 0.0, s.name))
    return Infeasible(
        violated,
        f"no allocation has met all targets for {_long(now_s - since_s)} or more; move a service to another node: "
        f"'{relaxed.name}' has the most relaxed target ({relaxed.target_ms:g} ms)",
    )


def _long(seconds: float) -> str:
    """A time in few steps: who hears it in every interval shall see a change where there is one."""
    minutes = seconds / 60.0
    if minutes < 60:
        return f"{max((one for one in _MINUTES if one <= minutes), default=1)} min"
    hours = int(minutes / 60)
    return f"{hours} h" if hours < 24 else "a day"
