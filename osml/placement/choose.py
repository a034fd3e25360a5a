"""Into which cache domain a service goes that is in none yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from osml.domain import Observation, Reason, Service
from osml.domain.cpulist import parse_cpulist
from osml.placement.pack import Room, floor_of, packed, room_of
from osml.placement.sites import Sites


class Homes(NamedTuple):
    """The domain of each service, why the new ones are where they are, and why there can be none, where so."""

    at: dict[str, int]
    said: list[Reason]
    none: str | None = None


def with_homes(observation: Observation, sites: Sites, homes: Mapping[str, int], needs: Mapping[str, float]) -> Homes:
    """A home for everybody.

    Who has all CPUs inside one domain stays there. The others follow, services before jobs and the largest need first,
    each into the domain with the most room. Where the operator's minimums do not fit so, those decide.
    """
    found = dict(homes)
    reasons: list[Reason] = []
    new = [service for service in observation.services if service.name not in found]
    held = _held_cpus(observation) if new else {}
    for service in new:
        at = _domain_with(held.get(service.name), sites)
        if at is not None:
            found[service.name] = at
            reasons.append(_said(service, at, "it has all its CPUs there"))
    rooms = _Rooms(observation, sites, found, needs)
    left = [service for service in new if service.name not in found]
    for service in sorted(left, key=lambda one: (one.kind != "lc", -needs[one.name], one.name)):
        at = rooms.best(service)
        why = f"it has the most room, {max(0.0, rooms.idle[at]):.1f} idle CPUs"
        rooms.take(service, at)
        found[service.name] = at
        reasons.append(_said(service, at, why))
    if all(room.fits for room in rooms.least.values()):
        return Homes(found, reasons)
    return _by_minimums(observation.services, sites, homes, Homes(found, reasons))


def _by_minimums(services: list[Service], sites: Sites, homes: Mapping[str, int], wished: Homes) -> Homes:
    """Homes in which the minimums fit: if possible, nobody who has one already moves."""
    found = packed(services, sites, wished.at, set(homes)) or packed(services, sites, wished.at, set())
    if found is None:
        return Homes(dict(homes), [], "the operator's minimums do not fit its cache domains")
    changed = [service for service in services if homes.get(service.name) != found[service.name]]
    return Homes(found, [_said(one, found[one.name], "the operator's minimums fit so") for one in changed])


class _Rooms:
    """What is left in each domain while services are placed one after the other."""

    def __init__(
        self, observation: Observation, sites: Sites, homes: Mapping[str, int], needs: Mapping[str, float]
    ) -> None:
        self._needs = needs
        floor = floor_of(observation.platform, observation.services)
        self.idle = {domain: float(len(site.cpus)) for domain, site in sites.items()}
        self.least: dict[int, Room] = {domain: room_of(site, floor) for domain, site in sites.items()}
        self._count = dict.fromkeys(sites, 0)
        for service in observation.services:
            if service.name in homes:
                self.take(service, homes[service.name])

    def best(self, service: Service) -> int:
        """The domain with the most room among those that have the operator's minimum, if any has."""

        def value(domain: int) -> tuple[bool, float, int, int]:
            fits = self.least[domain].without(service).fits
            return fits, self.idle[domain], -self._count[domain], -domain

        return max(self.idle, key=value)

    def take(self, service: Service, domain: int) -> None:
        """The service is there now. A job takes no more than what is left."""
        need = self._needs[service.name]
        self.idle[domain] -= need if service.kind == "lc" else min(need, max(0.0, self.idle[domain]))
        self.least[domain] = self.least[domain].without(service)
        self._count[domain] += 1


def _held_cpus(observation: Observation) -> dict[str, frozenset[int]]:
    return {one.service: frozenset(parse_cpulist(one.cpus)) for one in observation.assignments if one.cpus}


def _domain_with(cpus: frozenset[int] | None, sites: Sites) -> int | None:
    """The domain that has all of these CPUs."""
    if not cpus:
        return None
    return next((domain for domain, site in sites.items() if site.cpus.issuperset(cpus)), None)


def _said(service: Service, domain: int, why: str) -> Reason:
    return Reason(text=f"{service.name} is placed in cache domain {domain}: {why}", service=service.name)
