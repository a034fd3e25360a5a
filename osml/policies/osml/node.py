"""What the policy `osml` divides: LC services with their limits, what each has now, and how that is written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from osml.allocation.limits import Budget, Limits, budgets, can_isolate
from osml.allocation.regions import with_knob
from osml.domain import Knobs, Observation, Partition, Region, Service

PRIORITY = 10  # of 1..99; only that it is above 0 (normal tasks) matters
BACKGROUND_WAYS = 2
"""Ways of the BE jobs where LC services share everything else: enough for a stream, little of what services need."""


class Cell(NamedTuple):
    """Core units and ways of one service."""

    cores: int
    ways: int


NOTHING = Cell(0, 0)


class Node(NamedTuple):
    """A node to divide. `cells` are what LC services have alone now; who is not in it shares, or has just come.

    With `background` BE jobs may also run on the services' CPUs, behind them: real-time priorities keep them away.
    `obstacle` says why nothing can be isolated here. `taken` is what pairs of services share beside their cells.
    `total` is everything, `most_minimum` the largest of the BE jobs' minimums. `leasts` and `mosts` are the operator's
    limits, or the smallest part that there is and everything. `without_jobs`: no BE job runs on their CPUs, though
    they are in the background.
    """

    observation: Observation
    lc: list[Service]
    cells: dict[str, Cell]
    be: list[str]
    cores: Budget
    ways: Budget | None
    total: Cell
    most_minimum: Cell
    background: bool
    obstacle: str | None
    leasts: dict[str, Cell]
    mosts: dict[str, Cell]
    taken: Cell = NOTHING
    without_jobs: frozenset[str] = frozenset()

    @property
    def least_be(self) -> Cell:
        """What has to stay for the BE jobs."""
        least = self.most_minimum
        return Cell(0, least.ways) if self.background and least.cores == 1 else least

    @property
    def for_lc(self) -> Cell:
        """What LC services may have together."""
        total, least = self.total, self.least_be
        return Cell(total.cores - least.cores - self.taken.cores, total.ways - least.ways - self.taken.ways)

    def least(self, name: str) -> Cell:
        """What a service has at least."""
        return self.leasts[name]

    def most(self, name: str) -> Cell:
        """What a service may have at most."""
        return self.mosts[name]

    def bounded(self, name: str, cores: int, ways: int) -> Cell:
        """So much, within the operator's limits."""
        least_cores, least_ways = self.leasts[name]
        most_cores, most_ways = self.mosts[name]
        return Cell(
            least_cores if cores < least_cores else min(cores, most_cores),
            least_ways if ways < least_ways else min(ways, most_ways),
        )

    @property
    def may_share(self) -> bool:
        """Whether all services may use everything: no limit of the operator would be exceeded."""
        total = self.total
        return all(self.mosts[service.name] == total for service in self.lc)


def node_of(observation: Observation, wanted: Partition | None) -> Node:
    """The node as it is observed; where nothing is applied, as it was `wanted`."""
    key = (_of_platform(observation.platform), *map(_of_service, observation.services))
    like = _alike.get(key)
    if like is None:
        if len(_alike) >= _MOST_ALIKE:
            _alike.clear()
        like = _alike[key] = _undivided(observation)
    lc = [service for service in observation.services if service.kind == "lc"]
    before = observation.partition or wanted
    names = {service.name for service in lc}
    cells = {} if before is None else isolated(before, names, has_ways=like.ways is not None)
    return like._replace(observation=observation, lc=lc, cells=cells)


_of_platform = attrgetter("cores", "ways", "min_way_bits", "max_groups", "realtime")
_of_service = attrgetter("name", "kind", "min_cores", "max_cores", "min_ways", "max_ways")
_MOST_ALIKE = 1024
_alike: dict[tuple[object, ...], Node] = {}
"""Nodes without cells, by all that platform and limits say of one: that is the same in nearly every interval."""


def _undivided(observation: Observation) -> Node:
    platform = observation.platform
    lc = [service.name for service in observation.services if service.kind == "lc"]
    be = [service.name for service in observation.services if service.kind == "be"]
    found = {budget.resource: budget for budget in budgets(observation)}
    cores, ways = found["cores"], found.get("ways")
    none = dict.fromkeys(cores.limits, Limits(0, 0))
    of_ways = none if ways is None else ways.limits
    leasts = {name: Cell(limit.least, of_ways[name].least) for name, limit in cores.limits.items()}
    mosts = {name: Cell(limit.most, of_ways[name].most) for name, limit in cores.limits.items()}
    return Node(
        observation,
        [],
        {},
        be,
        cores,
        ways,
        total=Cell(cores.total, 0 if ways is None else ways.total),
        most_minimum=Cell(max(leasts[n].cores for n in be), max(leasts[n].ways for n in be)) if be else NOTHING,
        background=bool(be) and platform.realtime and all(cores.limits[n].most >= platform.cores for n in be),
        obstacle=_obstacle(lc, be, cores, ways, platform.max_groups),
        leasts=leasts,
        mosts=mosts,
    )


def isolated(partition: Partition, names: set[str], *, has_ways: bool) -> dict[str, Cell]:
    """Cores and ways that each of these services has to itself, BE jobs in its background aside."""
    cells: dict[str, Cell] = {}
    for region in partition.regions:
        owners = names.intersection(region.owners)
        if len(owners) == 1 and (region.cores == 0 or len(region.owners) == 1 or region.owners[0] in owners):
            (name,) = owners
            old = cells.get(name, NOTHING)
            cells[name] = Cell(old.cores + region.cores, old.ways + region.ways)
    return {name: cell for name, cell in cells.items() if cell.cores and (cell.ways or not has_ways)}


def parted(node: Node, cells: Mapping[str, Cell], pairs: Sequence[tuple[str, str, Cell]] = ()) -> Partition:
    """Every LC service in its cell, BE jobs in what is left; `pairs` share a cell besides (algorithm 4)."""
    regions: list[Region] = []
    for name, cell in cells.items():
        if node.background and name not in node.without_jobs:
            regions += [Region([name, *node.be], cell.cores, 0), Region([name], 0, cell.ways)]
        else:
            regions.append(Region([name], cell.cores, cell.ways))
    regions += [Region([first, second], cell.cores, cell.ways) for first, second, cell in pairs]
    if node.be:
        left = left_over(node, [*cells.values(), *(cell for _, _, cell in pairs)])
        most = [Cell(node.cores.limits[n].most, node.ways.limits[n].most if node.ways else 0) for n in node.be]
        regions.append(
            Region(
                list(node.be), min([left.cores, *(m.cores for m in most)]), min([left.ways, *(m.ways for m in most)])
            )
        )
    regions = [region for region in regions if region.cores or region.ways]
    return _prioritised(node, Partition(regions))


def shared_by_services(node: Node, *, few_job_ways: bool) -> Partition:
    """LC services share everything; BE jobs stay behind them, or aside where a node has no priorities.

    `few_job_ways`: BE jobs in the background have a few ways of their own, else they share the cache, too.
    """
    names = [service.name for service in node.lc]
    total = node.total
    if not node.be:
        return Partition([Region(names, total.cores, total.ways)])
    if not node.background:
        least = node.least_be
        return Partition(
            [
                Region(names, total.cores - least.cores, total.ways - least.ways),
                Region(list(node.be), least.cores, least.ways),
            ]
        )
    most = total.ways if node.ways is None else min(node.ways.limits[name].most for name in node.be)
    if not few_job_ways and most == total.ways:
        return _prioritised(node, Partition([Region([*names, *node.be], total.cores, total.ways)]))
    ways = min(max(BACKGROUND_WAYS, node.least_be.ways), max(total.ways - 1, 0), most)
    regions = [Region([*names, *node.be], total.cores, 0)]
    if node.ways is not None:
        regions += [Region(names, 0, total.ways - ways), Region(list(node.be), 0, ways)]
    return _prioritised(node, Partition(regions))


def one_beside_the_rest(node: Node, name: str, cell: Cell) -> Partition:
    """One LC service in a cell, the others together on the rest, BE jobs aside."""
    others = [service.name for service in node.lc if service.name != name]
    least = node.least_be
    rest = left_over(node, [cell, least])
    regions = [Region([name], *cell), Region(others, *rest), *([Region(list(node.be), *least)] if node.be else [])]
    return Partition(regions)


def left_over(node: Node, cells: Sequence[Cell]) -> Cell:
    """What these cells leave of the node (pairs, if any, among them)."""
    total = node.total
    return Cell(total.cores - sum([c.cores for c in cells]), total.ways - sum([c.ways for c in cells]))


def _prioritised(node: Node, partition: Partition) -> Partition:
    """LC services run before BE jobs where those are in their background."""
    if not node.background:
        return partition
    names = {service.name: Knobs(realtime_priority=PRIORITY) for service in node.lc}
    return with_knob(partition, "realtime_priority", {name: knobs.realtime_priority for name, knobs in names.items()})


def _obstacle(
    lc: Sequence[str], be: Sequence[str], cores: Budget, ways: Budget | None, max_groups: int | None
) -> str | None:
    """Why LC services can't be isolated from each other."""
    if not lc:
        return "there is no LC service"
    groups = len(lc) + bool(be)
    for budget in (cores, ways):
        if budget is None:
            continue
        found = can_isolate(budget, groups, groups, max_groups)
        if found is not None:
            return found
        shared = max((budget.limits[name].least for name in be), default=0)
        if shared > min((budget.limits[name].most for name in be), default=budget.total):
            return f"the BE jobs share one part, but one job's minimum of {budget.resource} is above another's maximum"
        needed = shared + sum(budget.limits[name].least for name in lc)
        if needed > budget.total:
            return f"the operator's minimums for {budget.resource} ({needed}) don't fit in {budget.total}"
        if any(budget.limits[name].most < budget.floor for name in lc):
            return f"an operator's maximum for {budget.resource} is below the smallest part that a service needs"
    return None
