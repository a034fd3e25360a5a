"""Even: equal parts of everything for everybody, fixed (the static baseline of Ah-Q section VIII and PARTIES' start).

BE jobs count like LC services. Remainders go to LC services first, by name; operator's limits bound each part.
"""

from __future__ import annotations

from msgspec import Struct

from osml.allocation.division import not_applied
from osml.allocation.fair import equal_split
from osml.allocation.limits import (
    Budget,
    budgets,
    can_isolate,
    common_parts,
    lc_first,
    shared_in_words,
    without_operator_minimums,
)
from osml.allocation.policy import Plan
from osml.domain import Infeasible, Observation, Partition, Reason, Region, Resource


class EvenState(Struct, frozen=True):
    """The partition of the last decision."""

    wanted: Partition | None = None


class Even:
    """An isolated region for each service."""

    name = "even"
    version = 1
    State = EvenState

    def initial(self, observation: Observation, seed: int) -> EvenState:
        """Nothing decided yet."""
        return EvenState()

    def decide(self, observation: Observation, state: EvenState) -> tuple[Plan, EvenState]:
        """The same parts as long as services, limits and platform are the same."""
        order = [service.name for service in lc_first(observation.services)]
        parts: dict[Resource, dict[str, int]] = {}
        common: dict[tuple[str, ...], dict[Resource, int]] = {}
        short: list[str] = []
        reasons: list[Reason] = []
        for budget in budgets(observation):
            obstacle = can_isolate(budget, len(order), len(order), observation.platform.max_groups)
            if obstacle is not None:
                shared = common_parts(budget, order, observation.platform.max_groups)
                for owners, units in shared:
                    common.setdefault(tuple(owners), {})[budget.resource] = units
                short.append(f"{obstacle}; {shared_in_words(shared, budget.resource)}")
                continue
            fitting, complaint = _fitting(budget)
            short += complaint
            parts[budget.resource] = equal_split(budget.total, order, fitting.limits)
            listed = ", ".join(f"{name} {count}" for name, count in parts[budget.resource].items())
            reasons.append(Reason(text=f"even: equal parts of {budget.total} {budget.resource}: {listed}"))
        none: dict[str, int] = {}
        regions = [
            Region([name], parts.get("cores", none).get(name, 0), parts.get("ways", none).get(name, 0))
            for name in order
        ]
        regions += [Region(list(owners), c.get("cores", 0), c.get("ways", 0)) for owners, c in common.items()]
        partition = Partition([region for region in regions if region.cores or region.ways])
        reasons += [Reason(text=text) for text in short]
        refused = None if state.wanted is None else not_applied(observation, state.wanted)
        if refused is not None:
            reasons.append(Reason(text=f"even: {refused}; the same parts are requested again"))
        infeasible = Infeasible(order, "; ".join(short)) if short else None
        return Plan(partition, reasons, infeasible), EvenState(partition)


def _fitting(budget: Budget) -> tuple[Budget, list[str]]:
    """The budget with minimums that fit, and what had to be ignored."""
    needed = sum(limits.least for limits in budget.limits.values())
    if needed <= budget.total:
        return budget, []
    text = f"the operator's minimums add up to {needed} of {budget.total} {budget.resource} and are ignored"
    return without_operator_minimums(budget), [text]
