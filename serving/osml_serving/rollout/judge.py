"""Whether a canary is worse than the nodes beside it: one figure a node, Welch's interval, looks that are counted.

Look number k has 6/(pi k)^2 of the error that the confidence allows (these parts add up to 1), and looks come when the
time of the canary's nodes has doubled: who looks all the time would find a difference at last, where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, variance
from typing import Literal

from osml_serving.rollout.plan import Limits

Arm = Literal["canary", "others"]
LEAST_NODES = 3
MAX_NODES = 20_000


@dataclass
class NodeTally:
    """What was seen of one node in its arm, s. `settling_s` is what is left until it counts."""

    arm: Arm
    settling_s: float
    seconds: float = 0.0
    missed_s: float = 0.0
    e_s_s: float = 0.0
    e_s_seconds: float = 0.0


@dataclass(frozen=True)
class Difference:
    """Canary less others: means over nodes, and the lower bound of their difference."""

    canary: float
    others: float
    low: float


@dataclass(frozen=True)
class ArmFigures:
    """One arm: nodes, their time (s), share of it with a missed target, E_S; None where nothing was measured."""

    nodes: int
    seconds: float
    missed: float | None
    e_s: float | None
    failures: int


@dataclass
class Tally:
    """All nodes that a canary chose from. Beyond MAX_NODES new nodes do not count."""

    limits: Limits
    nodes: dict[str, NodeTally] = field(default_factory=dict[str, NodeTally])
    failures: dict[Arm, int] = field(default_factory=lambda: {"canary": 0, "others": 0})
    looks: int = 0

    def add(self, node: str, arm: Arm, interval_s: float, *, missed: bool, e_s: float | None) -> None:
        """Count an interval. What a node shows in its first seconds is still of the policy before."""
        tally = self.nodes.get(node)
        if tally is None or tally.arm != arm:
            if tally is None and len(self.nodes) >= MAX_NODES:
                return
            tally = self.nodes[node] = NodeTally(arm, self.limits.settle_s)
        if tally.settling_s > 0:
            tally.settling_s -= interval_s
            return
        tally.seconds += interval_s
        tally.missed_s += interval_s if missed else 0.0
        if e_s is not None:
            tally.e_s_s += interval_s * e_s
            tally.e_s_seconds += interval_s

    def figures(self, arm: Arm) -> ArmFigures:
        """One arm, for people."""
        missed, e_s = self._missed(arm), self._e_s(arm)
        seconds = sum(one.seconds for one in self.nodes.values() if one.arm == arm)
        return ArmFigures(
            len(missed), seconds, fmean(missed) if missed else None, fmean(e_s) if e_s else None, self.failures[arm]
        )

    def verdict(self) -> str | None:
        """Why the canary has to return; None while nothing speaks against it."""
        if self.failures["canary"] >= self.limits.failures and not self.failures["others"]:
            return f"its decisions failed {self.failures['canary']} times, and those of the other nodes never"
        hours = sum(one.seconds for one in self.nodes.values() if one.arm == "canary") / 3600
        if hours < max(self.limits.node_hours, 1e-3) * 2**self.looks:
            return None
        self.looks += 1
        error = (1 - self.limits.confidence) * 6 / (math.pi * self.looks) ** 2
        level = 1 - error / 2  # two figures are looked at
        for name, of, margin in (
            ("the share of time with a missed target", self._missed, self.limits.missed),
            ("E_S", self._e_s, self.limits.e_s),
        ):
            found = difference(of("canary"), of("others"), level)
            if found is not None and found.low > margin:
                return (
                    f"{name} is {found.canary:.3f} on its nodes and {found.others:.3f} on the others; "
                    f"the difference is at least {found.low:.3f}, the limit is {margin:g}"
                )
        return None

    def _missed(self, arm: Arm) -> list[float]:
        return [one.missed_s / one.seconds for one in self.nodes.values() if one.arm == arm and one.seconds > 0]

    def _e_s(self, arm: Arm) -> list[float]:
        return [one.e_s_s / one.e_s_seconds for one in self.nodes.values() if one.arm == arm and one.e_s_seconds > 0]


def difference(canary: Sequence[float], others: Sequence[float], level: float) -> Difference | None:
    """Difference of two means with its lower bound (Welch, 1947); None with less than LEAST_NODES in an arm."""
    if min(len(canary), len(others)) < LEAST_NODES:
        return None
    parts = variance(canary) / len(canary), variance(others) / len(others)
    spread = sum(parts)
    one, other = fmean(canary), fmean(others)
    if spread == 0.0:
        return Difference(one, other, one - other)
    from scipy.special import stdtrit  # noqa: PLC0415 - no server without a canary needs it

    freedom = spread**2 / (parts[0] ** 2 / (len(canary) - 1) + parts[1] ** 2 / (len(others) - 1))
    return Difference(one, other, one - other - float(stdtrit(freedom, level)) * math.sqrt(spread))
