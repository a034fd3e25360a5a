"""What a node has to give away: cores, cache ways, bandwidth. Field names are the wire format."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

MAX_INT = 2**63 - 1  # what the agent's 64-bit integers and every decoder between hold
PositiveInt = Annotated[int, Meta(ge=1, le=MAX_INT)]
NonNegativeInt = Annotated[int, Meta(ge=0, le=MAX_INT)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NonNegativeFloat = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}\Z", description="letters, digits, '_', '.', '-'")]


class CacheDomain(Struct, frozen=True, forbid_unknown_fields=True):
    """One last-level cache: the id that the kernel's schemata use, and the CPUs behind it as a kernel CPU list."""

    id: NonNegativeInt
    cpus: str


class MbaRange(Struct, frozen=True, forbid_unknown_fields=True):
    """Memory-bandwidth throttle: legal values run from `min` to `max` in steps of `step` (0 = any), in `unit`."""

    min: NonNegativeInt
    max: PositiveInt
    step: NonNegativeInt
    unit: Literal["percent", "mbps", "eighth_gbps"] = "percent"


class KnobRange(Struct, frozen=True, forbid_unknown_fields=True):
    """What a knob of one service can be set to: from `min` to `max`; a policy moves it in steps of `step`."""

    min: NonNegativeInt
    max: PositiveInt
    step: PositiveInt


class Platform(Struct, frozen=True, forbid_unknown_fields=True):
    """A node as the scheduler counts it.

    `cores` counts core units. A unit is `core_quantum` logical CPUs: 1.0 where whole CPUs are handed out (cpuset,
    affinity), less where CPU quota is (0.1 = slices of a tenth of a CPU, then `cores` = 10 x CPUs).
    `ways` is None where the last-level cache can't be partitioned. The ranges of `Knobs` are None where this node can't
    set them; `max` of memory, disk and network is what all services have together. `realtime` allows priorities.
    """

    id: str
    cores: PositiveInt
    cpus: str  # kernel CPU list of the logical CPUs that may be handed out, for example "0-35"
    core_quantum: PositiveFloat = 1.0
    siblings: list[list[int]] = []  # hyperthreads that share a physical core; empty where unknown or without SMT
    ways: PositiveInt | None = None
    way_mib: PositiveFloat | None = None
    min_way_bits: PositiveInt = 1
    sparse_masks: bool = False
    domains: list[CacheDomain] = []
    mba: MbaRange | None = None
    max_groups: PositiveInt | None = None  # classes of service, the default one included
    bandwidth_gbps: PositiveFloat | None = None
    memory_gib: PositiveFloat | None = None
    frequency_ghz: PositiveFloat | None = None
    frequency_mhz: KnobRange | None = None
    memory_mib: KnobRange | None = None
    disk_iops: KnobRange | None = None
    network_mbps: KnobRange | None = None
    realtime: bool = False
    regions_in_domains: bool = False  # the agent takes regions that name one of `domains`
