"""The node divided between services: where a policy starts, takes up again, and moves single units."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from osml.allocation.clocks import Clocks, clocks_of
from osml.allocation.holding import POOL, Holding, fair_holding, resumed
from osml.allocation.limits import (
    CORES_AND_WAYS,
    Budget,
    budgets,
    can_isolate,
    common_parts,
    core_units,
    shared_in_words,
    with_least,
    without_operator_minimums,
)
from osml.allocation.regions import KNOBS, owned_alone, partition_of, with_knob
from osml.domain import Infeasible, Observation, Partition, Reason, Resource

_UNITS: Mapping[Resource, str] = {
    "memory": "memory (MiB)",
    "disk": "disk (reads/s)",
    "network": "network (Mbit/s)",
    "mba": "memory bandwidth",
}


class Resumable(Protocol):
    """State of a policy that remembers the partition of its last decision."""

    @property
    def wanted(self) -> Partition | None:
        """None before the first decision."""
        ...


class Division:
    """Holdings of all resources that can be divided, during one decision."""

    def __init__(self, names: Sequence[str], core_units: int = 1) -> None:
        self.names, self.core_units = list(names), core_units
        self.holdings: dict[Resource, Holding] = {}
        self.common: dict[Resource, list[tuple[list[str], int]]] = {}  # can't be divided: owners and units of regions
        self.clocks: Clocks | None = None
        self.obstacles: list[str] = []  # what can't be given to everybody
        self.notes: list[str] = []
        self.started = False  # True where there was nothing to take up again
        self.from_wanted = False  # True where the last decision was taken up, but something else or nothing is applied

    @property
    def resources(self) -> list[Resource]:
        """What can be moved."""
        return [*self.holdings, *(["frequency"] if self.clocks is not None else [])]

    def move(self, resource: Resource, giver: str, taker: str, units: int | None = None) -> int:
        """Move one unit, of slices one core, or so many `units`; where that is too much, what the limits allow.

        Returns how many were moved. Clock comes from and goes to the pool.
        """
        if resource == "frequency":
            return int(self._clock(giver, taker))
        holding = self.holdings.get(resource)
        if holding is None:
            return 0
        if units is None:
            units = self.core_units if resource == "cores" else 1
        for count in range(min(units, holding.total), 0, -1):
            after = holding.moved(giver, taker, count)
            if after is not None:
                self.holdings[resource] = after
                return count
        return 0

    def partition(self) -> Partition:
        """The division as regions, throttles and knobs."""
        partition = partition_of(self.holdings.values(), self.common, self.names)
        return partition if self.clocks is None else with_knob(partition, "frequency_mhz", self.clocks.limits())

    def reasons(self) -> list[Reason]:
        """What can't be divided, what does not fit, and who came or went."""
        return [Reason(text=text) for text in (*self.obstacles, *self.notes)]

    def infeasible(self) -> Infeasible | None:
        """What can't be given to everybody, for the scheduler above."""
        return Infeasible(self.names, "; ".join(self.obstacles)) if self.obstacles else None

    def summary(self, pool_label: str) -> str:
        """Who owns how much, in words."""
        parts: list[str] = []
        for resource, holding in self.holdings.items():
            owned = {**{name: units for name, units in holding.own.items() if units}, pool_label: holding.pool}
            scale = holding.scale
            amounts = {name: units if scale is None else scale.amount(units) for name, units in owned.items() if units}
            listed = ", ".join(f"{name} {amount}" for name, amount in amounts.items())
            parts.append(f"{_UNITS.get(resource, resource)}: {listed}")
        return "; ".join(parts) or "all services share everything"

    def _clock(self, giver: str, taker: str) -> bool:
        after = None
        if self.clocks is not None and POOL in (giver, taker):
            after = self.clocks.moved(taker, 1) if giver == POOL else self.clocks.moved(giver, -1)
        if after is None:
            return False
        self.clocks = after
        return True


def count_text(units: int, kind: str = "") -> str:
    """A number of units in words."""
    return f"{units} {kind}unit" + ("s" if units != 1 else "")


def same_division(applied: Partition | None, wanted: Partition | None) -> bool:
    """True where both give the same units to the same owners, in whatever order the regions stand."""
    if applied is None or wanted is None:
        return False
    return (applied.mba, applied.knobs, _units(applied)) == (wanted.mba, wanted.knobs, _units(wanted))


def not_applied(observation: Observation, wanted: Partition | None) -> str | None:
    """Why the last decision is not on the machine, in words; None where it is."""
    if same_division(observation.partition, wanted):
        return None
    outcome = observation.outcome
    if outcome is not None and outcome.status not in ("applied", "unchanged"):
        return (
            f"the last decision was not applied ({outcome.status.replace('_', ' ')}: {outcome.message or 'no reason'})"
        )
    return "the applied partition is not the last decision"


def _units(partition: Partition) -> dict[frozenset[str], tuple[int, int]]:
    found: dict[frozenset[str], tuple[int, int]] = {}
    for region in partition.regions:
        cores, ways = found.get(frozenset(region.owners), (0, 0))
        found[frozenset(region.owners)] = (cores + region.cores, ways + region.ways)
    return found


def divide(
    observation: Observation,
    owners: Sequence[str],
    sharers_of: Callable[[Budget], tuple[str, ...]],
    state: Resumable,
    resources: Sequence[Resource] = CORES_AND_WAYS,
    without: Mapping[Resource, Collection[str]] = {},
    kept: Mapping[Resource, Mapping[str, float]] = {},
) -> Division:
    """Take up what is applied (else what was wanted last), for the services of now; without either, equal parts.

    `owners` may own isolated units, the sharers of a resource use its pool. Of `resources` those are divided that the
    node can divide; services `without` a part of one neither own nor share it. Of a knob everybody has at least what is
    `kept`; where that does not fit, all share it. Clocks begin at the nominal one.
    """
    names = [service.name for service in observation.services]
    lc = frozenset(service.name for service in observation.services if service.kind == "lc")
    division = Division(names, core_units(observation.platform))
    division.started = state.wanted is None
    division.from_wanted = not division.started and observation.partition is None
    for budget in budgets(observation, resources):
        absent = without.get(budget.resource, ())
        sharers = tuple(name for name in sharers_of(budget) if name not in absent)
        owning = [name for name in owners if name not in absent]
        budget = with_least(budget, kept.get(budget.resource, {}), sharers)  # noqa: PLW2901
        obstacle = _obstacle(budget, owning, sharers, observation.platform.max_groups) or _too_little(
            budget, {*owning, *sharers}
        )
        if obstacle is not None:
            parts = common_parts(budget, names, observation.platform.max_groups)
            division.common[budget.resource] = parts
            said = division.obstacles if budget.resource in CORES_AND_WAYS else division.notes
            said.append(f"{obstacle}; {shared_in_words(parts, budget.resource)}")
            continue
        holding = _holding(_fitting(budget, owning, sharers, division), owning, sharers)
        after = None
        if state.wanted is not None:
            before = _taken_up(observation.partition, state.wanted, budget.resource, lc - set(sharers))
            division.from_wanted = division.from_wanted or before is not observation.partition
            own = owned_alone(before, budget.resource, owning, budget.scale)
            after = resumed(holding, _without_only_sharer(own, before, holding))
        division.holdings[budget.resource] = fair_holding(holding) if after is None else after
    if "frequency" in resources:
        before = None if state.wanted is None else observation.partition or state.wanted
        division.clocks = clocks_of(observation.platform, names, before)
    if state.wanted is not None:
        division.notes += _arrivals(state.wanted, names)
    return division


def _obstacle(budget: Budget, owners: Sequence[str], sharers: Sequence[str], max_groups: int | None) -> str | None:
    """Why a resource can't be divided; None where it can."""
    n_parts = sum(1 for name in owners if name not in sharers)
    n_parts += len(sharers) if budget.resource in KNOBS else bool(sharers)  # a knob can't be shared
    n_groups = len(owners) + bool(set(sharers) - set(owners))  # who owns and shares has one mask for both
    return can_isolate(budget, n_parts, n_groups, max_groups)


def _too_little(budget: Budget, names: Collection[str]) -> str | None:
    """Why a knob can't be divided among services that need more of it than there is; None where it can."""
    needed = sum(budget.limits[name].least for name in names)
    if budget.scale is None or budget.resource not in KNOBS or needed <= budget.total:
        return None
    units = _UNITS.get(budget.resource, budget.resource)
    return f"the services need more {units} than there is: {needed * budget.scale.step} of {budget.scale.most}"


def _taken_up(applied: Partition | None, wanted: Partition, resource: Resource, isolated: frozenset[str]) -> Partition:
    """The applied partition where this policy could have made it, otherwise the one it wanted."""
    if applied is None:
        return wanted
    for region in applied.regions:
        units = region.cores if resource == "cores" else region.ways
        if units and region.shared and isolated & set(region.owners):
            return wanted
    return applied


def _without_only_sharer(own: Mapping[str, int], before: Partition, holding: Holding) -> dict[str, int]:
    """Parts of single owners; a pool that only one service used looks like one, but is open to whoever comes."""
    if holding.resource not in CORES_AND_WAYS:
        return dict(own)
    here = {owner for region in before.regions for owner in region.owners}
    used = [name for name in holding.sharers if name in here]
    return {name: units for name, units in own.items() if used != [name]}


def _fitting(budget: Budget, owners: Sequence[str], sharers: Sequence[str], division: Division) -> Budget:
    """The budget, without the operator's minimums where they don't fit together."""
    shared = max((budget.limits[name].least for name in sharers), default=0)
    most = min((budget.limits[name].most for name in sharers), default=budget.total)
    needed = sum(budget.limits[name].least for name in owners if name not in sharers) + shared
    if needed <= budget.total and shared <= most:
        return budget
    division.obstacles.append(
        f"the operator's minimums for {budget.resource} are ignored: together they need {needed} of {budget.total}, "
        f"and the services that share may have at most {most}"
    )
    return without_operator_minimums(budget)


def _holding(budget: Budget, owners: Sequence[str], sharers: tuple[str, ...]) -> Holding:
    nothing = dict.fromkeys(owners, 0)
    limits = {name: limits for name, limits in budget.limits.items() if name in {*owners, *sharers}}
    pool_floor = budget.floor * bool(sharers)
    if budget.resource in KNOBS:
        pool_floor = sum(budget.limits[name].least for name in sharers)
    return Holding(budget.resource, budget.total, nothing, sharers, limits, pool_floor, budget.scale)


def _arrivals(before: Partition, names: Sequence[str]) -> list[str]:
    known = {owner for region in before.regions for owner in region.owners}
    came = [f"{name} is new here" for name in names if name not in known]
    gone = [f"{name} is no longer here: its resources are free" for name in sorted(known - set(names))]
    return came + gone
