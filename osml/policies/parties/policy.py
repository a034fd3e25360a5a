"""PARTIES (Chen, Delimitrou, Martinez; ASPLOS 2019): section 4, algorithms 1 to 4.

Every LC service has an isolated region; BE jobs share one region of all the rest (without BE jobs the rest is idle).
Cores, LLC ways, memory and disk are divided; each service has a clock of its own; the network is a threshold.

| here | paper |
|---|---|
| `Parties.decide`, `_Round.adjust` | algorithm 1: fair start; smallest slack < 0.05: up, else largest > 0.2: down |
| `network.adjust_network` | algorithm 1, section 4.2.1: adjust_network_bandwidth_partition |
| `_Round.judge` | section 4.2.2: was the last adjustment beneficial? next resource; revert and pause a downsize |
| `_Round.upsize`, `_Round.downsize` | algorithms 2 and 3, one unit an interval |
| `wheel.Wheels` | section 4.2.3, figure 4: two wheels, random start, transitions, skipped states |
| `memory` | sections 4.2.3 and 4.3: memory slack, the in-memory test, victims of <UP, MEM> |
| `_Round.take_from` | algorithm 4: victim (BE first, then the largest slack) and the ping-pong rule |
| `violation.migration` | algorithm 1: migration after a minute of violation |

Deviations are numbered in docs/reference/policies.md.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from osml.allocation.division import Division, count_text, divide, not_applied
from osml.allocation.holding import POOL, fair_holding
from osml.allocation.policy import Plan, latency_text
from osml.allocation.refusals import refusals, stuck
from osml.allocation.violation import migration, violated_since
from osml.domain import Observation, Partition, Reason, Resource
from osml.policies.parties.memory import DiskTest, Memory, in_memory, kept_mib, tested
from osml.policies.parties.network import adjust_network
from osml.policies.parties.wheel import Action, Wheels

__all__ = ["Action", "Parties", "PartiesState", "Trial"]

RESOURCES: tuple[Resource, ...] = ("cores", "ways", "frequency", "memory", "disk", "network")
UPSIZE_SLACK = 0.05
DOWNSIZE_SLACK = 0.2
DOWNSIZE_PAUSE_S = 30.0


class Trial(Struct, frozen=True):
    """The last adjustment, which the next observation judges. `other` gave (up) or received (down) the `units`."""

    service: str
    action: Action
    other: str
    latency_ms: float
    units: Annotated[int, Meta(ge=1)] = 1


class PartiesState(Struct, frozen=True):
    """`wanted` is the partition of the last decision; times are node times."""

    seed: int
    draws: int = 0
    actions: dict[str, Action] = {}
    turn_from: dict[str, Resource] = {}  # where the turn of its wheel began
    disk_tests: dict[str, DiskTest] = {}
    trial: Trial | None = None
    paused_until_s: dict[str, float] = {}
    violated_since_s: float | None = None
    refused: int = 0  # in a row, while the same is requested again
    wanted: Partition | None = None
    time_s: float = 0.0


class Parties:
    """One adjustment of one unit (of slices: one core) of one resource in an interval, guided by slack alone."""

    name = "parties"
    version = 2
    State = PartiesState

    def initial(self, observation: Observation, seed: int) -> PartiesState:
        """Nothing done yet: the first decision is the fair start."""
        return PartiesState(seed=seed, time_s=observation.time_s)

    def decide(self, observation: Observation, state: PartiesState) -> tuple[Plan, PartiesState]:
        """Algorithm 1, one turn of its loop."""
        order = [s.name for s in observation.services if s.kind == "lc"]
        sharers = tuple(s.name for s in observation.services if s.kind == "be")
        tests = tested(observation, state.disk_tests)
        diskless = {name for name, test in tests.items() if in_memory(test, observation.time_s)}
        without: dict[Resource, set[str]] = {"disk": diskless}
        kept: dict[Resource, dict[str, float]] = {"memory": kept_mib(observation)}
        division = divide(observation, order, lambda _: sharers, state, RESOURCES, without, kept)
        _share_disk_again(division, diskless, state)
        turn = _Round(observation, _without_the_gone(state, observation), division, tests)
        came, refused = _newcomers(order, state.wanted), 0
        if division.started:
            turn.trial = None
            turn.say(f"fair start: {division.summary(turn.label(POOL))}")
        elif came:
            turn.start_again(came)
        elif (obstacle := not_applied(observation, state.wanted)) is not None:
            turn.pass_over(obstacle, again=division.from_wanted)
            refused = refusals(observation, state.refused, again=division.from_wanted)
        else:
            turn.go_on()
        since_s = violated_since(turn.services, turn.violated_since_s, observation.time_s)
        infeasible = (
            division.infeasible()
            or stuck(observation, refused)
            or migration(turn.services, since_s, observation.time_s)
        )
        partition = division.partition()
        after = PartiesState(
            seed=state.seed,
            draws=turn.wheels.draws,
            actions=turn.wheels.actions,
            turn_from=turn.wheels.turn_from,
            disk_tests=tests,
            trial=turn.trial,
            paused_until_s=turn.paused_until_s,
            violated_since_s=since_s,
            refused=refused,
            wanted=partition,
            time_s=observation.time_s,
        )
        return Plan(partition, [*division.reasons(), *turn.reasons], infeasible), after


def _without_the_gone(state: PartiesState, observation: Observation) -> PartiesState:
    """State of the LC services that are still here, and no timer of another clock."""
    here = {service.name for service in observation.services if service.kind == "lc"}
    trial = state.trial
    if trial is not None and (trial.service not in here or trial.other not in {*here, POOL}):
        trial = None
    state = replace(
        state,
        actions={name: action for name, action in state.actions.items() if name in here},
        turn_from={name: resource for name, resource in state.turn_from.items() if name in here},
        paused_until_s={name: until for name, until in state.paused_until_s.items() if name in here},
        trial=trial,
    )
    if observation.time_s < state.time_s:
        return replace(state, paused_until_s={}, violated_since_s=None, trial=None)
    return state


def _newcomers(names: list[str], wanted: Partition | None) -> list[str]:
    """LC services that the last decision did not know; nobody before the first one."""
    if wanted is None:
        return []
    known = {owner for region in wanted.regions for owner in region.owners}
    return [name for name in names if name not in known]


def _share_disk_again(division: Division, diskless: set[str], state: PartiesState) -> None:
    """Who turned out not to read gives its part of the disk to those who do, in equal parts (deviation 9)."""
    disk = division.holdings.get("disk")
    before = state.wanted.knobs if state.wanted is not None else {}
    free = sorted(name for name in diskless if name in before and before[name].disk_iops is not None)
    if disk is not None and free:
        division.holdings["disk"] = fair_holding(disk)
        division.notes.append(f"{', '.join(free)} did not read from the disk: the other services share the disk")


class _Round:
    """One decision in the making."""

    def __init__(
        self, observation: Observation, state: PartiesState, division: Division, tests: dict[str, DiskTest]
    ) -> None:
        self.now_s = observation.time_s
        self.division = division
        self.services = {s.name: s for s in observation.services if s.kind == "lc"}
        self.jobs = [s.name for s in observation.services if s.kind == "be"]
        self.slack = {name: s.slack for name, s in self.services.items() if s.slack is not None}
        self.wheels = Wheels(division.resources, state.seed, state.draws, state.actions, state.turn_from)
        self.memory = Memory(observation, division, tests)
        traded = {*self.wheels.compute, *self.wheels.storage}
        self.trial = state.trial if state.trial is not None and state.trial.action.resource in traded else None
        self.paused_until_s = {n: until for n, until in state.paused_until_s.items() if until > self.now_s}
        self.violated_since_s = state.violated_since_s
        self.reasons: list[Reason] = []
        for name in self.services:
            if name not in self.slack:
                self.say(f"{name}: {latency_text(self.services[name])}; {self.kept_text()}", name)

    def say(self, text: str, service: str | None = None, resource: Resource | None = None, change: int = 0) -> None:
        """Add a reason."""
        self.reasons.append(Reason(text=text, service=service, resource=resource, change=change))

    def kept_text(self) -> str:
        """What does not change without a latency; the network follows the traffic."""
        if "network" not in self.division.holdings:
            return "its resources do not change"
        return f"its {', '.join([*self.wheels.compute, *self.wheels.storage])} do not change"

    def start_again(self, came: list[str]) -> None:
        """Equal parts for everybody: the paper has no other start, and nothing to judge is left of what was before."""
        self.trial = None
        for resource, holding in self.division.holdings.items():
            self.division.holdings[resource] = fair_holding(holding)
        self.say(f"fair start again for {', '.join(came)}: {self.division.summary(self.label(POOL))}")

    def go_on(self) -> None:
        """The network, and one adjustment of one resource."""
        self.reasons += adjust_network(self.division, self.services, self.label(POOL))
        if not self.judge():
            self.adjust()

    def judge(self) -> bool:
        """Look at what the last adjustment did; True where a downsize had to be reverted, which is this turn's act."""
        trial, self.trial = self.trial, None
        if trial is None or trial.service not in self.slack:
            return False
        name, resource = trial.service, trial.action.resource
        latency_ms = self.services[name].latency_ms or 0.0
        if trial.action.direction == "up":
            if latency_ms >= trial.latency_ms:
                self.advance(name, trial.action)
                self.say(
                    f"{name}: {count_text(trial.units, 'more ')} of {resource} did not help ({latency_ms:.4g} ms, "
                    f"before {trial.latency_ms:.4g} ms); the next resource is {self.wheels.actions[name].resource}",
                    name,
                )
            return False
        if self.slack[name] >= UPSIZE_SLACK:
            return False
        self.advance(name, trial.action)
        self.paused_until_s[name] = self.now_s + DOWNSIZE_PAUSE_S
        units = self.division.move(resource, trial.other, name, trial.units)
        if not units:
            return False
        self.say(
            f"{name} gets {count_text(units)} of {resource} back from {self.label(trial.other)}: "
            f"{latency_text(self.services[name])}; it is not downsized for {DOWNSIZE_PAUSE_S:g} s",
            name,
            resource,
            units,
        )
        return True

    def pass_over(self, obstacle: str, *, again: bool) -> None:
        """Deal with a decision that is not on the machine: nothing to judge.

        Ask `again` for the same where nothing is applied, or what this policy can't go on from. Where something else
        is, go on from that with the next resource, because this one was refused.
        """
        trial, self.trial = self.trial, None
        self.say(
            f"{obstacle}; "
            + ("the same request is repeated" if again else "the next step starts from the applied partition")
        )
        if not again:
            if trial is not None:
                self.advance(trial.service, trial.action)
            self.go_on()

    def adjust(self) -> None:
        """Upsize the service with the smallest slack, or else downsize the one with the largest."""
        if not self.slack:
            self.say("no LC service has a measured latency: nothing changes")
            return
        smallest = min(self.slack, key=lambda name: (self.slack[name], name))
        if self.slack[smallest] < UPSIZE_SLACK:
            self.upsize(smallest)
            return
        for name in sorted(self.slack, key=lambda name: (-self.slack[name], name)):
            if self.slack[name] > DOWNSIZE_SLACK and name not in self.paused_until_s and self.downsize(name):
                return
        self.say(
            f"all targets met with slack >= {UPSIZE_SLACK:g} (smallest: {smallest} {self.slack[smallest]:.2f}); "
            "nothing to reclaim"
        )

    def upsize(self, name: str) -> None:
        """One unit more for a service whose target is (about to be) missed."""
        for resource in self.wheels.path(name, "up", storage_short=self.memory.short(name)):
            if self.take_from(name, resource):
                return
        self.say(f"{name}: {latency_text(self.services[name])}; no region can give it another unit", name)

    def take_from(self, name: str, resource: Resource) -> bool:
        """Move one unit to the service from the pool, or from the LC service with the largest slack that can give."""
        victims = sorted((v for v in self.slack if v != name), key=lambda v: (-self.slack[v], v))
        for victim in (POOL, *(self.memory.victims(victims) if resource == "memory" else victims)):
            units = self.division.move(resource, victim, name)
            if not units:
                continue
            action = Action("up", resource)
            self.wheels.land(name, action)
            if victim != POOL and self.wheels.actions.get(victim) == action:
                self.advance(victim, action)  # no ping-pong over one resource
            self.try_out(name, action, victim, units)
            source = "" if resource == "frequency" else f" from {self.label(victim)}"
            text = f"{name} gets {count_text(units)} of {resource}{source}: {latency_text(self.services[name])}"
            self.say(text, name, resource, units)
            return True
        return False

    def downsize(self, name: str) -> bool:
        """Take one unit from a service with much slack; False where it is at its least in everything."""
        for resource in self.wheels.path(name, "down", storage_short=self.memory.short(name)):
            if resource == "memory" and not self.memory.may_lose(name):
                continue
            units = self.division.move(resource, name, POOL)
            if units:
                action = Action("down", resource)
                self.wheels.land(name, action)
                self.try_out(name, action, POOL, units)
                target = "" if resource == "frequency" else f" to {self.label(POOL)}"
                text = (
                    f"{name} gives {count_text(units)} of {resource}{target}: "
                    f"its slack {self.slack[name]:.2f} is above {DOWNSIZE_SLACK:g}"
                )
                self.say(text, name, resource, -units)
                return True
        return False

    def advance(self, name: str, action: Action) -> None:
        """The next state of the service's wheel."""
        self.wheels.advance(name, action, storage_short=self.memory.short(name))

    def try_out(self, name: str, action: Action, other: str, units: int) -> None:
        """Remember the adjustment, for the next observation to judge."""
        self.trial = Trial(name, action, other, self.services[name].latency_ms or 0.0, units)

    def label(self, owner: str) -> str:
        """A victim or recipient in words."""
        if owner != POOL:
            return owner
        return f"be:{','.join(self.jobs)}" if self.jobs else "idle"
