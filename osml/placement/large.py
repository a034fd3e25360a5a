"""Services that are too large for any cache domain: for them the node is divided as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from osml.allocation.staffing import used_cpus
from osml.domain import Observation, Service
from osml.placement.openings import Openings
from osml.placement.settings import Settings
from osml.placement.sites import Sites
from osml.placement.state import Large, PlacementState


def too_large(
    observation: Observation, sites: Sites, state: PlacementState[Any], needs: Mapping[str, float], settings: Settings
) -> tuple[dict[str, Large], str | None]:
    """Services that fit no domain by what they use or need; and that in words.

    A job is as large as the room that it gets, so only its operator's minimum counts.
    """
    most = max(len(site.cpus) for site in sites.values())
    openings = Openings(observation, sites, state, needs, settings)
    found: dict[str, Large] = {}
    for service in observation.services:
        if service.name in state.large:
            n_cpus = openings.most_cpus(service) if service.name in state.homes else most
            still = _still(state.large[service.name], service, needs, n_cpus, settings)
            if still is not None:
                found[service.name] = still
        elif _outgrows(service, openings, state, needs, settings):
            found[service.name] = Large()
    return found, _said(observation, found, most)


def _said(observation: Observation, found: Mapping[str, Large], most: int) -> str | None:
    for service in observation.services:
        if service.min_cores > most:
            return (
                f"the node is divided as a whole: {service.name} has min_cores {service.min_cores}, "
                f"the largest cache domain has {most} CPUs"
            )
    if not found:
        return None
    names = ", ".join(sorted(found))
    return f"the node is divided as a whole: {names} is too large for a cache domain, the largest has {most} CPUs"


def _still(large: Large, service: Service, needs: Mapping[str, float], n_cpus: int, settings: Settings) -> Large | None:
    """What is known of a service that was too large; None once it has fitted, or was not measured, for long enough."""
    used = used_cpus(service)
    if used is None:
        now = Large(large.fits, large.unseen + 1)
    elif used <= settings.fits * n_cpus and needs[service.name] <= n_cpus:
        now = Large(large.fits + 1)
    else:
        now = Large()
    return None if max(now.fits, now.unseen) >= settings.fitting else now


def _outgrows(
    service: Service,
    openings: Openings,
    state: PlacementState[Any],
    needs: Mapping[str, float],
    settings: Settings,
) -> bool:
    """Whether it is alone with jobs in a domain that misses its target, and more than a domain would help."""
    home, used = state.homes.get(service.name), used_cpus(service)
    if service.kind != "lc" or home is None or used is None or state.missed.get(home, 0) < settings.missed:
        return False
    if any(one.kind == "lc" and one is not service for one in openings.inside[home]):
        return False
    n_cpus = openings.most_cpus(service)
    return used >= settings.full * n_cpus or needs[service.name] > n_cpus
