"""Who owns what: regions in counts, assignments in CPU ids and masks."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from osml.domain.platform import Name, NonNegativeInt, PositiveFloat, PositiveInt


class Region(Struct, frozen=True, forbid_unknown_fields=True):
    """Cores (units) and ways that one service owns (isolated) or that several share.

    `domain` is the id of the cache domain that they are in. Without it they are of the node as a whole. It is left out
    of JSON where it is not set: agents before it refuse a key that they do not know.
    """

    owners: Annotated[list[Name], Meta(min_length=1)]
    cores: NonNegativeInt = 0
    ways: NonNegativeInt = 0
    domain: NonNegativeInt | UnsetType = UNSET

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
    """All regions of a node, the memory-bandwidth throttle (in the unit of `Platform.mba`) and knobs per service.

    Either all regions name a cache domain or none does; all regions of one service name the same.
    """

    regions: list[Region]
    mba: dict[str, int] = {}
    knobs: dict[str, Knobs] = {}

    def cores_of(self, service: str) -> int:
        """Core units that the service can reach, shared ones included."""
        return sum(region.cores for region in self.regions if service in region.owners)

    def ways_of(self, service: str) -> int:
        """Cache ways that the service can reach, shared ones included."""
        return sum(region.ways for region in self.regions if service in region.owners)

    def reach(self) -> dict[str, tuple[int, int]]:
        """Core units and ways that each owner can reach, shared ones included."""
        found: dict[str, tuple[int, int]] = {}
        for region in self.regions:
            for owner in region.owners:
                cores, ways = found.get(owner, (0, 0))
                found[owner] = cores + region.cores, ways + region.ways
        return found

    @property
    def cores(self) -> int:
        """Core units in all regions."""
        return sum(region.cores for region in self.regions)

    @property
    def ways(self) -> int:
        """Ways in all regions. Each cache domain has its own ways, so with domains this may exceed the platform's."""
        return sum(region.ways for region in self.regions)

    @property
    def by_domain(self) -> dict[int, list[Region]]:
        """The regions that name a cache domain, by its id."""
        found: dict[int, list[Region]] = {}
        for region in self.regions:
            if region.domain is not UNSET:
                found.setdefault(region.domain, []).append(region)
        return found


class Assignment(Struct, frozen=True, forbid_unknown_fields=True):
    """What one service gets on the machine. None = this mechanism is not used on this node.

    `cpus` is a kernel CPU list, `cpu_quota` is in logical CPUs (1.5 = one and a half), `cpu_weight` is cgroup v2's
    1..10000, `way_mask` is hexadecimal without 0x and set in every cache domain, `mba` is in the platform's unit.
    """

    service: Name
    cpus: str | None = None
    cpu_quota: PositiveFloat | None = None
    cpu_weight: Annotated[int, Meta(ge=1, le=10000)] | None = None
    way_mask: Annotated[str, Meta(pattern=r"^[0-9a-f]{1,16}\Z")] | None = None
    mba: PositiveInt | None = None
    knobs: Knobs | None = None
