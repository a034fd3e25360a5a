"""Loads that change every now and then, for nodes that were drawn."""

from __future__ import annotations

import numpy as np

from osml.simulator.load_traces import Steps
from osml.simulator.variation.draw import Variant

LEAST, MOST = 0.4, 1.25
"""Of the mean load."""

_FULL = 0.9
"""No load is more, as a share of max load."""


def changing_loads(variant: Variant, seconds: float, between_s: tuple[float, float]) -> dict[str, Steps]:
    """Loads that go to LEAST to MOST of their mean, uniformly drawn, after so many seconds each: the seed's own."""
    found: dict[str, Steps] = {}
    for k, (name, mean) in enumerate(sorted(variant.loads.items())):
        rng = np.random.default_rng([variant.seed, k, 77])
        changes: list[tuple[float, float]] = []
        at = float(rng.uniform(*between_s))
        while at < seconds:
            changes.append((at, min(_FULL, mean * float(rng.uniform(LEAST, MOST)))))
            at += float(rng.uniform(*between_s))
        found[name] = Steps(mean, tuple(changes))
    return found


def most_loads(variant: Variant) -> dict[str, float]:
    """The most that `changing_loads` can give each service."""
    return {name: min(_FULL, MOST * mean) for name, mean in variant.loads.items()}
