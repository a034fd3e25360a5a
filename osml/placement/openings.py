"""Which cache domains are open to a service: by room, and by the moves before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osml.domain import Observation, Service
from osml.placement.needs import idle_cpus
from osml.placement.pack import floor_of, room_of
from osml.placement.settings import Settings
from osml.placement.sites import Sites
from osml.placement.state import PlacementState


class Openings:
    """The services and the idle CPUs of each domain, and who could move where."""

    def __init__(
        self,
        observation: Observation,
        sites: Sites,
        state: PlacementState[Any],
        needs: Mapping[str, float],
        settings: Settings,
    ) -> None:
        self.inside = members(observation, state.homes, sites)
        self.idle = {domain: idle_cpus(site, self.inside[domain], needs) for domain, site in sites.items()}
        self._floor = floor_of(observation.platform, observation.services)
        self._now_s = observation.time_s
        self._sites, self._state, self._needs, self._settings = sites, state, needs, settings

    def is_open(self, service: Service, domain: int) -> bool:
        """Whether the service could move to a domain.

        Who is alone at home moves to a larger domain only. Who goes where no other LC service is, and leaves none
        behind, needs no spare CPUs: nobody else's target is at stake.
        """
        home = self._state.homes[service.name]
        if domain == home or self._stays(service, domain):
            return False
        if len(self.inside[home]) < 2 and self.size(domain) <= self.size(home):
            return False
        spare = 0.0 if self.to_itself(service, domain) else self._settings.spare_cores
        return (
            self.idle[domain] >= self._needs[service.name] + spare
            and room_of(self._sites[domain], self._floor, [*self.inside[domain], service]).fits
        )

    def to_itself(self, service: Service, domain: int) -> bool:
        """Whether it is the only LC service of its domain, and would be that of this one. Jobs yield."""
        beside = [*self.inside[self._state.homes[service.name]], *self.inside[domain]]
        return [one for one in beside if one.kind == "lc"] == [service]

    def most_cpus(self, service: Service) -> int:
        """CPUs of its home, or of the largest domain that it could have to itself."""
        home = self._state.homes[service.name]
        return max(
            self.size(domain)
            for domain in self._sites
            if domain == home or (self.to_itself(service, domain) and self.is_open(service, domain))
        )

    def size(self, domain: int) -> int:
        """CPUs of a domain."""
        return len(self._sites[domain].cpus)

    def _stays(self, service: Service, domain: int) -> bool:
        """Whether a service would come back too early, or could not move a short time ago."""
        return any(
            move.service == service.name
            and (move.undone or move.left == domain)
            and self._now_s - move.time_s < self._settings.return_s
            for move in self._state.moves
        )


def members(observation: Observation, homes: Mapping[str, int], sites: Sites) -> dict[int, list[Service]]:
    """The services of each domain, in the order of the observation. Who has no home yet is in none."""
    found: dict[int, list[Service]] = {domain: [] for domain in sites}
    for service in observation.services:
        if service.name in homes:
            found[homes[service.name]].append(service)
    return found
