"""Legality of a partition on a platform: one sentence that says what is wrong, or nothing."""

from __future__ import annotations

from msgspec import UNSET

from osml.domain.cpulist import parse_cpulist
from osml.domain.partition import Partition, Region
from osml.domain.platform import KnobRange, Platform


def usable_domains(platform: Platform) -> dict[int, list[int]]:
    """CPUs of each cache domain that may be handed out, ascending, by its id; domains without any are left out.

    Raises ValueError for a CPU list that is none.
    """
    usable = set(parse_cpulist(platform.cpus))
    found = {domain.id: sorted(usable.intersection(parse_cpulist(domain.cpus))) for domain in platform.domains}
    return {domain: cpus for domain, cpus in found.items() if cpus}


def partition_error(partition: Partition, platform: Platform, services: list[str]) -> str | None:
    """Say in one sentence why a partition is illegal on a platform, or None where it is legal.

    Legal (design, section 4): the sum over regions stays within the platform, in each cache domain too where regions
    name one; every service reaches at least one core and (where the cache can be partitioned) one way; every owner
    exists.
    """
    known = set(services)
    for region in partition.regions:
        for owner in region.owners:
            if owner not in known:
                return f"region owner '{owner}' is not a service of this node; known are {', '.join(sorted(known))}"
        if len(set(region.owners)) != len(region.owners):
            return f"region owners {region.owners} name a service twice"
    if partition.cores > platform.cores:
        return f"cores: the regions sum up to {partition.cores}, the platform has {platform.cores}"
    domains = partition.by_domain
    if domains:
        error = _domains_error(partition, platform, domains)
        if error is not None:
            return error
    elif platform.ways is not None and partition.ways > platform.ways:
        return f"ways: the regions sum up to {partition.ways}, the platform has {platform.ways}"
    for name in services:
        if partition.cores_of(name) < 1:
            return f"service '{name}' reaches {partition.cores_of(name)} cores, expected at least 1"
        if platform.ways is not None and partition.ways_of(name) < platform.min_way_bits:
            return f"service '{name}' reaches {partition.ways_of(name)} ways, expected at least {platform.min_way_bits}"
    return _knobs_error(partition, platform, known)


def _domains_error(partition: Partition, platform: Platform, domains: dict[int, list[Region]]) -> str | None:
    """Regions that name cache domains: ids that the platform has, one for each service, and within each domain."""
    if platform.core_quantum != 1:
        return f"regions name cache domains, but core_quantum is {platform.core_quantum:g}, expected whole CPUs (1)"
    home: dict[str, int] = {}
    for region in partition.regions:
        if region.domain is UNSET:
            return f"region of {', '.join(region.owners)} names no cache domain, but other regions do; name one in each"
        for owner in region.owners:
            if home.setdefault(owner, region.domain) != region.domain:
                both = f"cache domains {home[owner]} and {region.domain}"
                return f"service '{owner}' has regions in {both}, expected one domain for all its regions"
    try:
        cpus = usable_domains(platform)
    except ValueError as error:
        return f"platform '{platform.id}': {error}"
    for domain, regions in domains.items():
        if domain not in cpus:
            known = ", ".join(map(str, sorted(cpus))) or "none"
            return f"region domain {domain} is no cache domain with usable CPUs of this platform; known are {known}"
        cores, ways = sum(region.cores for region in regions), sum(region.ways for region in regions)
        if cores > len(cpus[domain]):
            return f"cores: the regions of cache domain {domain} sum up to {cores}, it has {len(cpus[domain])} CPUs"
        if platform.ways is not None and ways > platform.ways:
            return f"ways: the regions of cache domain {domain} sum up to {ways}, it has {platform.ways}"
    return None


_DIVIDED = ("memory_mib", "disk_iops", "network_mbps")


def _knobs_error(partition: Partition, platform: Platform, known: set[str]) -> str | None:
    """Knobs are legal where the platform has them, within their ranges, and what is divided adds up to no more."""
    for name, knobs in partition.knobs.items():
        if name not in known:
            return f"knobs are set for '{name}', which is not a service of this node"
        if (knobs.realtime_priority, knobs.slice_ms) != (None, None) and not platform.realtime:
            return f"knobs of '{name}': platform '{platform.id}' has no real-time scheduling to set"
    for knob in ("frequency_mhz", *_DIVIDED):
        given: dict[str, int] = {n: v for n, k in partition.knobs.items() if (v := getattr(k, knob)) is not None}
        limits: KnobRange | None = getattr(platform, knob)
        for name, value in given.items():
            if limits is None:
                return f"{knob} of '{name}' is {value}, but platform '{platform.id}' can't set it"
            if not limits.min <= value <= limits.max:
                return f"{knob} of '{name}' is {value}, expected {limits.min} to {limits.max}"
        if limits is not None and knob in _DIVIDED and sum(given.values()) > limits.max:
            return f"{knob}: the services' parts sum up to {sum(given.values())}, the platform has {limits.max}"
    return None
