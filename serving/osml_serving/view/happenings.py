"""What happened on a node, in words: a target missed for a while, an agent that started anew, another policy.

Single intervals are noise: a service counts as missing its target, or as meeting it again, after STEADY_S of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from osml.domain import NOT_DONE, Decision, Observation
from osml_serving.metrics import LONGEST_INTERVAL_S
from osml_serving.view.interval import Interval

STEADY_S = 30.0
SILENT_S = 30.0  # a node is silent that sends nothing for this long, and for SILENT_INTERVALS
SILENT_INTERVALS = 5
LONGEST_SILENCE_S = 5 * 3600.0  # whatever interval a node tells; no agent observes more seldom than once an hour
MAX_TEXT = 160
MOST_A_MINUTE = 6
Kind = Literal["missed", "met", "infeasible", "feasible", "policy", "services", "agent", "silent", "apply"]


def silent_after_s(interval_s: float) -> float:
    """Time after an observation from which on its node is silent; the page of the fleet has the same function."""
    return min(max(SILENT_S, SILENT_INTERVALS * interval_s), LONGEST_SILENCE_S)


class Event(Struct):
    """Something that happened on a node; `at` is the server's clock."""

    at: float
    node: str
    kind: Kind
    text: str


class Seen(Struct):
    """What one interval shows of a node. `interval_s` is at most LONGEST_INTERVAL_S, `silent_s` is of the true one."""

    at: float
    seq: int
    interval_s: float
    policy: str | None  # None: a node's policy decided once in place of a canary, and that is no change
    canary: str | None
    met: dict[str, bool | None]  # by LC service
    names: frozenset[str]
    infeasible: str | None
    failure: str | None
    silent_s: float = SILENT_S


def make_seen(
    observation: Observation, decision: Decision, interval: Interval, canary: str | None, *, instead: bool = False
) -> Seen:
    """What the events of a node are made of. `instead`: of a canary that did not decide this once."""
    outcome = observation.outcome
    failure = None
    if outcome is not None and outcome.status in NOT_DONE:
        failure = f"a decision was not applied ({outcome.status.replace('_', ' ')}): {outcome.message}"
    return Seen(
        interval.at,
        interval.seq,
        min(observation.interval_s, LONGEST_INTERVAL_S),
        None if instead else decision.policy,
        canary,
        {one.name: one.met for one in interval.services if one.kind == "lc"},
        frozenset(one.name for one in interval.services),
        None if decision.infeasible is None else decision.infeasible.message,
        failure,
        silent_after_s(observation.interval_s),
    )


@dataclass
class _Steady:
    """Whether something counts as missed, for how long it shows the other (s), and how long nobody measured it (s).

    `since` is when it began to be missed.
    """

    missed: bool = False
    other_s: float = 0.0
    blank_s: float = 0.0
    since: float = 0.0

    def turns(self, met: bool | None, at: float, interval_s: float) -> bool:
        """Count an interval; True where it has shown the other for STEADY_S, and counts as that from now on.

        Single intervals that nobody measured (None) change nothing; STEADY_S of them begin the count anew.
        """
        if met is None:
            self.blank_s += interval_s
            if self.blank_s >= STEADY_S:
                self.other_s = 0.0
            return False
        self.blank_s = 0.0
        if self.other_s == 0.0 and not self.missed:
            self.since = at - interval_s
        self.other_s = self.other_s + interval_s if met == self.missed else 0.0
        if self.other_s < STEADY_S:
            return False
        self.missed = not self.missed
        self.other_s = 0.0
        return True

    def begin_anew(self) -> None:
        """Count from here on: nobody knows what was before."""
        self.other_s = self.blank_s = 0.0


@dataclass
class Watch:
    """Compares each interval of a node with the one before."""

    node: str
    last: Seen | None = None
    targets: dict[str, _Steady] = field(default_factory=dict[str, _Steady])
    feasibility: _Steady = field(default_factory=_Steady)
    minute: int = 0
    in_minute: int = 0

    def events(self, seen: Seen) -> list[Event]:
        """What happened since the last interval."""
        last = self.last
        if last is not None and seen.policy is None:
            seen = replace(seen, policy=last.policy, canary=last.canary)
        self.last = seen
        found = [] if last is None else self._breaks(last, seen) + self._changes(last, seen)
        found += self._of_feasibility(seen) + self._of_targets(seen)
        told = [Event(seen.at, self.node, kind, text[:MAX_TEXT]) for kind, text in found]
        return told[: self._room(seen.at, len(told))]

    def _room(self, at: float, count: int) -> int:
        """How many of so many events fit into this minute: a node that flaps must not drive out the others'."""
        minute = int(at // 60)
        if minute != self.minute:
            self.minute, self.in_minute = minute, 0
        room = min(count, MOST_A_MINUTE - self.in_minute)
        self.in_minute += room
        return room

    def _breaks(self, last: Seen, seen: Seen) -> list[tuple[Kind, str]]:
        """What comes between two intervals. Nothing lasts over a silence; a miss lasts over a new agent."""
        found: list[tuple[Kind, str]] = []
        gap_s = seen.at - last.at
        if gap_s > seen.silent_s:
            found.append(("silent", f"it sent nothing for {gap_s:.0f} s"))
            for steady in (self.feasibility, *self.targets.values()):
                steady.begin_anew()
        if seen.seq < last.seq:
            found.append(("agent", "its agent started anew"))
        return found

    def _changes(self, last: Seen, seen: Seen) -> list[tuple[Kind, str]]:
        found: list[tuple[Kind, str]] = []
        if (seen.policy, seen.canary) != (last.policy, last.canary):
            found.append(("policy", f"{_decider(seen)} decides, before it was {_decider(last)}"))
        came, left = sorted(seen.names - last.names), sorted(last.names - seen.names)
        if came or left:
            words = [*(f"{name} came" for name in came[:3]), *(f"{name} left" for name in left[:3])]
            found.append(("services", ", ".join(words) + (" and others" if len(came + left) > len(words) else "")))
        if seen.failure is not None and seen.failure != last.failure:
            found.append(("apply", seen.failure))
        return found

    def _of_feasibility(self, seen: Seen) -> list[tuple[Kind, str]]:
        if not self.feasibility.turns(seen.infeasible is None, seen.at, seen.interval_s):
            return []
        if self.feasibility.missed:
            return [("infeasible", f"it cannot satisfy its services: {seen.infeasible}")]
        return [("feasible", "it can satisfy its services again")]

    def _of_targets(self, seen: Seen) -> list[tuple[Kind, str]]:
        self.targets = {name: self.targets.get(name) or _Steady() for name in seen.met}
        found: list[tuple[Kind, str]] = []
        for name, target in self.targets.items():
            if not target.turns(seen.met[name], seen.at, seen.interval_s):
                continue
            since_s = seen.at - target.since
            if target.missed:
                found.append(("missed", f"{name} has been above its target for {since_s:.0f} s"))
            else:
                found.append(("met", f"{name} meets its target again, {since_s:.0f} s after it began to miss it"))
        return found


def _decider(seen: Seen) -> str:
    return f"{seen.policy}" if seen.canary is None else f"{seen.policy} (canary {seen.canary})"
