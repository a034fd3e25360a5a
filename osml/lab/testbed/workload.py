"""When interference is there and how the load moves, from a seed: the same for every policy."""

from __future__ import annotations

import math
import random

from osml.dispatch.haproxy.interference_signal import Switch

TRACE_STEPS = 60
PEAK = 0.7
"""Utilisation at a trace's peak; its lowest is half of it, as in the paper."""


def switches(backend: str, alpha: float, until_s: float, seed: int) -> list[Switch]:
    """Exponential phases of mean 1/alpha. Seeds 2n and 2n + 1 have the same phases, one free while the other is under
    interference: their mean has interference exactly half of the time, which short runs would leave to chance.
    """
    draw = random.Random(seed // 2)  # noqa: S311 - nothing secret
    found: list[Switch] = []
    t, state = 0.0, seed % 2 == 1
    while t < until_s:
        found.append(Switch(t, backend, state))
        t, state = t + draw.expovariate(alpha), not state
    return found


def utilisation(trace: str, seed: int) -> list[float]:
    """Utilisation in each of TRACE_STEPS steps of the run, between PEAK / 2 and PEAK.

    app: a steep rise, a nearly constant rate, a steep drop. etc: the same, with bursts. The published traces are
    figures only; these have their described shape and their ratio of peak to lowest (2).
    """
    draw = random.Random(f"{trace} {seed}")  # noqa: S311 - nothing secret
    noise, persistence = (0.03, 0.5) if trace == "app" else (0.30, 0.75)
    base = 0.9 if trace == "app" else 0.6
    level, found = 0.0, list[float]()
    for step in range(TRACE_STEPS):
        place = step / (TRACE_STEPS - 1)
        envelope = min(1.0, place / 0.1, (1 - place) / 0.1)
        level = persistence * level + math.sqrt(1 - persistence**2) * draw.gauss(0.0, noise)
        height = min(1.0, max(0.0, base + level)) * envelope  # 0: half of the peak, 1: the peak
        found.append(PEAK * (1 + height) / 2)
    return found
