"""A node with fewer cores and ways than its platform has: what Ah-Q's authors do with taskset and CAT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from osml.base.failure import InputError
from osml.simulator import catalogs
from osml.simulator.catalogs import CatalogError
from osml.simulator.mix import Mix
from osml.simulator.models import JobModel, PlatformModel, ServiceModel
from osml.simulator.physics.cpu import frequency_ghz
from osml.simulator.state import Node, NodeInputError


def cut_down(platform: PlatformModel, cores: int | None, ways: int | None = None) -> PlatformModel:
    """The platform with so many logical CPUs and ways (None: all); the other cores of the chip are idle, not gone.

    So its lowest clock is that with these cores busy.

    Raises InputError for more than there is, none, or half a physical core.
    """
    cores = platform.cpus if cores is None else cores
    ways = platform.ways if ways is None else ways
    threads = platform.cpus // platform.physical_cores
    for name, wanted, there in (("cores", cores, platform.cpus), ("ways", ways, platform.ways)):
        if not 1 <= wanted <= there:
            raise InputError(f"{name} is {wanted}, expected 1 to {there} on {platform.id}")
    if cores % threads:
        raise InputError(f"cores is {cores}, expected an even number: {platform.id} has two per physical core")
    physical = cores // threads
    lowest = frequency_ghz(
        platform.frequency_ghz, platform.all_core_ghz, platform.turbo_ghz, platform.physical_cores, physical
    )
    return replace(platform, cpus=cores, physical_cores=physical, ways=ways, all_core_ghz=lowest)


def job_with_threads(name: str, platform: PlatformModel, threads: int | None = None) -> JobModel:
    """A BE job of the catalog with so many threads; None: as the catalog has it, but one a CPU at most.

    Raises InputError for more threads than a catalog may have.
    """
    job = catalogs.job(name)
    if threads is not None and not 1 <= threads <= catalogs.MAX_THREADS:
        raise InputError(f"threads of {name} are {threads}, expected 1 to {catalogs.MAX_THREADS}")
    return replace(job, threads=min(job.threads, platform.cpus) if threads is None else threads)


def cut_down_node(
    mix: Mix, platform_id: str, cores: int | None, ways: int | None = None, be_threads: int | None = None
) -> Node:
    """The mix on a part of a platform. Loads stay shares of what the services bear on the whole of it.

    Raises InputError, listing what is known where a name is not.
    """
    try:
        whole = catalogs.platform(platform_id)
        services = tuple(catalogs.service(name, platform_id) for name in mix.loads)
        platform = cut_down(whole, cores, ways)
        return Node(platform, services, tuple(job_with_threads(name, platform, be_threads) for name in mix.jobs))
    except (CatalogError, NodeInputError) as error:
        raise InputError(str(error)) from None


def resized_service(name: str, platform: PlatformModel) -> ServiceModel:
    """A service whose max load is what it bears on this part of a platform: scaled with cores and clock."""
    deployments = catalogs.deployments(name)
    found = deployments.get(platform.id) or next(iter(deployments.values()))
    return catalogs.scaled_to(found, catalogs.platform(found.platform), platform)


def tenants_of(names: Sequence[str], platform: PlatformModel) -> tuple[tuple[ServiceModel, ...], tuple[JobModel, ...]]:
    """LC services and BE jobs among names of the catalogs, resized to the platform. InputError lists what is known."""
    known = catalogs.service_names(), catalogs.job_names()
    for name in names:
        if not any(name in group for group in known):
            listed = "; ".join(", ".join(group) for group in known)
            raise InputError(f"unknown application '{name}', known are {listed}")
    services = tuple(resized_service(name, platform) for name in names if name in known[0])
    return services, tuple(job_with_threads(name, platform) for name in names if name not in known[0])
