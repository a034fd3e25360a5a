"""The cache domains of a node as nodes of their own: CPUs, ways, and a part of what is not of a cache domain."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from osml.domain import KnobRange, MbaRange, Platform, usable_domains
from osml.layout.domains import platform_of


class Site(NamedTuple):
    """A cache domain. `platform` is the node with its CPUs only, but with all that is not of a cache domain."""

    domain: int
    cpus: frozenset[int]
    platform: Platform


Sites = dict[int, Site]


def sites_of(platform: Platform) -> Sites:
    """The cache domains that services can be placed in, by id; none where the node can only be divided as a whole.

    There are some where the agent takes regions in domains, hands out whole CPUs, and each CPU is in one of at least
    two domains.
    """
    if not platform.regions_in_domains or len(platform.domains) < 2 or platform.core_quantum != 1:
        return {}
    key = _encoder.encode(platform)
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        found = _known[key] = _sites(platform)
    return found


def with_parts(platform: Platform, n_here: int, n_all: int, n_domains: int) -> Platform:
    """The platform of a domain with its part of what is not of a cache domain.

    Memory, disk and network go by services: `n_here` of `n_all` are in this domain. Memory bandwidth is divided among
    `n_domains`. Cache groups are not divided, since domains may use the same ones, see `groups`.
    """
    return replace(
        platform,
        mba=_throttle(platform.mba, n_domains),
        bandwidth_gbps=_part(platform.bandwidth_gbps, 1, n_domains),
        memory_gib=_part(platform.memory_gib, n_here, n_all),
        memory_mib=_range(platform.memory_mib, n_here, n_all),
        disk_iops=_range(platform.disk_iops, n_here, n_all),
        network_mbps=_range(platform.network_mbps, n_here, n_all),
    )


def sharers_of_bandwidth(platform: Platform, occupied: int) -> int:
    """Domains among which the node's memory bandwidth is divided: those with services, so nothing is kept for others.

    But a throttle in percent is of the bandwidth of its own domain, a socket's, whoever else has services.
    """
    percent = platform.mba is not None and platform.mba.unit == "percent"
    return len(platform.domains) if percent else occupied


_MOST_KNOWN = 1024
_known: dict[bytes, Sites] = {}
_encoder = msgspec.msgpack.Encoder()


def _sites(platform: Platform) -> Sites:
    domains = usable_domains(platform)
    if len(domains) < 2 or sum(map(len, domains.values())) != platform.cores:
        return {}
    return {
        domain: Site(domain, frozenset(cpus), platform_of(platform, cpus)) for domain, cpus in sorted(domains.items())
    }


def _part(amount: float | None, n_here: int, n_all: int) -> float | None:
    return None if amount is None else amount * n_here / n_all


def _throttle(mba: MbaRange | None, n_domains: int) -> MbaRange | None:
    """Percent and AMD's eighths are of each domain already; MB/s are of the node."""
    if mba is None or mba.unit != "mbps":
        return mba
    step = max(mba.step, 1)
    return replace(mba, max=max(mba.min, 1, mba.max // n_domains // step * step))


def _range(limits: KnobRange | None, n_here: int, n_all: int) -> KnobRange | None:
    """What is divided among all services, in whole steps; None where the part is too small to be divided."""
    if limits is None:
        return None
    most = limits.max * n_here // n_all // limits.step * limits.step
    return replace(limits, max=most) if most >= max(limits.min, 1) else None
