"""Whether a canary is worse than the nodes beside it: one figure a node, Welch's interval, looks that are counted.

Figures are of a window of WINDOW_S: a canary that turns bad later is not hidden behind good weeks. Only a window in
which it was not yet time for a look goes on for longer. Within it, looks come when the time of the canary's nodes has
doubled, at least every LOOK_S, and at its end. Look number k, over all windows, has 6/(pi k)^2 of the error that the
confidence allows (these parts add up to 1): who looks all the time would find a difference at last, where there is
none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, variance
from typing import Literal, NamedTuple

from osml_serving.rollout.plan import Limits

Arm = Literal["canary", "others"]
ARMS: tuple[Arm, Arm] = ("canary", "others")
LEAST_NODES = 3
MAX_NODES = 20_000
WINDOW_S = 86_400.0
LOOK_S = 3600.0
WORSE = 10.0
"""The share of failed decisions is this many times that of the other nodes where failures end a canary."""
LEAST_SHARE = 0.001
"""A smaller share of failed decisions ends no canary: in a large fleet something always fails."""


@dataclass
class NodeTally:
    """What was seen of one node in its arm, s. `settling_s` is what is left until it counts.

    `away_s`: time since it left its arm, until it is back.

    `judged_s`: time in which it is known whether all targets were met.

    `unmeasured_s`: time without the latency of some service, and after decisions that the agent refused or could not
    apply. A service that is starved so far that it tells nothing has missed no target. What is measured without an
    applied decision is of another allocation.
    """

    arm: Arm
    settling_s: float
    away_s: float = 0.0
    seconds: float = 0.0
    judged_s: float = 0.0
    missed_s: float = 0.0
    unmeasured_s: float = 0.0
    e_s_s: float = 0.0
    e_s_seconds: float = 0.0
    decisions: int = 0
    failures: int = 0


@dataclass(frozen=True)
class Difference:
    """Canary less others: means over nodes, and the lower bound of their difference."""

    canary: float
    others: float
    low: float


@dataclass(frozen=True)
class ArmFigures:
    """One arm: nodes, their time (s), share of it with a missed target, E_S; None where nothing was measured.

    `unmeasured` is the share of the time without the latency of some service or without an applied decision. It is a
    mean over `nodes`; `missed` and `e_s` are means over the nodes on which there was something to judge.
    """

    nodes: int
    seconds: float
    missed: float | None
    e_s: float | None
    failures: int
    unmeasured: float | None = None
    missed_nodes: int = 0
    e_s_nodes: int = 0


class _Compared(NamedTuple):
    """What is compared: its name, a figure a node of each arm, and the difference that is tolerated."""

    name: str
    canary: list[float]
    others: list[float]
    margin: float


def _too_few(pairs: Sequence[_Compared]) -> bool:
    return all(min(len(pair.canary), len(pair.others)) < LEAST_NODES for pair in pairs)


@dataclass
class Tally:
    """All nodes that a canary chose from, in the present window. Beyond MAX_NODES new nodes do not count."""

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    nodes: dict[str, NodeTally] = field(default_factory=dict[str, NodeTally])
    looks: int = 0
    window_looks: int = 0
    looked_s: float = 0.0
    began_s: float | None = None

    def add(
        self,
        node: str,
        arm: Arm,
        interval_s: float,
        *,
        missed: bool,
        e_s: float | None,
        unmeasured: bool = False,
        unapplied: bool = False,
    ) -> None:
        """Count an interval. What a node shows in its first seconds is still of the policy before."""
        tally = self._node(node, arm)
        if tally is None:
            return
        tally.decisions += 1
        if tally.settling_s > interval_s / 2:  # intervals jitter: a rest of milliseconds is none
            tally.settling_s -= interval_s
            return
        tally.seconds += interval_s
        tally.missed_s += interval_s if missed else 0.0
        tally.judged_s += interval_s if missed or not unmeasured else 0.0
        tally.unmeasured_s += interval_s if unmeasured or unapplied else 0.0
        if e_s is not None:
            tally.e_s_s += interval_s * e_s
            tally.e_s_seconds += interval_s

    def settle(self, node: str, arm: Arm) -> None:
        """A node comes to its arm, also back after decisions of another policy: then it settles as long as it was away.

        The whole time each time would leave nothing to judge of a node that is away for a moment every minute.
        """
        tally = self._node(node, arm)
        if tally is not None:
            tally.settling_s = min(self.limits.settle_s, max(0.0, tally.settling_s) + tally.away_s)
            tally.away_s = 0.0

    def add_away(self, node: str, seconds: float) -> None:
        """Count time in which no arm of this canary had the node."""
        tally = self.nodes.get(node)
        if tally is not None:
            tally.away_s += seconds

    def add_failure(self, node: str, arm: Arm) -> None:
        """Count a decision that failed."""
        tally = self._node(node, arm)
        if tally is not None:
            tally.decisions += 1
            tally.failures += 1

    def figures(self, arm: Arm) -> ArmFigures:
        """One arm, for people."""
        missed, e_s, unmeasured = self._missed(arm), self._e_s(arm), self._unmeasured(arm)
        of_arm = [one for one in self.nodes.values() if one.arm == arm]
        return ArmFigures(
            len(unmeasured),
            sum(one.seconds for one in of_arm),
            fmean(missed) if missed else None,
            fmean(e_s) if e_s else None,
            sum(one.failures for one in of_arm),
            fmean(unmeasured) if unmeasured else None,
            len(missed),
            len(e_s),
        )

    @property
    def blind(self) -> bool:
        """Whether an arm has too few nodes to be compared, after the time that one of the arms needs for a look."""
        return max(map(self._hours, ARMS)) >= self._least_hours() and _too_few(self._pairs())

    def verdict(self) -> str | None:
        """Why the canary has to return; None while nothing speaks against it."""
        why = self._of_failures()
        old = self.began_s is not None and self.clock() - self.began_s >= WINDOW_S
        ends = old and self._hours("canary") >= self._least_hours()
        if why is None and self._time_to_look(last=ends):
            why = self._of_figures()
        if ends:
            self._begin_window()
        return why

    def _node(self, node: str, arm: Arm) -> NodeTally | None:
        if self.began_s is None:
            self.began_s = self.clock()
        tally = self.nodes.get(node)
        if tally is None or tally.arm != arm:
            if tally is None and len(self.nodes) >= MAX_NODES:
                return None
            tally = self.nodes[node] = NodeTally(arm, self.limits.settle_s)
        return tally

    def _begin_window(self) -> None:
        self.began_s = self.clock()
        self.window_looks = 0
        self.nodes = {
            name: NodeTally(one.arm, one.settling_s, one.away_s) for name, one in self.nodes.items() if one.decisions
        }

    def _of_failures(self) -> str | None:
        """Failures count on two nodes at least: a single one may send what no policy can handle."""
        arms = {arm: [one for one in self.nodes.values() if one.arm == arm] for arm in ARMS}
        failed = [one.failures for one in arms["canary"] if one.failures]
        if sum(failed) < self.limits.failures or len(failed) < min(2, len(arms["canary"])):
            return None
        counts = {arm: (sum(one.failures for one in ones), sum(one.decisions for one in ones))
                  for arm, ones in arms.items()}  # fmt: skip
        shares = {arm: failures / max(1, decisions) for arm, (failures, decisions) in counts.items()}
        if shares["canary"] < LEAST_SHARE or shares["canary"] <= WORSE * shares["others"]:
            return None
        said = {arm: f"{failures} of {decisions} decisions" for arm, (failures, decisions) in counts.items()}
        return f"{said['canary']} failed on {len(failed)} of its nodes, and {said['others']} on the others"

    def _hours(self, arm: Arm) -> float:
        return sum(one.seconds for one in self.nodes.values() if one.arm == arm) / 3600

    def _least_hours(self) -> float:
        return max(self.limits.node_hours, 1e-3)

    def _time_to_look(self, *, last: bool) -> bool:
        hours, least = self._hours("canary"), self._least_hours()
        waited = last or (self.window_looks > 0 and self.clock() - self.looked_s >= LOOK_S)
        return hours >= (least if waited else least * 2**self.window_looks)

    def _pairs(self) -> list[_Compared]:
        measures = (
            ("the share of time with a missed target", self._missed, self.limits.missed),
            (
                "the share of time without a measured latency or an applied decision",
                self._unmeasured,
                self.limits.missed,
            ),
            ("E_S", self._e_s, self.limits.e_s),
        )
        return [_Compared(name, of("canary"), of("others"), margin) for name, of, margin in measures]

    def _of_figures(self) -> str | None:
        """A look. One that finds too few nodes to compare costs nothing."""
        pairs = self._pairs()
        if _too_few(pairs):
            return None
        self.looks += 1
        self.window_looks += 1
        self.looked_s = self.clock()
        error = (1 - self.limits.confidence) * 6 / (math.pi * self.looks) ** 2
        level = 1 - error / len(pairs)
        for name, one, other, margin in pairs:
            found = difference(one, other, level)
            if found is not None and found.low > margin:
                return (
                    f"{name} is {found.canary:.3f} on its nodes and {found.others:.3f} on the others; "
                    f"the difference is at least {found.low:.3f}, the limit is {margin:g}"
                )
        return None

    def _missed(self, arm: Arm) -> list[float]:
        return [one.missed_s / one.judged_s for one in self.nodes.values() if one.arm == arm and one.judged_s > 0]

    def _unmeasured(self, arm: Arm) -> list[float]:
        return [one.unmeasured_s / one.seconds for one in self.nodes.values() if one.arm == arm and one.seconds > 0]

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
