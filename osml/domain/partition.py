"""Who owns what: regions in counts, assignments in CPU ids and masks."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from osml.domain.platform import KnobRange, Name, NonNegativeInt, Platform, PositiveFloat, PositiveInt


class Region(Struct, frozen=True, forbid_unknown_fields=True):
    """Cores (units) and ways that one service owns (isolated) or that several share."""

    owners: Annotated[list[Name], Meta(min_length=1)]
    cores: NonNegativeInt = 0
    ways: NonNegativeInt = 0

    @property
    def shared(self) -> bool:
        """True where more than one service uses the region."""
        return len(self.owners) > 1


class Knobs(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What one service may use beside CPUs, ways and memory bandwidth. None = no limit, the operating system's default.

    `frequency_mhz` caps the clock of its CPUs, `disk_iops` its random reads a second. With a `realtime_priority` it
    runs before all normal tasks (SCHED_RR); `slice_ms` is how long a task of it runs before the next has its turn.
    """

    frequency_mhz: PositiveInt | None = None
    memory_mib: PositiveInt | None = None
    disk_iops: PositiveInt | None = None
    network_mbps: PositiveInt | None = None
    realtime_priority: Annotated[int, Meta(ge=1, le=99)] | None = None
    slice_ms: PositiveFloat | None = None


class Partition(Struct, frozen=True, forbid_unknown_fields=True):
    """All regions of a node, the memory-bandwidth throttle (in the unit of `Platform.mba`) and knobs per service."""

    regions: list[Region]
    mba: dict[str, int] = {}
    knobs: dict[str, Knobs] = {}

    def cores_of(self, service: str) -> int:
        """Core units that the service can reach, shared ones included."""
        return sum(region.cores for region in self.regions if service in region.owners)

    def ways_of(self, service: str) -> int:
        """Cache ways that the service can reach, shared ones included."""
        return sum(region.ways for region in self.regions if service in region.owners)

    @property
    def cores(self) -> int:
        """Core units in all regions."""
        return sum(region.cores for region in self.regions)

    @property
    def ways(self) -> int:
        """Ways in all regions."""
        return sum(region.ways for region in self.regions)


class Assignment(Struct, frozen=True, forbid_unknown_fields=True):
    """What one service gets on the machine. None = this mechanism is not used on this node.

    `cpus` is a kernel CPU list, `cpu_quota` is in logical CPUs (1.5 = one and a half), `cpu_weight` is cgroup v2's
    1..10000, `way_mask` is hexadecimal without 0x and holds for every cache domain, `mba` is in the platform's unit.
    """

    service: Name
    cpus: str | None = None
    cpu_quota: PositiveFloat | None = None
    cpu_weight: Annotated[int, Meta(ge=1, le=10000)] | None = None
    way_mask: Annotated[str, Meta(pattern=r"^[0-9a-f]{1,16}\Z")] | None = None
    mba: PositiveInt | None = None
    knobs: Knobs | None = None


def partition_error(partition: Partition, platform: Platform, services: list[str]) -> str | None:
    """Say in one sentence why a partition is illegal on a platform, or None where it is legal.

    Legal (design, section 4): the sum over regions stays within the platform, every service reaches at least one core
    and (where the cache can be partitioned) one way, and every owner exists.
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
    if platform.ways is not None and partition.ways > platform.ways:
        return f"ways: the regions sum up to {partition.ways}, the platform has {platform.ways}"
    for name in services:
        if partition.cores_of(name) < 1:
            return f"service '{name}' reaches {partition.cores_of(name)} cores, expected at least 1"
        if platform.ways is not None and partition.ways_of(name) < platform.min_way_bits:
            return f"service '{name}' reaches {partition.ways_of(name)} ways, expected at least {platform.min_way_bits}"
    return _knobs_error(partition, platform, known)


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
