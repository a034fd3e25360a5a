"""Cells written as a partition, and read back from one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from osml.allocation.apart import JOB_WAYS
from osml.allocation.limits import budgets, common_parts
from osml.domain import Observation, Partition, Region
from osml.policies.osml.node import NOTHING, Cell, Node, left_over


def cells_of(partition: Partition | None, node: Node) -> dict[str, Cell]:
    """Cores and ways that each LC service has to itself; without `has_ways` the ways do not count.

    Who shares some more, as under ARQ, has no cell: what is its own says little of what it runs on.
    """
    found: dict[str, Cell] = {}
    sharing: set[str] = set()
    for region in () if partition is None else partition.regions:
        if len(region.owners) == 1 and region.owners[0] in node.lc:
            old = found.get(region.owners[0], NOTHING)
            found[region.owners[0]] = Cell(old.cores + region.cores, old.ways + region.ways * node.has_ways)
        elif region.cores or (region.ways and node.has_ways):
            sharing.update(region.owners)
    return {
        name: cell
        for name, cell in found.items()
        if name not in sharing and cell.cores and (cell.ways or not node.has_ways)
    }


def partition_of(observation: Observation, node: Node, cells: Mapping[str, Cell]) -> Partition:
    """Each service in its cell, those without one together on what is left, BE jobs aside.

    Services without a cell get all that is left but `least_be`; without such services BE jobs get all that is left.
    """
    if node.obstacle is not None:
        return _together(observation, node)
    left = left_over(node, cells)
    sharing = [name for name in node.lc if name not in cells]
    jobs = NOTHING if not node.be else node.least_be if sharing else _most_of(node, left)
    parts = [([name], cell) for name, cell in cells.items()]
    if sharing:
        parts.append((sharing, left.less(jobs)))
    if node.be:
        parts.append((list(node.be), jobs))
    regions = [Region(owners, *part) for owners, part in parts if part.cores or part.ways]
    return Partition(regions + _common_cache(observation, node))


def _together(observation: Observation, node: Node) -> Partition:
    """All services on the same cores, BE jobs aside where there are two parts; the minimums of services come first."""
    total = node.total
    if node.lc and node.be and total.cores > 1:
        most = max(1, total.cores - max(node.leasts[name].cores for name in node.lc))
        jobs = Cell(min(node.least_be.cores, most), node.least_be.ways)
        regions = _shared(observation, node.lc, total.less(jobs), groups=1)
        regions += _shared(observation, node.be, jobs, groups=1)
    else:
        regions = _shared(observation, [*node.lc, *node.be], total)
    return Partition(regions + _common_cache(observation, node))


def _most_of(node: Node, left: Cell) -> Cell:
    """What is left, as far as the operator lets BE jobs have it; where their limits contradict, the minimums."""
    mosts, least = [node.mosts[name] for name in node.be], node.least_be
    cores, ways = min([left.cores, *(m.cores for m in mosts)]), min([left.ways, *(m.ways for m in mosts)])
    return Cell(max(cores, least.cores), max(ways, least.ways))


def _common_cache(observation: Observation, node: Node) -> list[Region]:
    """The cache where nobody has ways of its own: services together, BE jobs aside where two groups are possible."""
    platform = observation.platform
    ways = platform.ways
    if node.has_ways or ways is None or not observation.services:
        return []
    be = [service for service in observation.services if service.kind == "be"]
    usual = min([JOB_WAYS, *(job.max_ways for job in be if job.max_ways is not None)])
    jobs = max([usual, platform.min_way_bits, *(job.min_ways for job in be)])
    two_groups = platform.max_groups is None or platform.max_groups > 2
    if be and node.lc and two_groups and ways - jobs >= platform.min_way_bits:
        lc = _shared(observation, node.lc, Cell(0, ways - jobs), groups=1)
        return lc + _shared(observation, node.be, Cell(0, jobs), groups=1)
    return _shared(observation, [*node.lc, *node.be], Cell(0, ways))


def _shared(observation: Observation, names: Sequence[str], part: Cell, groups: int = 0) -> list[Region]:
    """A part that services share, within the operator's limits; `groups` of the cache are taken by others."""
    regions: dict[tuple[str, ...], Cell] = {}
    most = observation.platform.max_groups
    for budget in budgets(observation):
        units = part.cores if budget.resource == "cores" else part.ways
        if not units:
            continue
        free = None if most is None else most - groups
        for owners, count in common_parts(budget._replace(total=units), names, free):
            old = regions.get(tuple(owners), NOTHING)
            own = Cell(count, 0) if budget.resource == "cores" else Cell(0, count)
            regions[tuple(owners)] = Cell(old.cores + own.cores, old.ways + own.ways)
    return [Region(list(owners), *counts) for owners, counts in regions.items()]
