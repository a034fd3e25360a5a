"""Machines that no catalog has: from 8 to 128 CPUs, with a catalog machine's clock and the rest in proportion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from osml.simulator import catalogs
from osml.simulator.models import PlatformModel, ServiceModel
from osml.simulator.state import Node
from osml.simulator.variation.spread import log_uniform

SIZES = (8, 16, 24, 32, 48, 64, 96, 128)
MOST_SERVICES = 30
_LIKE = ("e5-2697v4", "gold-5220r", "gold-6338")
"""Machines with hyperthreads, of 11 to 20 ways and 8 to 16 cache groups."""

_CPUS_A_SERVICE = 3
_BUSY = (0.3, 0.6)
"""CPU time that all services together want, of what the machine has (beside jobs: times BESIDE_JOBS)."""

BESIDE_JOBS = 0.6
_LEAST_LOAD, _MOST_LOAD = 0.02, 0.9


def made_platform(like: str, cpus: int) -> PlatformModel:
    """A machine with so many CPUs: cache, bandwidth, memory, disk and network in proportion to a catalog machine's."""
    model = catalogs.platform(like)
    ratio = cpus / model.cpus
    return replace(
        model,
        id=f"like-{like}-{cpus}",
        cpus=cpus,
        physical_cores=cpus // 2,
        way_mib=model.way_mib * ratio,
        bandwidth_gbps=model.bandwidth_gbps * ratio,
        llc_gbps=model.llc_gbps * ratio,
        memory_gib=model.memory_gib * ratio,
        reserved_gib=model.reserved_gib * min(ratio, 1.0),
        disk_iops=model.disk_iops * ratio,
        disk_mbps=model.disk_mbps * ratio,
        network_gbps=model.network_gbps * ratio,
    )


def hosted(name: str, platform: PlatformModel) -> ServiceModel:
    """A service of the catalog on another machine, with no more threads than at home.

    A larger machine has more services, not larger ones.
    """
    home = catalogs.service(name)
    scaled = catalogs.scaled_to(home, catalogs.platform(home.platform), platform)
    return replace(
        scaled,
        threads=min(home.threads, platform.cpus),
        memory=replace(home.memory, footprint_mib=min(home.memory.footprint_mib, _share_mib(platform))),
    )


def _share_mib(platform: PlatformModel) -> float:
    """Memory for one of MOST_SERVICES: whether data fits in memory is not what these machines ask."""
    return (platform.memory_gib - platform.reserved_gib) * 1024.0 / (MOST_SERVICES + 2)


def drawn_machine(names: tuple[str, ...], beside_jobs: bool, rng: np.random.Generator) -> tuple[Node, dict[str, float]]:
    """A machine with services of these names (some more than once) and their loads, shares of what each bears."""
    platform = made_platform(str(rng.choice(_LIKE)), int(rng.choice(SIZES)))
    most = min(MOST_SERVICES, platform.cpus // _CPUS_A_SERVICE)
    count = round(log_uniform(rng, 1.0, most + 0.49))
    chosen = [str(name) for name in rng.choice(names, count)]
    services = tuple(replace(hosted(name, platform), name=f"{name}-{i}") for i, name in enumerate(chosen, start=1))
    busy = float(rng.uniform(*_BUSY)) * (BESIDE_JOBS if beside_jobs else 1.0)
    weights = rng.dirichlet(np.full(count, 3.0)).tolist()
    loads: dict[str, float] = {}
    for name, service, weight in zip(chosen, services, weights, strict=True):
        home = catalogs.service(name)
        whole = home.max_load * catalogs.throughput_ratio(catalogs.platform(home.platform), platform)
        of_machine = service.max_load / whole
        loads[service.name] = round(min(max(busy * weight / of_machine, _LEAST_LOAD), _MOST_LOAD), 3)
    return Node(platform, services), loads
