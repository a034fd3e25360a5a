"""How many logical CPUs a service needs by what it uses now, and how many a cache domain has left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from osml.allocation.staffing import staffed_cpus, used_cpus
from osml.domain import Observation, Partition, Service
from osml.placement.sites import Site


def needs_of(observation: Observation) -> dict[str, float]:
    """CPUs of each service: the square-root rule for services, what it uses for a job, at least the operator's minimum.

    Where CPU time is not measured, the cores that it has to itself count.
    """
    return {service.name: _need(service, observation.partition) for service in observation.services}


def _need(service: Service, partition: Partition | None) -> float:
    used = used_cpus(service)
    if used is not None:
        wanted = staffed_cpus(used) if service.kind == "lc" else used
    elif partition is not None:
        wanted = sum(region.cores for region in partition.regions if region.owners == [service.name])
    else:
        wanted = 0.0
    return max(wanted, float(service.min_cores))


def idle_cpus(site: Site, services: Iterable[Service], needs: Mapping[str, float]) -> float:
    """CPUs that services would leave idle in a domain; jobs yield down to their minimum."""
    taken = sum(needs[service.name] if service.kind == "lc" else service.min_cores for service in services)
    return len(site.cpus) - taken
