"""Work per request that changes slowly: other data, other requests, a cache of the service's own that fills."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from osml.simulator.state import Node
from osml.simulator.variation.spread import checked_spread

_SHORTEST_S, _LONGEST_S = 120.0, 240.0
"""Of a period: from the least work to the most in one to two minutes."""


@dataclass(frozen=True)
class Drift:
    """A sine for each service: its work per request is `amplitude` below to `amplitude` above the mean.

    The most is that of the catalog, because the targets of many services leave no room for more. `periods_s` and
    `phases` (in periods) have an entry a service.
    """

    amplitude: float
    periods_s: tuple[float, ...]
    phases: tuple[float, ...]

    def __post_init__(self) -> None:
        checked_spread("amplitude of a drift", self.amplitude)

    def factors(self, time_s: float) -> list[float]:
        """Work per request over the catalog's, by service."""
        waves = [math.sin(2.0 * math.pi * (time_s / s + at)) for s, at in zip(self.periods_s, self.phases, strict=True)]
        return [(1.0 + self.amplitude * wave) / (1.0 + self.amplitude) for wave in waves]

    def node(self, node: Node, time_s: float) -> Node:
        """The node at this time."""
        return _with_work(node, self.factors(time_s))

    def heaviest_s(self, weights: Sequence[float], seconds: float) -> float:
        """When, within so many seconds, the weighted sum of work is largest."""

        def work(time_s: float) -> float:
            return sum(weight * by for weight, by in zip(weights, self.factors(time_s), strict=True))

        return max(np.arange(0.0, seconds, 1.0).tolist(), key=work)

    def peaks_s(self, seconds: float) -> list[float]:
        """When, within so many seconds, the work of each service is largest."""
        times = np.arange(0.0, seconds, 1.0).tolist()
        work = [self.factors(time_s) for time_s in times]
        return [times[max(range(len(times)), key=lambda at: work[at][i])] for i in range(len(self.phases))]


def drawn_drift(services: int, amplitude: float, rng: np.random.Generator) -> Drift:
    """A drift with a period and a phase of its own for each service."""
    periods = rng.uniform(_SHORTEST_S, _LONGEST_S, services).tolist()
    return Drift(amplitude, tuple(periods), tuple(rng.uniform(0.0, 1.0, services).tolist()))


def _with_work(node: Node, factors: Sequence[float]) -> Node:
    services = zip(node.services, factors, strict=True)
    return replace(node, services=tuple(replace(one, instructions=one.instructions * by) for one, by in services))
