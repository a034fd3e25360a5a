"""LC services apart from each other and from the BE jobs, who share one part; where that does not fit, less apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from osml.allocation.limits import (
    Budget,
    Limits,
    budgets,
    can_isolate,
    common_parts,
    lc_first,
    shared_in_words,
    without_operator_minimums,
)
from osml.domain import Observation, Partition, Region, Resource

Counts = dict[str, int]
JOB_WAYS = 2
"""Ways of the BE jobs: enough for a stream, little of what services need."""


class Parts(NamedTuple):
    """One resource. `kind`: each LC service has a part of its own, they share one, or all share everything.

    `limits` are those of the LC services; `jobs` what all BE jobs together have at least and at most (0: there are
    none). `common` are owners and units of what is shared. `obstacles` say what could not be kept.
    """

    resource: Resource
    total: int
    kind: Literal["each", "services", "all"]
    limits: Mapping[str, Limits]
    jobs: Limits
    common: Sequence[tuple[Sequence[str], int]]
    obstacles: Sequence[str]

    @property
    def room(self) -> int:
        """Units for the LC services together."""
        return self.total - self.jobs.least

    def within(self, units: Mapping[str, int]) -> bool:
        """Whether these are parts for just these services, within all limits."""
        if units.keys() != self.limits.keys() or sum(units.values()) > self.room:
            return False
        return all(limit.least <= units[name] <= limit.most for name, limit in self.limits.items())

    def in_proportion(self, wanted: Mapping[str, int]) -> Counts:
        """What is wanted, within the limits; where that does not fit, all that is above the least, scaled down."""
        bounded = {name: max(limit.least, min(wanted[name], limit.most)) for name, limit in self.limits.items()}
        above = {name: units - self.limits[name].least for name, units in bounded.items()}
        spare = self.room - sum(limit.least for limit in self.limits.values())
        if sum(above.values()) <= spare:
            return bounded
        exact = {name: units * spare / sum(above.values()) for name, units in above.items()}
        found = {name: self.limits[name].least + int(exact[name]) for name in bounded}
        left = self.room - sum(found.values())
        for name in sorted(exact, key=lambda name: int(exact[name]) - exact[name])[:left]:
            found[name] += 1
        return found


def parts_of(observation: Observation) -> dict[Resource, Parts]:
    """How cores and ways (where the node has them) can be divided here."""
    services = lc_first(observation.services)
    lc, be = ([service.name for service in services if service.kind == kind] for kind in ("lc", "be"))
    return {b.resource: _parts(b, lc, be, observation.platform.max_groups) for b in budgets(observation)}


def _parts(budget: Budget, lc: Sequence[str], be: Sequence[str], max_groups: int | None) -> Parts:
    groups = len(lc) + bool(be)
    obstacle = can_isolate(budget, groups, groups, max_groups)
    kind: Literal["each", "services", "all"] = "each"
    said: list[str] = []
    if obstacle is not None:
        pair = bool(lc) + bool(be)
        kind = "services" if can_isolate(budget, pair, pair, max_groups) is None else "all"
    limits, jobs = _limits(budget, lc, be)
    needed = jobs.least + (sum(limit.least for limit in limits.values()) if kind == "each" else bool(lc) * budget.floor)
    if kind != "all" and (needed > budget.total or jobs.least > jobs.most):
        said.append(f"the operator's minimums for {budget.resource} don't fit in {budget.total} and are ignored")
        limits, jobs = _limits(without_operator_minimums(budget), lc, be)
    if be and budget.resource == "ways":
        spare = budget.total - sum(limit.least for limit in limits.values())
        jobs = Limits(max(jobs.least, min(JOB_WAYS, jobs.most, spare)), jobs.most)
    if kind == "each":
        common = []
    elif kind == "all":
        common = common_parts(budget, [*lc, *be], max_groups)
    else:
        room = budget._replace(total=budget.total - jobs.least)
        common = common_parts(room, lc, max_groups if max_groups is None or not be else max_groups - 1)
    if obstacle is not None:
        who = "LC services" if kind == "services" and be else "all services"
        said.insert(0, f"{obstacle}; {shared_in_words(common, budget.resource, who)}")
    return Parts(budget.resource, budget.total, kind, limits, jobs, common, said)


def _limits(budget: Budget, lc: Sequence[str], be: Sequence[str]) -> tuple[dict[str, Limits], Limits]:
    """Those of each LC service, and of the one part of the BE jobs."""
    of_jobs = [budget.limits[name] for name in be]
    least, most = max((limit.least for limit in of_jobs), default=0), min((limit.most for limit in of_jobs), default=0)
    return {name: budget.limits[name] for name in lc}, Limits(least, most)


def apart(observation: Observation, parts: Mapping[Resource, Parts], own: Mapping[Resource, Counts]) -> Partition:
    """The partition in which LC services own `own` (of what each has a part of) and the BE jobs what is left."""
    services = lc_first(observation.services)
    lc, be = ([service.name for service in services if service.kind == kind] for kind in ("lc", "be"))
    order = [(name,) for name in lc] + [tuple(owners) for owners in (lc, be, lc + be) if owners]
    regions = {owners: [0, 0] for owners in order}
    for column, resource in enumerate(("cores", "ways")):
        given = parts.get(resource)
        if given is None:
            continue
        for owners, count in given.common:
            regions.setdefault(tuple(owners), [0, 0])[column] += count
        if given.kind == "all":
            continue
        units = own[resource] if given.kind == "each" else {}
        for name, count in units.items():
            regions[(name,)][column] += count
        if be:
            left = given.jobs.least if given.kind == "services" and lc else given.total - sum(units.values())
            regions[tuple(be)][column] += min(left, given.jobs.most)
    return Partition([Region(list(owners), *counts) for owners, counts in regions.items() if any(counts)])
