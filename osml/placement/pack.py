"""The operator's minimums in each cache domain: whether they fit, and a placement in which they do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from osml.domain import Platform, Service
from osml.placement.sites import Site, Sites

MOST_STEPS = 2000
"""Services that a search puts somewhere before it gives up: a decision has to stay fast."""
NO_LIMIT = 1 << 40  # of ways, where ways are not divided


class Room(NamedTuple):
    """Cores and ways of a domain beyond the minimums of its services; negative where they do not fit.

    `floor`: ways that every service takes.
    """

    cores: int
    ways: int
    floor: int = 1

    def without(self, service: Service) -> Room:
        """What is left once the service is there, too."""
        return Room(self.cores - service.min_cores, self.ways - max(service.min_ways, self.floor), self.floor)

    @property
    def fits(self) -> bool:
        """Whether all minimums are met."""
        return self.cores >= 0 and self.ways >= 0


def floor_of(platform: Platform, services: Iterable[Service]) -> int:
    """Ways that every service takes beside one that asks for more than a mask has at least.

    Where nobody asks for more, services can share ways, and the least mask is no minimum of each.
    """
    asks = any(service.min_ways > platform.min_way_bits for service in services)
    return platform.min_way_bits if asks else 1


def room_of(site: Site, floor: int, services: Iterable[Service] = ()) -> Room:
    """The room of a domain in which these services are. Where ways are not divided, their minimums do not count."""
    room = Room(len(site.cpus), NO_LIMIT if site.platform.ways is None else site.platform.ways, floor)
    for service in services:
        room = room.without(service)
    return room


def packed(services: list[Service], sites: Sites, homes: Mapping[str, int], keep: set[str]) -> dict[str, int] | None:
    """Homes in which all minimums fit, as close to `homes` as a short search finds; those of `keep` do not change.

    None where there are none, or the search takes too long.
    """
    floor = floor_of(next(iter(sites.values())).platform, services)
    rooms = {domain: room_of(site, floor) for domain, site in sites.items()}
    for service in services:
        if service.name in keep:
            rooms[homes[service.name]] = rooms[homes[service.name]].without(service)
    if not all(room.fits for room in rooms.values()):
        return None
    open_ones = [one for one in services if one.name not in keep]
    order = sorted(open_ones, key=lambda one: (-one.min_cores, -one.min_ways, one.name))
    found = _Search(order, homes).run(rooms)
    return None if found is None else {name: homes[name] for name in keep} | found


class _Search:
    """Puts one service after the other into a domain that has its minimum, and goes back where one finds none."""

    def __init__(self, order: list[Service], homes: Mapping[str, int]) -> None:
        self._order, self._homes, self._steps = order, homes, 0

    def run(self, rooms: dict[int, Room], at: int = 0) -> dict[str, int] | None:
        if at == len(self._order):
            return {}
        service = self._order[at]
        tried: set[Room] = set()
        home = self._homes.get(service.name)
        for domain in sorted(rooms, key=lambda one: (one != home, -rooms[one].cores, -rooms[one].ways, one)):
            left = rooms[domain].without(service)
            self._steps += 1
            if self._steps > MOST_STEPS:
                return None
            if not left.fits or left in tried:  # a domain with the same room would lead to the same
                continue
            tried.add(left)
            found = self.run(rooms | {domain: left}, at + 1)
            if found is not None:
                return found | {service.name: domain}
        return None
