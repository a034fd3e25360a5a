"""Best effort as Heracles sees it: everybody but the LC service, in one region, with one clock and one egress limit."""

from __future__ import annotations

from collections.abc import Sequence

from osml.allocation.clocks import clocks_of
from osml.allocation.division import Division
from osml.allocation.holding import POOL
from osml.allocation.regions import with_knob
from osml.domain import Observation, Partition, Resource, Service

FIRST_CORES, FIRST_LLC = 1, 0.10  # what best effort starts with (ISCA 2015, section 4.3)


class BestEffort:
    """What the others hold during one decision; what they lose the LC service gets, and the other way round.

    `network_mbps` is what they may send together, None = no limit.
    """

    def __init__(
        self, observation: Observation, division: Division, lc: str, network_mbps: int | None, before: Partition | None
    ) -> None:
        self.platform, self.division, self.lc = observation.platform, division, lc
        self.services: list[Service] = [service for service in observation.services if service.name != lc]
        self.names = [service.name for service in self.services]
        self.network_mbps = network_mbps
        self.clocks = clocks_of(self.platform, self.names, before, turbo=True)

    def __str__(self) -> str:
        """Best effort by name."""
        return f"be:{','.join(self.names)}" if self.names else "idle"

    def partition(self) -> Partition:
        """Regions, and the clocks and the network of best effort in equal parts."""
        partition = self.division.partition()
        if self.clocks is not None:
            partition = with_knob(partition, "frequency_mhz", self.clocks.limits())
        link = self.platform.network_mbps
        if link is None or self.network_mbps is None or not 0 < link.min * len(self.names) <= link.max:
            return partition
        share = max(link.min, self.network_mbps // len(self.names))
        return with_knob(partition, "network_mbps", dict.fromkeys(self.names, share))

    def allot(self) -> None:
        """What best effort starts with: one core, a tenth of the cache, any clock."""
        if not self.names:
            self.give_up()
            return
        self.resize("cores", FIRST_CORES * self.core_units)
        self.resize("ways", max(self.platform.min_way_bits, round(FIRST_LLC * (self.platform.ways or 0))))
        if self.clocks is not None:
            self.clocks = self.clocks._replace(rungs=dict.fromkeys(self.names, len(self.clocks.ladder) - 1))
        self.network_mbps = None

    def suspend(self) -> None:
        """The fewest resources: a service can't be stopped without failing its requests, so nobody is."""
        for resource, holding in self.division.holdings.items():
            self.resize(resource, holding.pool_floor)
        if self.clocks is not None:
            self.clocks = self.clocks._replace(rungs=dict.fromkeys(self.names, 0))
        self.network_mbps = None if self.platform.network_mbps is None else 0

    def give_up(self) -> None:
        """Everything for the LC service, where it is alone."""
        for resource in self.division.resources:
            self.resize(resource, 0)

    def resize(self, resource: Resource, units: int) -> None:
        """So many units for best effort, or as near to that as limits allow."""
        holding = self.division.holdings.get(resource)
        if holding is None:
            return
        at_once = holding.moved(self.lc, POOL, units - holding.pool)
        if at_once is not None:
            self.division.holdings[resource] = at_once
            return
        giver, taker = (self.lc, POOL) if units > holding.pool else (POOL, self.lc)
        for _ in range(abs(units - holding.pool)):
            if not self.division.move(resource, giver, taker, 1):
                return

    def grow(self, resource: Resource) -> bool:
        """One way, or one core in as many units as it has; False where nothing could be moved."""
        return self.division.move(resource, self.lc, POOL) > 0

    def shrink(self, resource: Resource, units: int) -> int:
        """Give up to so many units back; returns how many it was."""
        return self.division.move(resource, POOL, self.lc, max(0, units))

    def turn_clock(self, rungs: int) -> bool:
        """All of best effort so many rungs faster or slower; False where nobody's clock could be moved."""
        moved = False
        for name in self.names:
            after = None if self.clocks is None else self.clocks.moved(name, rungs)
            if after is not None:
                self.clocks, moved = after, True
        return moved

    def units(self, resource: Resource) -> int:
        """What best effort holds."""
        holding = self.division.holdings.get(resource)
        return 0 if holding is None else holding.pool

    @property
    def core_units(self) -> int:
        """Units of one core."""
        return self.division.core_units

    def gbps_per_unit(self) -> float:
        """Memory traffic of best effort for each core unit that it has."""
        total = sum(service.counters.bandwidth_gbps or 0.0 for service in self.services)
        return total / max(1, self.units("cores"))

    def rate(self) -> float | None:
        """Instructions of best effort in the interval: whether it has a benefit; None where not measured."""
        return total([service.counters.instructions for service in self.services])


def total(values: Sequence[float | None]) -> float | None:
    """The sum; None where one of the values is not measured."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
