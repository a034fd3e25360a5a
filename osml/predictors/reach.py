"""What services can reach: CPUs and ways of one, and those of all others together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from osml.domain import Assignment, Observation, Partition, Platform
from osml.domain.cpulist import cpu_mask

NAN = float("nan")


class Reach(NamedTuple):
    """Logical CPUs and ways that a service has, and those that all others have together, shared ones once.

    Ways of others are those in the cache domain of the service.
    """

    cores: float
    ways: float
    beside_cores: float
    beside_ways: float


def reaches(observation: Observation, names: Sequence[str]) -> list[Reach]:
    """Out of the partition, else out of what was read back; NaN for ways where the cache can't be partitioned.

    Whom neither of them names has come since: nothing confines it, so it may run everywhere.
    """
    if observation.partition is not None:
        return _reaches_in(observation.partition, observation, names)
    given = {found.service: found for found in observation.assignments}
    everybody = [service.name for service in observation.services]
    return [read_back(observation.platform, given, everybody, name) for name in names]


def read_back(platform: Platform, given: Mapping[str, Assignment], everybody: Sequence[str], name: str) -> Reach:
    """What `name`, one of `everybody`, has by the assignments of all, and what the others have."""
    own, others = given.get(name), [given.get(other) for other in everybody if other != name]
    near = [other for other in others if _may_meet(platform, own, other)]
    cores = _cores(platform, [own]), _cores(platform, others) if others else 0.0
    ways = _ways(platform, [own]), _ways(platform, near) if near else 0.0
    return Reach(cores[0], ways[0], cores[1], ways[1])


def _reaches_in(partition: Partition, observation: Observation, names: Sequence[str]) -> list[Reach]:
    platform, here = observation.platform, {service.name for service in observation.services}
    used = [(users, region) for region in partition.regions if (users := here.intersection(region.owners))]
    unconfined = here.difference(*(users for users, _ in used))
    quantum, divided = platform.core_quantum, platform.ways is not None
    home = {name: region.domain for users, region in used for name in users if region.domain is not UNSET}
    found: list[Reach] = []
    for name in names:
        cores = ways = beside_cores = beside_ways = 0
        for users, region in used:
            mine = name in users
            if mine:
                cores += region.cores
                ways += region.ways
            if len(users) > mine:  # others, too
                beside_cores += region.cores
                beside_ways += region.ways if name not in home or region.domain == home[name] else 0
        mine = name in unconfined
        if mine:
            cores, ways = platform.cores, platform.ways or 0
        if len(unconfined) > mine:
            beside_cores, beside_ways = platform.cores, platform.ways or 0
        if not divided:
            ways = beside_ways = NAN
        found.append(Reach(cores * quantum, ways, beside_cores * quantum, beside_ways))
    return found


def _may_meet(platform: Platform, one: Assignment | None, other: Assignment | None) -> bool:
    """Whether both can run in the same cache domain."""
    if len(platform.domains) < 2 or one is None or other is None or not (one.cpus and other.cpus):
        return True
    own, others = cpu_mask(one.cpus), cpu_mask(other.cpus)
    return any(own & inside and others & inside for inside in (cpu_mask(found.cpus) for found in platform.domains))


def _cores(platform: Platform, held: Sequence[Assignment | None]) -> float:
    """CPUs that these can use at the same time: shared ones count once, and a quota is a bound, too."""
    whole = platform.cores * platform.core_quantum
    listed = unbounded = 0  # masks: of all, and of those without a quota
    quotas, everywhere = 0.0, False
    for one in held:
        cpus = cpu_mask(one.cpus) if one is not None and one.cpus else None
        quota = None if one is None else one.cpu_quota
        if cpus is None and quota is None:
            return whole
        listed |= cpus or 0
        everywhere |= cpus is None
        if quota is None:
            unbounded |= cpus or 0
        else:
            quotas += quota
    return min(whole if everywhere else float(listed.bit_count()), quotas + unbounded.bit_count())


def _ways(platform: Platform, held: Sequence[Assignment | None]) -> float:
    if platform.ways is None:
        return NAN
    mask = 0
    for one in held:
        if one is None or one.way_mask is None:
            return float(platform.ways)
        mask |= int(one.way_mask, 16)
    return float(mask.bit_count())
