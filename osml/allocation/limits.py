"""What there is to divide on a node, and the operator's limits for each service."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from osml.domain import KnobRange, MbaRange, Observation, Platform, Resource, Service

CORES_AND_WAYS: tuple[Resource, ...] = ("cores", "ways")
_MAX_UNITS = 4096  # of a knob: finer ranges are moved in steps of several
_MBA_SLICES = 10  # Intel's own granularity, 10 %; finer throttles (AMD: 1/8 GB/s) are moved in as many steps


class Limits(NamedTuple):
    """Least and most that a service may reach."""

    least: int
    most: int


class Scale(NamedTuple):
    """What a unit is on the machine: `step` of the knob (MiB, reads/s, Mbit/s, %); all units together are `most`."""

    step: int
    most: int

    def total(self) -> int:
        """Units that there are."""
        return self.most // self.step

    def amount(self, units: int) -> int:
        """So many units as the knob's value. What is left over by the steps goes with the last unit."""
        return self.most if units == self.total() else units * self.step

    def units(self, amount: int) -> int:
        """The knob's value as units."""
        return self.total() if amount >= self.most else amount // self.step


class Budget(NamedTuple):
    """One resource of the node. `floor` is what nobody may fall below (one core; the shortest legal mask).

    Cores and ways are counted as they are; the units of all else have a `scale`.
    """

    resource: Resource
    total: int
    floor: int
    limits: dict[str, Limits]
    scale: Scale | None = None


def core_units(platform: Platform) -> int:
    """Units of one core: more than one where slices of CPU time are handed out."""
    return max(1, round(min(1 / platform.core_quantum, platform.cores)))


def budgets(observation: Observation, resources: Sequence[Resource] = CORES_AND_WAYS) -> list[Budget]:
    """Those of the resources that this node can divide, in that order. A clock is not divided: each has its own."""
    found = [_budget(resource, observation) for resource in resources]
    return [budget for budget in found if budget is not None]


def _budget(resource: Resource, observation: Observation) -> Budget | None:
    platform, services = observation.platform, observation.services
    if resource == "cores":
        cores = {s.name: _within(s.min_cores, s.max_cores, 1, platform.cores) for s in services}
        return Budget("cores", platform.cores, 1, cores)
    if resource == "ways":
        if platform.ways is None:
            return None
        floor = platform.min_way_bits
        ways = {s.name: _within(s.min_ways, s.max_ways, floor, platform.ways) for s in services}
        return Budget("ways", platform.ways, floor, ways)
    limits = _knob_range(resource, platform)
    if limits is None:
        return None
    scale = Scale(limits.step * max(1, -(-limits.max // (limits.step * _MAX_UNITS))), limits.max)
    floor = max(1, -(-limits.min // scale.step))
    return Budget(resource, scale.total(), floor, {s.name: Limits(floor, scale.total()) for s in services}, scale)


def _knob_range(resource: Resource, platform: Platform) -> KnobRange | None:
    if resource == "mba":
        return None if platform.mba is None else _slices(platform.mba)
    ranges = {"memory": platform.memory_mib, "disk": platform.disk_iops, "network": platform.network_mbps}
    return ranges.get(resource)


def _slices(mba: MbaRange) -> KnobRange:
    """About ten steps from nothing to all; each is one that the hardware can hold."""
    step = max(1, mba.step)
    return KnobRange(mba.min, mba.max, step * max(1, round(mba.max / step / _MBA_SLICES)))


def without_operator_minimums(budget: Budget) -> Budget:
    """The same budget with nobody promised more than the floor: best effort where the promises don't fit."""
    relaxed = {name: Limits(budget.floor, limits.most) for name, limits in budget.limits.items()}
    return budget._replace(limits=relaxed)


def with_least(budget: Budget, amounts: Mapping[str, float], sharers: Sequence[str]) -> Budget:
    """The budget in which everybody has at least so much of a knob; the sharers, who have equal parts, all the same."""
    if budget.scale is None:
        return budget
    beyond = budget.total + 1  # more than there is; how much more does not matter
    units = {name: math.ceil(min(amount / budget.scale.step, beyond)) for name, amount in amounts.items()}
    units |= dict.fromkeys(sharers, max((units.get(name, 0) for name in sharers), default=0))
    limits = {name: one._replace(least=max(one.least, units.get(name, 0))) for name, one in budget.limits.items()}
    return budget._replace(limits=limits)


def can_isolate(budget: Budget, n_parts: int, n_groups: int, max_groups: int | None) -> str | None:
    """None where the resource can be cut into so many parts for so many cache groups, otherwise why not."""
    if n_parts * budget.floor > budget.total:
        return f"{n_parts} parts of at least {budget.floor} don't fit in {budget.total} {budget.resource}"
    if budget.resource == "ways" and max_groups is not None and n_groups > max_groups - 1:
        return f"{n_groups} services need one cache group each, but only {max_groups - 1} are free"
    return None


def common_parts(budget: Budget, names: Sequence[str], max_groups: int | None) -> list[tuple[list[str], int]]:
    """Owners and units of a resource that `names` share because it can't be cut into parts for each of them.

    All share all of it. Whom the operator allows less has a part of its own; where there are too few units or groups
    for that, those with the lowest maxima share one part and all others another. A part is in proportion to the number
    of its owners, within their limits. Where not even two parts are possible, all share what the strictest maximum
    allows, whatever their minimums, and the rest is idle: the agent refuses what is above a maximum.
    """
    limits, total = budget.limits, budget.total
    by_most = sorted(names, key=lambda name: limits[name].most)
    limited = [name for name in by_most if limits[name].most < total]
    if not limited:
        return [(list(names), total)] if names else []
    others = [name for name in names if name not in limited]
    cuts = [[*([name] for name in limited), *([others] if others else [])]]
    cuts += [[by_most[:k], by_most[k:]] for k in range(1, len(names))]
    for parts in cuts:
        found = _parts_within(budget, parts, len(names))
        if found is not None and can_isolate(budget, len(parts), len(parts), max_groups) is None:
            return found
    return [(list(names), limits[limited[0]].most)]


def shared_in_words(parts: Sequence[tuple[Sequence[str], int]], resource: Resource, who: str = "all services") -> str:
    """Who shares a resource that can't be cut into parts for each service."""
    text = f"{who} share the {resource}"
    return text if len(parts) < 2 else f"{text} in {len(parts)} parts, as far as the operator's maxima let them"


def _parts_within(budget: Budget, parts: Sequence[list[str]], n: int) -> list[tuple[list[str], int]] | None:
    """Units for each part, in proportion to its number of the `n` owners and within all limits; the last has the rest.

    None where that is not possible.
    """
    found: list[tuple[list[str], int]] = []
    left = budget.total
    for at, part in enumerate(parts):
        least = max(budget.limits[name].least for name in part)
        most = min(budget.limits[name].most for name in part)
        units = left if at == len(parts) - 1 else max(budget.total * len(part) // n, least)
        units = min(units, most, left)
        if units < max(least, budget.floor):
            return None
        found.append((part, units))
        left -= units
    return found


def lc_first(services: Sequence[Service]) -> list[Service]:
    """LC services before BE jobs, each by name: the order in which remainders are handed out."""
    return sorted(services, key=lambda s: (s.kind != "lc", s.name))


def _within(least: int, most: int | None, floor: int, total: int) -> Limits:
    low = min(max(least, floor), total)
    return Limits(low, max(low, total if most is None else min(most, total)))
