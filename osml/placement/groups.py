"""The cache groups of a node, which all its cache domains use.

The agent lets services with the same ways and the same throttle share a group, in whatever domain they are. So each
domain may divide its ways as if it had all groups, as long as all domains together need no more than there are.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from osml.allocation.policy import Plan
from osml.domain import Assignment, Observation, Platform, Service
from osml.layout import LayoutError, assign
from osml.placement.part import merged

Portion = tuple[str | None, int | None]
"""Way mask and throttle: services with the same ones share a group."""


class Groups:
    """The groups that are taken while one domain after the other is planned."""

    def __init__(self, platform: Platform, services: Sequence[Service], previous: Sequence[Assignment]) -> None:
        self._platform, self._previous = platform, previous
        room = None if platform.max_groups is None else platform.max_groups - 1
        # Everybody has a group of his own where there are enough.
        self.room = None if room is None or platform.ways is None or len(services) <= room else room
        # Kept for the domains whose services share all ways.
        self._taken: set[Portion] = {(f"{(1 << (platform.ways or 0)) - 1:x}", None)}

    def take(self, domain: int, plan: Plan, services: Sequence[Service]) -> bool:
        """False where the plan needs more groups than are left: nothing is taken then."""
        if self.room is None:
            return True
        needed = self._taken | self._portions(domain, plan, services)
        if len(needed) > self.room:
            return False
        self._taken = needed
        return True

    def _portions(self, domain: int, plan: Plan, services: Sequence[Service]) -> set[Portion]:
        partition = merged({domain: plan}, []).partition
        try:
            found = assign(partition, self._platform, services, self._previous)
        except LayoutError:  # whoever lays all domains out will say it
            return set()
        return {(one.way_mask, one.mba) for one in found}


def groups_of(observation: Observation) -> Groups:
    """The groups of a node, none of them taken yet."""
    return Groups(observation.platform, observation.services, observation.assignments)


def with_one_group(platform: Platform) -> Platform:
    """The platform of a domain whose services share all its ways and its bandwidth."""
    if platform.max_groups is None:
        return platform
    return replace(platform, max_groups=min(2, platform.max_groups), mba=None)
