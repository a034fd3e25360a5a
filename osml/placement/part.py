"""A node as the policy sees one cache domain of it, and the plans of all domains as one plan."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from osml.allocation.policy import Plan
from osml.domain import Assignment, Infeasible, Knobs, Observation, Partition, Reason, Region, Service
from osml.domain.cpulist import parse_cpulist
from osml.layout.domains import partition_in
from osml.placement.sites import Site, sharers_of_bandwidth, with_parts


def seen_in(site: Site, services: list[Service], observation: Observation, n_domains: int) -> Observation:
    """The observation of a node that has this domain and these services only, of `n_domains` that have services."""
    names = {service.name for service in services}
    n_shares = sharers_of_bandwidth(observation.platform, n_domains)
    return replace(
        observation,
        platform=with_parts(site.platform, len(services), len(observation.services), n_shares),
        services=services,
        partition=_partition_in(site, names, observation.partition),
        assignments=[one for one in observation.assignments if one.service in names and _all_inside(one, site)],
    )


def seen_whole(observation: Observation) -> Observation:
    """The observation for a policy that decides for the whole node: regions in domains say nothing to it."""
    partition = observation.partition
    return observation if partition is None or not partition.by_domain else replace(observation, partition=None)


def merged(plans: Mapping[int, Plan], said: list[Reason]) -> Plan:
    """One plan of the plans of all domains; a reason without a service says of which domain it is."""
    regions: list[Region] = []
    mba: dict[str, int] = {}
    knobs: dict[str, Knobs] = {}
    reasons = list(said)
    for domain, plan in plans.items():
        regions += [replace(region, domain=domain) for region in plan.partition.regions]
        mba |= plan.partition.mba
        knobs |= plan.partition.knobs
        reasons += [one if one.service else replace(one, text=_of(domain, one.text)) for one in plan.reasons]
    return Plan(
        Partition(regions, mba, knobs),
        reasons,
        _infeasible(plans),
        [forecast for plan in plans.values() for forecast in plan.forecasts],
    )


def _infeasible(plans: Mapping[int, Plan]) -> Infeasible | None:
    found = {domain: plan.infeasible for domain, plan in plans.items() if plan.infeasible is not None}
    if not found:
        return None
    services = [name for lack in found.values() for name in lack.services]
    return Infeasible(services, "; ".join(_of(domain, lack.message) for domain, lack in found.items()))


def _of(domain: int, text: str) -> str:
    return f"cache domain {domain}: {text}"


def _partition_in(site: Site, names: set[str], partition: Partition | None) -> Partition | None:
    """What is applied in the domain; unknown where services came to it or left it since."""
    if partition is None:
        return None
    regions = partition.by_domain.get(site.domain, [])
    if {owner for region in regions for owner in region.owners} != names:
        return None
    return partition_in(partition, site.domain)


def _all_inside(assignment: Assignment, site: Site) -> bool:
    return not assignment.cpus or site.cpus.issuperset(parse_cpulist(assignment.cpus))
