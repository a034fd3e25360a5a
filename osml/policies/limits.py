"""What there is to divide on a node, and the operator's limits for each service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from osml.domain import Observation, Service

Resource = Literal["cores", "ways"]


class Limits(NamedTuple):
    """Least and most that a service may reach."""

    least: int
    most: int


class Budget(NamedTuple):
    """One resource of the node. `floor` is what nobody may fall below (one core; the shortest legal mask)."""

    resource: Resource
    total: int
    floor: int
    limits: dict[str, Limits]


def budgets(observation: Observation) -> list[Budget]:
    """Cores, and ways where the cache can be partitioned."""
    platform, services = observation.platform, observation.services
    cores = {s.name: _within(s.min_cores, s.max_cores, 1, platform.cores) for s in services}
    found = [Budget("cores", platform.cores, 1, cores)]
    if platform.ways is not None:
        floor = platform.min_way_bits
        ways = {s.name: _within(s.min_ways, s.max_ways, floor, platform.ways) for s in services}
        found.append(Budget("ways", platform.ways, floor, ways))
    return found


def without_operator_minimums(budget: Budget) -> Budget:
    """The same budget with nobody promised more than the floor: best effort where the promises don't fit."""
    relaxed = {name: Limits(budget.floor, limits.most) for name, limits in budget.limits.items()}
    return budget._replace(limits=relaxed)


def can_isolate(budget: Budget, n_parts: int, n_groups: int, max_groups: int | None) -> str | None:
    """None where the resource can be cut into so many parts for so many cache groups, otherwise why not."""
    if n_parts * budget.floor > budget.total:
        return f"{n_parts} parts of at least {budget.floor} don't fit in {budget.total} {budget.resource}"
    if budget.resource == "ways" and max_groups is not None and n_groups > max_groups - 1:
        return f"{n_groups} services need a cache group each, the platform has {max_groups - 1} beside the default one"
    return None


def lc_first(services: Sequence[Service]) -> list[Service]:
    """LC services before BE jobs, each by name: the order in which remainders are handed out."""
    return sorted(services, key=lambda s: (s.kind != "lc", s.name))


def _within(least: int, most: int | None, floor: int, total: int) -> Limits:
    low = min(max(least, floor), total)
    return Limits(low, max(low, total if most is None else min(most, total)))
