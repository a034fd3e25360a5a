"""A platform of the catalogs as a policy counts it."""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

from msgspec.structs import replace

from osml.domain import CacheDomain, KnobRange, MbaRange, Platform
from osml.domain.cpulist import format_cpulist
from osml.simulator.board import cpus_of, domain_count, whole_platform
from osml.simulator.models import PlatformModel

_LOWEST_MHZ = 1200  # PARTIES, table 3: 1.2 to 2.2 GHz in steps of 100 MHz, else turbo
_MHZ, _MEMORY_MIB, _NETWORK_MBPS = 100, 1024, 500  # steps of PARTIES, sections 4.2.1 and 4.3
# The paper's step of the disk is 1 GB/s, more than its disk can do: one of twenty parts, as one of twenty ways is.
_DISK_STEPS = 20


_REGULATOR_MBPS = 100  # step and least of the software regulator
UNLIMITED_EIGHTHS = 2048
"""AMD's MBA: 1/8 GB/s a step, and the value that means no limit. The agent takes no 0: it would stop a service."""

Lever = Literal["realtime", "frequency", "memory", "disk", "network"]
"""What a virtual node can set besides cores, ways and MBA: real-time priorities, and the knobs that PARTIES divides."""

LEVERS: tuple[Lever, ...] = get_args(Lever)
NO_LEVERS: frozenset[Lever] = frozenset()
REALTIME: frozenset[Lever] = frozenset({"realtime"})
KNOBS: frozenset[Lever] = frozenset(LEVERS) - REALTIME


@cache
def domain_platform(model: PlatformModel, *, levers: frozenset[Lever] = NO_LEVERS, regulator: bool = False) -> Platform:
    """Cores, ways, siblings, memory, MBA where the platform has it, and these `levers`.

    With a `regulator`, a platform without MBA has the agent's software regulator in its place, in MB/s.
    """
    software = MbaRange(_REGULATOR_MBPS, round(model.bandwidth_gbps * 1e3), _REGULATOR_MBPS, "mbps")
    disk = max(1, round(model.disk_iops / _DISK_STEPS))
    plain = Platform(
        id=model.id,
        cores=model.cpus,
        cpus=format_cpulist(range(model.cpus)),
        ways=model.ways,
        way_mib=model.way_mib,
        sparse_masks=model.vendor == "amd",
        siblings=model.siblings if model.cpus > model.physical_cores else [],
        mba=_throttle(model) if model.mba else software if regulator else None,
        max_groups=model.max_groups,
        bandwidth_gbps=min(model.bandwidth_gbps, model.link_gbps),
        memory_gib=model.memory_gib,
        frequency_ghz=model.frequency_ghz,
        realtime="realtime" in levers,
    )
    ranges: dict[Lever, tuple[str, KnobRange]] = {
        "frequency": ("frequency_mhz", KnobRange(_LOWEST_MHZ, round(model.turbo_ghz * 1e3), _MHZ)),
        "memory": ("memory_mib", KnobRange(_MEMORY_MIB, _usable_mib(model), _MEMORY_MIB)),
        "disk": ("disk_iops", KnobRange(disk, round(model.disk_iops), disk)),
        "network": ("network_mbps", KnobRange(_NETWORK_MBPS, round(model.network_gbps * 1e3), _NETWORK_MBPS)),
    }
    return replace(plain, **dict(ranges[lever] for lever in ranges if lever in levers))


def board_platform(
    socket: PlatformModel,
    sockets: int,
    *,
    levers: frozenset[Lever] = NO_LEVERS,
    regulator: bool = False,
    by_domain: bool = True,
) -> Platform:
    """All sockets of a node as a policy counts them; `by_domain`: regions may be in one of the cache domains."""
    plain = domain_platform(whole_platform(socket, sockets), levers=levers, regulator=regulator)
    count = domain_count(socket, sockets)
    if count == 1:
        return plain
    domains = [CacheDomain(n, format_cpulist(cpus_of(socket, sockets, n))) for n in range(count)]
    return replace(plain, domains=domains, regions_in_domains=by_domain)


def _throttle(model: PlatformModel) -> MbaRange:
    """MBA as the agent reports it."""
    return MbaRange(1, UNLIMITED_EIGHTHS, 1, "eighth_gbps") if model.vendor == "amd" else MbaRange(10, 100, 10)


def _usable_mib(model: PlatformModel) -> int:
    """Memory for services and jobs, in MiB."""
    return round((model.memory_gib - model.reserved_gib) * 1024)
