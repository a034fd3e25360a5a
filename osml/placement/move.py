"""When a service moves to another cache domain: at most one at a time, the smallest that helps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from osml.allocation.staffing import used_cpus
from osml.domain import Observation, Reason, Service
from osml.placement.openings import Openings
from osml.placement.settings import Settings
from osml.placement.sites import Sites
from osml.placement.state import PlacementState


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
    """
    if any(observation.time_s - move.time_s < settings.pause_s for move in state.moves):
        return None
    openings = Openings(observation, sites, state, needs, settings)
    idle = openings.idle
    targets = [domain for domain in sites if state.held.get(domain, 0) >= settings.held]
    for source in sorted(sites, key=lambda domain: (-state.missed.get(domain, 0), domain)):
        if state.missed.get(source, 0) < settings.missed:
            continue
        for service in _candidates(openings.inside[source], needs, lack=-idle[source]):
            open_to = [domain for domain in targets if openings.is_open(service, domain)]
            if open_to:
                target = max(open_to, key=lambda domain: (idle[domain], -domain))
                text = (
                    f"{service.name} moves to cache domain {target}: domain {source} has missed targets for "
                    f"{state.missed[source]} intervals, domain {target} has {idle[target]:.1f} idle CPUs"
                )
                return Wanted(service.name, source, target, Reason(text=text, service=service.name))
    return None


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
