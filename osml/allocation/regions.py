"""Holdings written as a partition, and read back from one.

Cores and ways become regions. Memory, disk and network become knobs of each service: those who share a pool get equal
parts of it. Memory bandwidth becomes throttles: who shares the pool may use it beside what he owns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from osml.allocation.holding import Holding
from osml.allocation.limits import CORES_AND_WAYS, Scale
from osml.domain import Knobs, Partition, Region, Resource

KNOBS: Mapping[Resource, str] = {
    "frequency": "frequency_mhz",
    "memory": "memory_mib",
    "disk": "disk_iops",
    "network": "network_mbps",
}


def partition_of(
    holdings: Iterable[Holding], common: Mapping[Resource, Sequence[tuple[Sequence[str], int]]], names: Sequence[str]
) -> Partition:
    """One region for each service that owns cores or ways, one for each pool, and those of what all have in common."""
    counts: dict[tuple[str, ...], dict[Resource, int]] = {}
    partition = Partition([])

    def add(owners: tuple[str, ...], resource: Resource, units: int) -> None:
        if units and owners:
            region = counts.setdefault(owners, {})
            region[resource] = region.get(resource, 0) + units

    for holding in holdings:
        if holding.resource not in CORES_AND_WAYS:
            partition = _with_amounts(partition, holding, names)
            continue
        for name in names:
            add((name,), holding.resource, holding.own.get(name, 0))
        add(holding.sharers, holding.resource, holding.region)
    for resource in CORES_AND_WAYS:
        for owners, units in common.get(resource, ()):
            add(tuple(owners), resource, units)
    return replace(partition, regions=[Region(list(o), c.get("cores", 0), c.get("ways", 0)) for o, c in counts.items()])


def with_knob(partition: Partition, knob: str, values: Mapping[str, int | None]) -> Partition:
    """The partition with one knob of some services set; services without any limit are not listed."""
    knobs = dict(partition.knobs)
    for name, value in values.items():
        knobs[name] = replace(knobs.get(name, Knobs()), **{knob: value})
    return replace(partition, knobs={name: given for name, given in knobs.items() if given != Knobs()})


def owned_alone(
    partition: Partition, resource: Resource, names: Iterable[str], scale: Scale | None = None
) -> dict[str, int]:
    """Units that only one service may use, for those of `names` that the partition knows.

    Of cores and ways that is every service with a region of its own.
    """
    here = set(names)
    if resource == "mba" and scale is not None:
        return {name: units for name, units in _unthrottled(partition.mba, scale).items() if name in here}
    if resource in KNOBS and scale is not None:
        given = {name: _knob(knobs, resource) for name, knobs in partition.knobs.items() if name in here}
        return {name: scale.units(value) for name, value in given.items() if value is not None}
    found = dict.fromkeys((r.owners[0] for r in partition.regions if not r.shared and r.owners[0] in here), 0)
    for region in partition.regions:
        if not region.shared and region.owners[0] in found:
            found[region.owners[0]] += region.cores if resource == "cores" else region.ways
    return found


def _with_amounts(partition: Partition, holding: Holding, names: Sequence[str]) -> Partition:
    scale = holding.scale
    if scale is None:
        return partition
    if holding.resource == "mba":
        reach = {n: holding.own.get(n, 0) + (holding.region if n in holding.sharers else 0) for n in names}
        return replace(partition, mba={name: scale.amount(units) for name, units in reach.items() if units})
    parts = {name: units for name, units in holding.own.items() if units}
    parts |= dict.fromkeys(holding.sharers, holding.region // max(1, len(holding.sharers)))
    return with_knob(partition, KNOBS[holding.resource], {name: scale.amount(units) for name, units in parts.items()})


def _unthrottled(mba: Mapping[str, int], scale: Scale) -> dict[str, int]:
    """What each service may use beyond what all may: with n services that share a pool, sum = total + (n - 1) pool."""
    reach = {name: scale.units(value) for name, value in mba.items()}
    pool = (sum(reach.values()) - scale.total()) // (len(reach) - 1) if len(reach) > 1 else scale.total()
    return {name: max(0, units - pool) for name, units in reach.items()}


def _knob(knobs: Knobs, resource: Resource) -> Any:
    return getattr(knobs, KNOBS[resource])
