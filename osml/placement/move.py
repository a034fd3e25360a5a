"""When a service moves to another cache domain: at most one at a time, the smallest that helps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from osml.allocation.staffing import used_cpus
from osml.domain import Observation, Reason, Service
from osml.placement.needs import idle_cpus
from osml.placement.pack import floor_of, room_of
from osml.placement.settings import Settings
from osml.placement.sites import Sites
from osml.placement.state import Move, PlacementState


class Wanted(NamedTuple):
    """A move, and why."""

    service: str
    source: int
    target: int
    reason: Reason


def wanted_move(
    observation: Observation, sites: Sites, state: PlacementState[Any], needs: Mapping[str, float], settings: Settings
) -> Wanted | None:
    """The move that is due; None where all may stay, or have to for now.

    A domain that has missed targets for a while gives a service to one that has met all its own and has room for it.
    A service that is alone goes to a larger domain only, and to one without services without the spare CPUs.
    """
    now_s = observation.time_s
    if any(now_s - move.time_s < settings.pause_s for move in state.moves):
        return None
    inside = members(observation, state.homes, sites)
    floor = floor_of(observation.platform, observation.services)
    idle = {domain: idle_cpus(site, inside[domain], needs) for domain, site in sites.items()}
    targets = [domain for domain in sites if state.held.get(domain, 0) >= settings.held]
    for source in sorted(sites, key=lambda domain: (-state.missed.get(domain, 0), domain)):
        alone = len(inside[source]) < 2
        if state.missed.get(source, 0) < settings.missed:
            continue
        for service in _candidates(inside[source], needs, lack=-idle[source]):
            open_to = [
                domain for domain in targets
                if domain != source and room_of(sites[domain], floor, [*inside[domain], service]).fits
                and not (alone and len(sites[domain].cpus) <= len(sites[source].cpus))
                and not _stays(service, domain, state.moves, settings, now_s)
            ]  # fmt: skip
            target = max(open_to, key=lambda domain: (idle[domain], -domain), default=None)
            spare = 0.0 if alone and target is not None and not inside[target] else settings.spare_cores
            if target is not None and idle[target] >= needs[service.name] + spare:
                text = (
                    f"{service.name} moves to cache domain {target}: domain {source} has missed targets for "
                    f"{state.missed[source]} intervals, domain {target} has {idle[target]:.1f} idle CPUs"
                )
                return Wanted(service.name, source, target, Reason(text=text, service=service.name))
    return None


def members(observation: Observation, homes: Mapping[str, int], sites: Sites) -> dict[int, list[Service]]:
    """The services of each domain, in the order of the observation."""
    found: dict[int, list[Service]] = {domain: [] for domain in sites}
    for service in observation.services:
        found[homes[service.name]].append(service)
    return found


def _candidates(services: list[Service], needs: Mapping[str, float], lack: float) -> Iterator[Service]:
    """Who may go, the best first: the smallest job that helps, the smallest service that does, then the largest.

    Helping is to free the CPUs that the services lack; where they lack none, cache and bandwidth, which all free.
    """
    order = sorted(services, key=lambda one: (one.kind == "lc", needs[one.name], one.name))
    for service in order:
        freed = needs[service.name] if service.kind == "lc" else used_cpus(service) or 0.0
        if freed >= lack:
            yield service
    for service in reversed(order):
        if service.kind == "lc" and needs[service.name] < lack:
            yield service


def _stays(service: Service, domain: int, moves: list[Move], settings: Settings, now_s: float) -> bool:
    """Whether a service would come back too early, or could not move a short time ago."""
    return any(
        move.service == service.name
        and (move.undone or move.left == domain)
        and now_s - move.time_s < settings.return_s
        for move in moves
    )
