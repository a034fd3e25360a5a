"""What the policy `osml` divides: LC services with their limits, and what is left for BE jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from osml.allocation.apart import JOB_WAYS
from osml.allocation.limits import Budget, Limits, budgets, can_isolate
from osml.domain import Observation, Reason


class Cell(NamedTuple):
    """Core units and ways of one service."""

    cores: int
    ways: int

    def below(self, other: Cell) -> bool:
        """Whether it has less of something than the other."""
        return self.cores < other.cores or self.ways < other.ways

    def less(self, other: Cell) -> Cell:
        """What is left of it without the other; below 0 where the other has more."""
        return Cell(self.cores - other.cores, self.ways - other.ways)


NOTHING = Cell(0, 0)


def total(cells: Collection[Cell]) -> Cell:
    """Cores and ways of all of them."""
    return Cell(sum([cell.cores for cell in cells]), sum([cell.ways for cell in cells]))


def amount(cores: float, ways: float, has_ways: bool, form: str = "", between: str = " and ") -> str:
    """Cores and ways in words. Where the cache has no ways to divide, nobody was given or lacks any."""
    if has_ways:
        return f"{cores:{form}} cores{between}{ways:{form}} ways"
    return f"{cores:{form}} core{'' if abs(cores) == 1 else 's'}"


def changed(name: str, old: Cell, new: Cell, why: str) -> Reason:
    """The reason of a changed cell. It counts the cores that the service gets or gives; where these stay, the ways."""
    cores, ways = new.cores - old.cores, new.ways - old.ways
    text = f"{name} changes by {amount(cores, ways, bool(old.ways or new.ways), '+d')}: {why}"
    if cores:
        return Reason(text=text, service=name, resource="cores", change=cores)
    return Reason(text=text, service=name, resource="ways", change=ways)


NO_SERVICE = "there is no LC service"
"""Why a node with jobs alone has no cells: nobody lacks anything."""


class Node(NamedTuple):
    """A node to divide, in core units and ways.

    `total` is everything, `least_be` what has to stay for the BE jobs, `for_lc` the rest. `leasts` and `mosts` are the
    operator's limits, or the smallest part that there is and everything. Without `has_ways` nobody has ways of its own.
    `obstacle` says why there can be no cells, `ways_obstacle` why the ways of the node are not divided.
    """

    lc: tuple[str, ...]
    be: tuple[str, ...]
    total: Cell
    least_be: Cell
    for_lc: Cell
    leasts: dict[str, Cell]
    mosts: dict[str, Cell]
    has_ways: bool
    obstacle: str | None
    ways_obstacle: str | None = None

    def bounded(self, name: str, cores: int, ways: int) -> Cell:
        """So much, within the operator's limits."""
        least, most = self.leasts[name], self.mosts[name]
        return Cell(min(max(cores, least.cores), most.cores), min(max(ways, least.ways), most.ways))

    @property
    def may_share(self) -> bool:
        """Whether all services may use all that is there for them: no limit of the operator would be exceeded."""
        return all(self.bounded(name, *self.for_lc) == self.for_lc for name in self.lc)


def left_over(node: Node, cells: Mapping[str, Cell]) -> Cell:
    """What these cells leave of the node."""
    return node.total.less(total(cells.values()))


def node_of(observation: Observation) -> Node:
    """The node as its platform and the operator's limits make it."""
    key = (_of_platform(observation.platform), *map(_of_service, observation.services))
    found = _alike.get(key)
    if found is None:
        if len(_alike) >= _MOST_ALIKE:
            _alike.clear()
        found = _alike[key] = _node(observation)
    return found


_of_platform = attrgetter("cores", "ways", "min_way_bits", "max_groups")
_of_service = attrgetter("name", "kind", "min_cores", "max_cores", "min_ways", "max_ways")
_MOST_ALIKE = 1024
_alike: dict[tuple[object, ...], Node] = {}
"""Nodes by all that platform and limits say of one: that is the same in nearly every interval."""


def _node(observation: Observation) -> Node:
    platform = observation.platform
    lc = tuple(service.name for service in observation.services if service.kind == "lc")
    be = tuple(service.name for service in observation.services if service.kind == "be")
    found = {budget.resource: budget for budget in budgets(observation)}
    cores, ways = found["cores"], found.get("ways")
    obstacle = None if ways is None else _obstacle(lc, be, ways, platform.max_groups)
    if obstacle is not None:
        ways = None  # too few cache groups or ways: one cache for all, cells of cores
    none = dict.fromkeys(cores.limits, Limits(0, 0))
    of_ways = none if ways is None else ways.limits
    leasts = {name: Cell(limit.least, of_ways[name].least) for name, limit in cores.limits.items()}
    mosts = {name: Cell(limit.most, of_ways[name].most) for name, limit in cores.limits.items()}
    total = Cell(cores.total, 0 if ways is None else ways.total)
    least_be = _least_be(lc, be, total, leasts, mosts) if be else NOTHING
    return Node(
        lc,
        be,
        total,
        least_be,
        total.less(least_be),
        leasts,
        mosts,
        ways is not None,
        _obstacle(lc, be, cores, None),
        obstacle if lc else None,
    )


def _least_be(
    lc: Sequence[str], be: Sequence[str], total: Cell, leasts: dict[str, Cell], mosts: dict[str, Cell]
) -> Cell:
    """The largest of the jobs' minimums; ways no fewer than JOB_WAYS, where the cache has many and the jobs may."""
    left = total.ways - sum([leasts[name].ways for name in lc])
    usual = min([JOB_WAYS, total.ways // 8, left, *(mosts[name].ways for name in be)])
    return Cell(max(leasts[n].cores for n in be), max(usual, *(leasts[n].ways for n in be)))


def _obstacle(lc: Sequence[str], be: Sequence[str], budget: Budget, max_groups: int | None) -> str | None:
    """Why LC services can't have parts of their own of a resource."""
    if not lc:
        return NO_SERVICE
    shared = max((budget.limits[name].least for name in be), default=0)
    if shared > min((budget.limits[name].most for name in be), default=budget.total):
        return f"the BE jobs share one part, but one job's minimum of {budget.resource} is above another's maximum"
    groups = len(lc) + bool(be)
    found = can_isolate(budget, groups, groups, max_groups)
    if found is not None:
        return found
    needed = shared + sum(budget.limits[name].least for name in lc)
    if needed > budget.total:
        return f"the operator's minimums for {budget.resource} ({needed}) don't fit in {budget.total}"
    return None
