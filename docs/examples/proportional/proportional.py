"""Cores and ways in proportion to latency over target: a policy of 40 lines that runs in the bench."""

from __future__ import annotations

from msgspec import Struct

from osml.allocation.policy import Plan
from osml.domain import Observation, Partition, Reason, Region

KEPT = 0.8  # share of the old weight: a single interval's latency is noisy


class ProportionalState(Struct, frozen=True):
    """Weight of each service or job, smoothed."""

    weights: dict[str, float] = {}


class Proportional:
    """Everybody has an isolated region; who is closer to (or further over) the target has the larger one."""

    name = "proportional"
    version = 1
    State = ProportionalState

    def initial(self, observation: Observation, seed: int) -> ProportionalState:
        """Nothing known yet."""
        return ProportionalState()

    def decide(self, observation: Observation, state: ProportionalState) -> tuple[Plan, ProportionalState]:
        """Shares by smoothed weights."""
        weights: dict[str, float] = {}
        for service in observation.services:
            now = 0.2 if service.slack is None else min(5.0, max(0.05, 1.0 - service.slack))
            weights[service.name] = KEPT * state.weights.get(service.name, now) + (1 - KEPT) * now
        cores = _shares(weights, observation.platform.cores)
        ways = _shares(weights, observation.platform.ways or 0)
        regions = [Region([name], cores[name], ways[name]) for name in weights]
        text = "proportional: " + ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
        return Plan(Partition(regions), [Reason(text=text)]), ProportionalState(weights)


def _shares(weights: dict[str, float], units: int) -> dict[str, int]:
    """One unit each, the rest by weight, rounded down: never more than there is."""
    rest, total = max(0, units - len(weights)), sum(weights.values())
    return {name: min(1, units) + int(rest * weight / total) for name, weight in weights.items()}
