"""One part of a node for each cache domain that regions name: its CPUs, regions and services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from osml.domain import Assignment, Partition, Platform, usable_domains
from osml.domain.cpulist import format_cpulist, parse_cpulist


class Part(NamedTuple):
    """A cache domain as if it were a node. `names` are its services, `previous` what they had in it."""

    platform: Platform
    partition: Partition
    names: list[str]
    previous: list[Assignment]


def parts_of(partition: Partition, platform: Platform, previous: Sequence[Assignment]) -> list[Part]:
    """The parts of a legal partition, in the order of the domains' ids; none where no region names a domain."""
    domains = partition.by_domain
    if not domains:
        return []
    cpus = usable_domains(platform)
    return [_part(partition, domain, platform_of(platform, cpus[domain]), previous) for domain in sorted(domains)]


def platform_of(platform: Platform, cpus: Sequence[int]) -> Platform:
    """The platform as if it had these CPUs only, all of one cache domain."""
    inside = set(cpus)
    siblings = [group for group in platform.siblings if inside.issuperset(group)]
    return replace(
        platform, cores=len(cpus), cpus=format_cpulist(cpus), siblings=siblings, domains=[], regions_in_domains=False
    )


def partition_in(partition: Partition, domain: int) -> Partition:
    """What a partition says of a domain, as of a node of its own."""
    regions = [replace(region, domain=UNSET) for region in partition.by_domain[domain]]
    names = {owner for region in regions for owner in region.owners}
    return Partition(
        regions,
        {name: value for name, value in partition.mba.items() if name in names},
        {name: knobs for name, knobs in partition.knobs.items() if name in names},
    )


def _part(partition: Partition, domain: int, platform: Platform, previous: Sequence[Assignment]) -> Part:
    inside = partition_in(partition, domain)
    names = list(dict.fromkeys(owner for region in inside.regions for owner in region.owners))
    return Part(
        platform, inside, names, [one for one in previous if one.service in names and _some_inside(one, platform)]
    )


def _some_inside(assignment: Assignment, platform: Platform) -> bool:
    """Whether a service was in the domain: where it was not, its mask says nothing of the domain's ways."""
    if not assignment.cpus:
        return True
    return not set(parse_cpulist(platform.cpus)).isdisjoint(parse_cpulist(assignment.cpus))
