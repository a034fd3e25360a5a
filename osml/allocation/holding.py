"""One resource while a policy divides it: what single services own, and the pool that holds the rest.

PARTIES' pool is the BE jobs' region (or idle where there are none), ARQ's is the region that everybody shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from osml.allocation.fair import equal_split
from osml.allocation.limits import Limits, Scale
from osml.domain import Resource

POOL = ""  # the pool in the place of a service's name; no service can be called so


class Holding(NamedTuple):
    """Units of one resource. `own` has an entry for each service that may own some; `sharers` use the pool.

    With a `pool_floor` the pool never becomes smaller than that; without sharers it is idle. A unit of what is neither
    cores nor ways is worth its `scale`.
    """

    resource: Resource
    total: int
    own: Mapping[str, int]
    sharers: tuple[str, ...]
    limits: Mapping[str, Limits]
    pool_floor: int = 0
    scale: Scale | None = None

    @property
    def pool(self) -> int:
        """Units that nobody owns alone."""
        return self.total - sum(self.own.values())

    @property
    def region(self) -> int:
        """Units of the pool that its sharers use: all of it, up to the smallest of their limits; the rest is idle."""
        return min([self.pool, *(self.limits[name].most for name in self.sharers)]) if self.sharers else 0

    def moved(self, giver: str, taker: str, units: int = 1) -> Holding | None:
        """The holding after a transfer; None where it would break a limit (or nothing is left to give)."""
        own = dict(self.own)
        for owner, change in ((giver, -units), (taker, units)):
            if owner != POOL:
                own[owner] = own.get(owner, 0) + change
        after = self._replace(own=own)
        return after if after.legal else None

    @property
    def legal(self) -> bool:
        """True where the pool keeps its floor, and everybody reaches what the limits say."""
        pool, region = self.pool, self.region
        if pool < self.pool_floor or min(self.own.values(), default=0) < 0:
            return False
        for name, limits in self.limits.items():
            reach = self.own.get(name, 0) + (region if name in self.sharers else 0)
            if not limits.least <= reach <= limits.most:
                return False
        return True


def fair_holding(holding: Holding) -> Holding:
    """Equal parts for everybody; those of the sharers go into the pool together."""
    owners = [name for name in holding.own if name not in holding.sharers]
    parts = equal_split(holding.total, [*owners, *holding.sharers], holding.limits)
    return holding._replace(own={name: parts[name] if name in owners else 0 for name in holding.own})


def resumed(holding: Holding, before: Mapping[str, int]) -> Holding | None:
    """What was before, for the services of now: the vanished give back, newcomers get a fair part of what is free.

    Where that is not enough for everybody's least, the richest give. None where it can't be made to fit.
    """
    floor = {name: 0 if name in holding.sharers else holding.limits[name].least for name in holding.own}
    own = {
        name: _bounded(before.get(name, floor[name]), floor[name], holding.limits[name].most) for name in holding.own
    }
    after = holding._replace(own=own)
    while not after.legal:
        richest = max(own, key=lambda name: (own[name] - floor[name], name), default=None)
        if richest is None or own[richest] <= floor[richest]:
            return None
        own[richest] -= 1
        after = holding._replace(own=own)
    fair = holding.total // max(1, len(holding.limits))
    for name in own:
        while name not in before and name not in holding.sharers and after.own[name] < fair:
            more = after.moved(POOL, name)
            if more is None or (holding.sharers and more.pool < fair):
                break
            after = more
    return after


def _bounded(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
