"""A partition in counts becomes one assignment per service."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from osml.domain import Assignment, MbaRange, Partition, Platform, Reason, Service, partition_error
from osml.domain.cpulist import format_cpulist, parse_cpulist
from osml.layout.cpus import fill_cpus
from osml.layout.domains import parts_of
from osml.layout.quota import quota_assignments
from osml.layout.shares import core_shares, cpu_history, mask_history, way_shares
from osml.layout.ways import fill_ways, reach_notes


class LayoutError(ValueError):
    """The partition can't be laid out on the platform; the text says why."""


class Layout(Struct, frozen=True):
    """Assignments in the order of the services, and what had to be given up for them."""

    assignments: list[Assignment]
    notes: list[Reason] = []


def assign(
    partition: Partition, platform: Platform, services: Sequence[Service], previous: Sequence[Assignment] = ()
) -> list[Assignment]:
    """CPU ids, masks, quotas and throttles of each service. See `lay_out`."""
    return lay_out(partition, platform, services, previous).assignments


def lay_out(
    partition: Partition, platform: Platform, services: Sequence[Service], previous: Sequence[Assignment] = ()
) -> Layout:
    """Lay a partition out on CPU ids and mask bits; same input, same output, and its own output changes nothing.

    `previous` is what the services have now: as few CPUs and ways as possible change hands against it. CPUs and ways
    that no region holds stay idle. Where regions name cache domains, each domain is laid out as a node of its own, so
    masks of services in different domains may be the same. Raises LayoutError for an illegal partition or platform.
    """
    names = [service.name for service in services]
    error = partition_error(partition, platform, names)
    if error is not None:
        raise LayoutError(error)
    parts = parts_of(partition, platform, previous)
    if not parts:
        return _laid_out(partition, platform, names, previous)
    layouts = [_laid_out(part.partition, part.platform, part.names, part.previous) for part in parts]
    found = {assignment.service: assignment for layout in layouts for assignment in layout.assignments}
    return Layout([found[name] for name in names], [note for layout in layouts for note in layout.notes])


def _laid_out(partition: Partition, platform: Platform, names: Sequence[str], previous: Sequence[Assignment]) -> Layout:
    """A legal partition whose regions are all in the same place."""
    assignments = _cpu_assignments(partition, platform, names, previous)
    notes: list[Reason] = []
    if platform.ways is not None:
        shares = way_shares(partition)
        masks = fill_ways(platform.ways, shares, mask_history(previous, names), sparse=platform.sparse_masks)
        notes = reach_notes(masks, shares)
        assignments = [replace(a, way_mask=f"{masks[a.service]:x}") for a in assignments]
    if platform.mba is not None:
        legal = {name: legal_throttle(value, platform.mba) for name, value in partition.mba.items()}
        assignments = [replace(a, mba=legal.get(a.service)) for a in assignments]
    return Layout([replace(a, knobs=partition.knobs.get(a.service)) for a in assignments], notes)


def legal_throttle(value: int, mba: MbaRange) -> int:
    """The throttle value that the hardware can hold: within the range, rounded up to its step as the kernel does."""
    if mba.step:
        value = -(-value // mba.step) * mba.step
    return max(mba.min, min(mba.max, value))


def _cpu_assignments(
    partition: Partition, platform: Platform, names: Sequence[str], previous: Sequence[Assignment]
) -> list[Assignment]:
    cpus = _cpu_ids(platform)
    if platform.core_quantum < 1:
        return quota_assignments(partition, platform, len(cpus), names)
    if platform.core_quantum > 1 or partition.cores > len(cpus):
        raise LayoutError(
            f"platform '{platform.id}': {platform.cores} cores of {platform.core_quantum:g} CPUs each don't fit its "
            f"{len(cpus)} CPUs '{platform.cpus}'; core_quantum is 1 for whole CPUs and less for slices of CPU quota"
        )
    shares = core_shares(partition)
    filled = fill_cpus(cpus, platform.siblings, shares, cpu_history(previous, names))
    own: dict[str, list[int]] = {name: [] for name in names}
    for share, ids in zip(shares, filled, strict=True):
        for name in share.owners:
            own[name].extend(ids)
    return [Assignment(service=name, cpus=format_cpulist(own[name])) for name in names]


def _cpu_ids(platform: Platform) -> list[int]:
    try:
        return parse_cpulist(platform.cpus)
    except ValueError as error:
        raise LayoutError(f"platform '{platform.id}': {error}") from error
