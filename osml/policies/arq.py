"""ARQ (Liu et al., TPDS 2024): section VI, algorithm 1, for cores, LLC ways and memory bandwidth.

Each LC service has an isolated region (empty at first); one region is shared by all services, BE jobs live only there.
Of memory bandwidth a service may use what is shared and what it owns besides; others are throttled below that.

| here | algorithm 1 |
|---|---|
| `Arq.decide` | lines 2 to 16: entropy, remaining tolerance, cancel or adjust |
| `_Round.cancel` | lines 9 to 11 |
| `_Round.adjust` | lines 18 to 25: victim, beneficiary, resource, one unit |
| `_Round.victims` | lines 27 to 34 (findVictimRegion) |
| `_Round.beneficiaries` | lines 36 to 43 (findBeneficiaryRegion) |
| `_with_priority` | section VI-A, figure 9(c): in the shared region LC services come before BE jobs |
| `_Round.resources` | findVictimResource: a state machine over cores, ways, memory bandwidth |

Deviations are numbered in docs/reference/policies.md.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from osml.allocation.division import Division, count_text, divide, not_applied
from osml.allocation.holding import POOL
from osml.allocation.limits import Budget
from osml.allocation.policy import Plan, latency_text
from osml.allocation.regions import with_knob
from osml.allocation.violation import migration, violated_since
from osml.domain import Latency, Observation, Partition, Reason, Resource, Service
from osml.entropy import remaining_tolerance, system_entropy
from osml.policies.lc_first import PRIORITY

VICTIM_TOLERANCE = 0.1
BENEFICIARY_TOLERANCE = 0.05
BAN_S = 60.0
# What counts as a rise of E_S after taking from the shared region (deviation 2 of the reference): two measurements are
# compared, each no better than the elasticity of targets, 5 % (section V-B).
ELASTICITY = 1.1
RESOURCES: tuple[Resource, ...] = ("cores", "ways", "mba")


class Adjustment(Struct, frozen=True):
    """Units (one, of slices one core) that were moved; regions are named by their service, the shared one is ""."""

    victim: str
    beneficiary: str
    resource: Resource
    units: Annotated[int, Meta(ge=1)] = 1


class ArqState(Struct, frozen=True):
    """`last` is what the next observation judges; `e_s`, `e_s_allowed` and `measured` are of the one before it."""

    last: Adjustment | None = None
    e_s: float | None = None
    e_s_allowed: float = 0.0  # E_S had every latency been higher by the elasticity
    measured: list[str] = []
    turn: dict[str, Resource] = {}  # "victim>beneficiary" -> resource that is moved next
    banned_until_s: dict[str, float] = {}
    violated_since_s: float | None = None
    wanted: Partition | None = None
    time_s: float = 0.0


class Arq:
    """One unit of one resource in an interval between regions, guided by E_S and remaining tolerance."""

    name = "arq"
    version = 1
    State = ArqState

    def initial(self, observation: Observation, seed: int) -> ArqState:
        """Nothing done yet: the first decision shares everything. Nothing in ARQ is random."""
        return ArqState(time_s=observation.time_s)

    def decide(self, observation: Observation, state: ArqState) -> tuple[Plan, ArqState]:
        """One turn of algorithm 1's loop."""
        owners = [service.name for service in observation.services]
        division = divide(observation, owners, _sharers(observation), state, RESOURCES)
        turn = _Round(observation, _checked(state, observation), division)
        if division.started:
            turn.say(f"start: {division.summary('shared')}")
        elif (obstacle := not_applied(observation, state.wanted)) is not None:
            turn.pass_over(obstacle, again=division.from_wanted)
        elif not turn.cancel():
            turn.adjust()
        lc = {s.name: s for s in observation.services if s.kind == "lc"}
        since_s = violated_since(lc, turn.before.violated_since_s, observation.time_s)
        infeasible = division.infeasible() or migration(lc, since_s, observation.time_s)
        partition = _with_priority(division.partition(), observation)
        return Plan(partition, [*division.reasons(), *turn.reasons], infeasible), turn.state(partition, since_s)


def _sharers(observation: Observation):
    """Who uses the shared region of a resource: everybody but services whose limit could be exceeded there."""

    def of(budget: Budget) -> tuple[str, ...]:
        return tuple(s.name for s in observation.services if budget.limits[s.name].most >= budget.total)

    return of


def _with_priority(partition: Partition, observation: Observation) -> Partition:
    """LC services run before the BE jobs that share CPUs with them (figure 9(c)), where the node has priorities."""
    jobs = {service.name for service in observation.services if service.kind == "be"}
    beside = {
        name for region in partition.regions if region.cores and jobs & {*region.owners} for name in region.owners
    }
    if not observation.platform.realtime:
        return partition
    return with_knob(partition, "realtime_priority", dict.fromkeys(sorted(beside - jobs), PRIORITY))


def _checked(state: ArqState, observation: Observation) -> ArqState:
    """The state, without an adjustment between services that are gone and without timers of another clock."""
    if observation.time_s < state.time_s:
        state = replace(state, banned_until_s={}, violated_since_s=None, last=None)
    here = {POOL, *(service.name for service in observation.services)}
    gone = state.last is not None and not {state.last.victim, state.last.beneficiary} <= here
    return replace(state, last=None) if gone else state


class _Round:
    """One decision in the making."""

    def __init__(self, observation: Observation, state: ArqState, division: Division) -> None:
        self.now_s = observation.time_s
        self.division = division
        self.services: dict[str, Service] = {s.name: s for s in observation.services}
        self.tolerance: dict[str, float] = {}
        for service in observation.services:
            if service.kind == "lc" and service.target_ms is not None and service.latency_ms is not None:
                self.tolerance[service.name] = remaining_tolerance(service.latency_ms, service.target_ms)
        self.before = state
        self.e_s = system_entropy(observation.services).e_s
        self.e_s_allowed = system_entropy([_slower(service) for service in observation.services]).e_s or 0.0
        self.measured = sorted([*self.tolerance, *(s.name for s in observation.services if s.slowdown is not None)])
        self.last: Adjustment | None = None
        here = {*self.services, POOL}
        self.turn: dict[str, Resource] = {k: r for k, r in state.turn.items() if here.issuperset(k.split(">"))}
        self.banned_until_s = {key: until for key, until in state.banned_until_s.items() if until > self.now_s}
        self.reasons: list[Reason] = []
        for service in observation.services:
            if service.kind == "lc" and service.name not in self.tolerance:
                self.say(f"{service.name}: {latency_text(service)}; its resources do not change", service.name)

    def state(self, wanted: Partition, violated_since_s: float | None) -> ArqState:
        """What the next decision has to know."""
        return ArqState(
            last=self.last,
            e_s=self.e_s,
            e_s_allowed=self.e_s_allowed,
            measured=self.measured,
            turn=self.turn,
            banned_until_s=self.banned_until_s,
            violated_since_s=violated_since_s,
            wanted=wanted,
            time_s=self.now_s,
        )

    def say(self, text: str, service: str | None = None, resource: Resource | None = None, change: int = 0) -> None:
        """Add a reason."""
        self.reasons.append(Reason(text=text, service=service, resource=resource, change=change))

    def pass_over(self, obstacle: str, *, again: bool) -> None:
        """Deal with a decision that is not on the machine: nothing to judge.

        Ask `again` for the same where nothing is applied, or what this policy can't go on from. Where something else
        is, go on from that with the next resource, because this one was refused.
        """
        last = self.before.last
        self.say(
            f"{obstacle}; "
            + ("the same request is repeated" if again else "the next step starts from the applied partition")
        )
        if not again:
            if last is not None:
                self.turn[f"{last.victim}>{last.beneficiary}"] = self.after(last.resource)
            self.adjust()

    def cancel(self) -> bool:
        """Take the last adjustment back where E_S rose after it; True where that was this turn's act.

        What was given to a service and did not lower E_S was of no use: the next resource follows, as in PARTIES.
        """
        last, before = self.before.last, self.before
        if last is None or self.e_s is None or before.e_s is None or before.measured != self.measured:
            return False
        allowed = before.e_s_allowed if last.victim == POOL else before.e_s
        if self.e_s <= allowed:
            if last.beneficiary != POOL and self.e_s >= before.e_s > 0:  # 0 can't fall
                self.turn[f"{last.victim}>{last.beneficiary}"] = self.after(last.resource)
            return False
        units = self.division.move(last.resource, last.beneficiary, last.victim, last.units)
        if not units:
            return False
        self.turn[f"{last.victim}>{last.beneficiary}"] = self.after(last.resource)
        ban = f"the next resource is {words(self.after(last.resource))}"
        if last.victim != POOL:
            self.banned_until_s[last.victim] = self.now_s + BAN_S
            ban = f"{last.victim} keeps its resources for {BAN_S:g} s"
        what = f"{words(last.resource)} from {label(last.victim)} to {label(last.beneficiary)}"
        self.say(
            f"the last step is cancelled: {count_text(units)} of {what} raised E_S from {before.e_s:.3f} "
            f"to {self.e_s:.3f}; {ban}",
            last.beneficiary or last.victim,
            last.resource,
            -units if last.beneficiary else units,
        )
        return True

    def adjust(self) -> None:
        """Move one unit from the richest region that may give to the poorest that needs, or find that all is well."""
        if len(self.services) == 1:
            self.say("one service is alone on the node: there is nothing to divide")
            return
        if not self.tolerance:
            self.say("no LC service has a measured latency: nothing changes")
            return
        poor = self.beneficiaries()
        for beneficiary in poor or [POOL]:
            for victim in self.victims():
                if victim != beneficiary and self.transfer(victim, beneficiary):
                    return
        least = min(self.tolerance, key=lambda name: (self.tolerance[name], name))
        if poor:
            self.say(f"{poor[0]}: {latency_text(self.services[poor[0]])}; no region can give it a unit now", poor[0])
        else:
            self.say(
                f"equilibrium: the smallest remaining tolerance is {self.tolerance[least]:.2f} ({least}), "
                f"and no isolated region with more than {VICTIM_TOLERANCE:g} can give a unit"
            )

    def victims(self) -> list[str]:
        """Isolated regions of services with tolerance to spare, the richest first, then the shared region."""
        rich = [
            name
            for name, tolerance in self.tolerance.items()
            if tolerance > VICTIM_TOLERANCE and name not in self.banned_until_s
        ]
        return [*sorted(rich, key=lambda name: (-self.tolerance[name], name)), POOL]

    def beneficiaries(self) -> list[str]:
        """Services with next to no tolerance left, the poorest first: below zero the slack orders them."""
        poor = [name for name, tolerance in self.tolerance.items() if tolerance < BENEFICIARY_TOLERANCE]
        return sorted(poor, key=lambda name: (self.services[name].slack or 0.0, name))

    def transfer(self, victim: str, beneficiary: str) -> bool:
        """Move one unit of the first resource that can be moved."""
        key = f"{victim}>{beneficiary}"
        for resource in self.resources(key):
            # The shared region of one service alone is that service's: nothing would change.
            if {victim, beneficiary} == {POOL, *self.division.holdings[resource].sharers}:
                continue
            units = self.division.move(resource, victim, beneficiary)
            if not units:
                continue
            self.turn[key] = resource
            self.last = Adjustment(victim, beneficiary, resource, units)
            amount = count_text(units, "isolated ")
            if beneficiary == POOL:
                why = f"its remaining tolerance {self.tolerance[victim]:.2f} is above {VICTIM_TOLERANCE:g}"
                what = f"{victim} gives {amount} of {words(resource)} to the shared region"
                self.say(f"{what}: {why}", victim, resource, -units)
            else:
                why = latency_text(self.services[beneficiary])
                what = f"{beneficiary} gets {amount} of {words(resource)} from {label(victim)}"
                self.say(f"{what}: {why}", beneficiary, resource, units)
            return True
        return False

    def resources(self, key: str) -> list[Resource]:
        """The resources in the order in which this pair of regions tries them."""
        resources = self.division.resources
        first = self.turn.get(key)
        at = resources.index(first) if first in resources else 0
        return resources[at:] + resources[:at]

    def after(self, resource: Resource) -> Resource:
        """The next state of the machine."""
        resources = self.division.resources
        return resources[(resources.index(resource) + 1) % len(resources)] if resource in resources else resource


def words(resource: Resource) -> str:
    """A resource in words."""
    return "memory bandwidth" if resource == "mba" else resource


def label(region: str) -> str:
    """A region in words."""
    return region if region != POOL else "the shared region"


def _slower(service: Service) -> Service:
    """The service, had its latency been higher by the elasticity."""
    if service.latency_ms is None:
        return service
    slower_ms = service.latency_ms * ELASTICITY
    return replace(service, percentile="p99", latency=Latency(p99_ms=slower_ms))
