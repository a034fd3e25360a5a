"""Staffing: cores by the square-root rule, ways in equal parts. An opponent without any model or learning.

| here | source |
|---|---|
| `needed`: u + sqrt(u) + 1 CPUs for u CPUs of work | square-root staffing (Halfin and Whitt 1981) |
| `_extra`: one core unit more after a missed target, kept until the load falls | ours |
| `_climb`: one way from the largest slack to the worst tail, undone where it did not help | hill climbing |

u is the mean CPU use of the last intervals. BE jobs have two ways and all cores that are left.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from osml.allocation.apart import Counts, Parts, apart, parts_of
from osml.allocation.division import not_applied
from osml.allocation.fair import equal_split
from osml.allocation.policy import Plan
from osml.allocation.refusals import towards, was_refused
from osml.allocation.regions import owned_alone
from osml.allocation.staffing import staffed_cpus
from osml.domain import Infeasible, Observation, Partition, Reason, Resource, Service

INTERVALS = 5
"""So many intervals count in a mean."""
ABSURD = 1e12
"""No measurement is higher than that, whatever its unit: means of finite numbers stay finite."""
MOST_HALVINGS = 15
"""Any way is one unit then."""
STILL = 1.1
"""Cores stay as they are while they suit a use between u and so many times u: noise moves nothing."""
FALLEN = 0.8
"""The load has fallen where it is below this share of that at the last miss."""
SETTLE_S, PAUSE_S = 5.0, 60.0
"""A moved way is judged after the first time; a giver that did not help is passed over for the second."""
SATISFIED = 0.9
"""Latency over target below which nobody needs another way."""


class Extra(Struct, frozen=True):
    """Core units on top of the rule, and the load at the last miss: requests/s, or logical CPUs if not `counted`."""

    units: int
    load: float
    counted: bool


class Move(Struct, frozen=True):
    """A way that was moved, and the worse latency over target of both services before."""

    giver: str
    taker: str
    before: float


class StaffingState(Struct, frozen=True):
    """By service: CPU use, requests/s and latency over target of the last intervals, extra cores, ways.

    `passed_s`: until when those who gave to `taker` in vain are passed over. `since_s`: the last change of ways.
    `halvings`: so often the way to the wanted units is halved, because the agent refused a longer step. `in_force`: the
    last partition that is applied, as far as is known.
    """

    usage: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    tails: dict[str, list[float]] = {}
    extra: dict[str, Extra] = {}
    ways: Counts = {}
    move: Move | None = None
    taker: str = ""
    passed_s: dict[str, float] = {}
    since_s: float = 0.0
    halvings: Annotated[int, Meta(ge=0, le=MOST_HALVINGS)] = 0
    wanted: Partition | None = None
    in_force: Partition | None = None


def needed(usage: float, quantum: float) -> int:
    """Core units of `quantum` logical CPUs for a service that uses `usage` logical CPUs."""
    return math.ceil(staffed_cpus(usage) / quantum - 1e-9)


class Staffing:
    """Cores by the square-root rule, ways in equal parts."""

    name = "staffing"
    version = 2
    State = StaffingState
    climbs = False

    def initial(self, observation: Observation, seed: int) -> StaffingState:
        """Nothing seen yet; nothing is random."""
        return StaffingState(since_s=observation.time_s)

    def decide(self, observation: Observation, state: StaffingState) -> tuple[Plan, StaffingState]:
        """Cores by what each service uses; ways in equal parts, or as they were with one of them moved."""
        lc = {service.name: service for service in observation.services if service.kind == "lc"}
        parts = parts_of(observation)
        before = observation.partition or (state.in_force if was_refused(observation) else state.wanted)
        applied = {} if before is None else owned_alone(before, "cores", lc)
        own: dict[Resource, Counts] = {}
        said, obstacle = "", None if state.wanted is None else not_applied(observation, state.wanted)
        in_force = obstacle is None and state.halvings == 0 and parts["cores"].kind == "each"
        state = _seen(observation, lc, state, grow=in_force and sum(applied.values()) < parts["cores"].room)
        if obstacle is not None and was_refused(observation):
            state = replace(state, halvings=min(state.halvings + 1, MOST_HALVINGS))
        there = True
        if parts["cores"].kind == "each":
            wanted = parts["cores"].in_proportion(_wanted(observation, parts["cores"], applied, state))
            own["cores"] = _part_of_the_way(parts["cores"], applied, wanted, state.halvings)
            there = own["cores"] == wanted
        if "ways" in parts and parts["ways"].kind == "each":
            equal = equal_split(parts["ways"].room, list(parts["ways"].limits), parts["ways"].limits)
            if self.climbs:
                known = state.ways if parts["ways"].within(state.ways) else equal
                state, said = _climb(replace(state, ways=known), parts["ways"], observation.time_s)
                equal = state.ways
            held = {} if before is None else owned_alone(before, "ways", lc)
            own["ways"] = _part_of_the_way(parts["ways"], held, equal, state.halvings)
            there = there and own["ways"] == equal
            state = replace(state, ways=equal)
        else:
            state = replace(state, ways={})
        state = replace(state, halvings=0 if there else state.halvings)
        partition = apart(observation, parts, own)
        short = [obstacle for each in parts.values() for obstacle in each.obstacles]
        listed = ", ".join(f"{n} {partition.cores_of(n)} cores {partition.ways_of(n)} ways" for n in lc) or "jobs only"
        reasons = [Reason(text=f"{self.name}: {listed}{said}"), *(Reason(text=text) for text in short)]
        reasons += [] if obstacle is None else [Reason(text=f"{self.name}: {obstacle}")]
        infeasible = Infeasible([s.name for s in observation.services], "; ".join(short)) if short else None
        return Plan(partition, reasons, infeasible), replace(state, wanted=partition, in_force=before)


class StaffingClimb(Staffing):
    """The same, and ways move one at a time to the service with the worst latency over target."""

    name = "staffing:climb"
    climbs = True


def _seen(observation: Observation, lc: Mapping[str, Service], state: StaffingState, *, grow: bool) -> StaffingState:
    """The state with this interval, without services that are gone and without times of another clock.

    `grow`: each service has the cores that were wanted, and there are cores that no service has.
    """
    usage: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    tails: dict[str, list[float]] = {}
    extra: dict[str, Extra] = {}
    for name, service in lc.items():
        tail = None if service.slack is None else 1.0 - service.slack
        usage[name] = _recent(state.usage.get(name), service.counters.cpu_usage_cores)
        rates[name] = _recent(state.rates.get(name), service.latency and service.latency.requests_per_s)
        tails[name] = _recent(state.tails.get(name), tail)
        more = grow and tail is not None and tail > 1.0
        on_top = _extra(state.extra.get(name), rates[name] or usage[name], counted=bool(rates[name]), more=more)
        extra |= {} if on_top is None else {name: on_top}
    state = replace(state, usage=usage, rates=rates, tails=tails, extra=extra)
    move, passed_s = state.move, {name: until for name, until in state.passed_s.items() if name in lc}
    if (move is not None and not {move.giver, move.taker} <= lc.keys()) or observation.time_s < state.since_s:
        return replace(state, move=None, passed_s={}, since_s=observation.time_s)
    return replace(state, passed_s=passed_s)


def _recent(before: list[float] | None, now: float | None) -> list[float]:
    """The last INTERVALS numbers; what is none, or absurd, does not count."""
    return [one for one in (*(before or []), now) if one is not None and 0.0 <= one <= ABSURD][-INTERVALS:]


def _extra(before: Extra | None, loads: list[float], *, counted: bool, more: bool) -> Extra | None:
    """The cores on top: none where the load has fallen, then one unit `more`."""
    if not loads:
        return before
    now = statistics.fmean(loads)
    if before is not None and before.counted == counted and now < FALLEN * before.load:
        before = None
    return Extra(1 if before is None else before.units + 1, now, counted) if more else before


def _wanted(observation: Observation, cores: Parts, applied: Counts, state: StaffingState) -> Counts:
    """Core units that each service shall have; what is applied (else an equal part) where no CPU time is known."""
    quantum = observation.platform.core_quantum
    equal = equal_split(cores.room, list(cores.limits), cores.limits)
    found = equal | {name: units for name, units in applied.items() if units}
    for name, used in state.usage.items():
        if not used:
            continue
        low, high = (needed(factor * statistics.fmean(used), quantum) for factor in (1.0, STILL))
        more = state.extra[name].units if name in state.extra else 0
        still = low + more <= applied.get(name, 0) <= high + more
        found[name] = applied[name] if still else low + more
    return found


def _part_of_the_way(parts: Parts, applied: Counts, wanted: Counts, halvings: int) -> Counts:
    """From what is applied towards what is wanted, the way so often halved. Newcomers get what that leaves."""
    if not halvings:
        return wanted
    found = {
        name: towards(applied[name], units, halvings) if applied.get(name) else units for name, units in wanted.items()
    }
    new = [name for name in found if not applied.get(name)]
    for _ in range(sum(found.values()) - parts.room):
        most = max(new, key=lambda name: found[name] - parts.limits[name].least, default="")
        if not most or found[most] <= parts.limits[most].least:
            break
        found[most] -= 1
    return parts.in_proportion(found)


def _climb(state: StaffingState, ways: Parts, now_s: float) -> tuple[StaffingState, str]:
    """The state with at most one way moved, and that in words."""
    tails = {name: statistics.fmean(found) for name, found in state.tails.items() if len(found) == INTERVALS}
    if now_s - state.since_s < SETTLE_S or len(tails) < 2:
        return state, ""
    move = state.move
    if move is not None and max(tails.get(move.giver, 0.0), tails.get(move.taker, 0.0)) >= move.before:
        state = replace(state, move=None, passed_s=state.passed_s | {move.giver: now_s + PAUSE_S})
        back = _moved(state.ways, ways, move.taker, move.giver)
        return (state, "") if back is None else (_changed(state, back, now_s), f"; {move.giver} has its way again")
    taker = max(tails, key=lambda name: (tails[name], name))
    passed_s = {n: until for n, until in state.passed_s.items() if until > now_s} if taker == state.taker else {}
    state = replace(state, move=None, taker=taker, passed_s=passed_s)
    givers = [name for name in sorted(tails, key=lambda name: (tails[name], name)) if name not in (taker, *passed_s)]
    for giver in givers if tails[taker] > SATISFIED else []:
        after = _moved(state.ways, ways, giver, taker)
        if after is not None and tails[giver] < SATISFIED:
            move = Move(giver, taker, tails[taker])
            return replace(_changed(state, after, now_s), move=move), f"; a way of {giver} goes to {taker}"
    return state, ""


def _moved(units: Counts, ways: Parts, giver: str, taker: str) -> Counts | None:
    """One way from one to the other; None where that breaks a limit."""
    after = units | {giver: units[giver] - 1, taker: units[taker] + 1}
    return after if ways.within(after) else None


def _changed(state: StaffingState, ways: Counts, now_s: float) -> StaffingState:
    """Other ways from now on, and tails counted anew."""
    return replace(state, ways=ways, tails={}, since_s=now_s)
