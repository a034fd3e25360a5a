"""Random platforms, mixes and partitions of the virtual node."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from osml.simulator import catalogs
from osml.simulator.models import PlatformModel, ServiceModel, on_platform
from osml.simulator.state import Flow, Grant, Node
from osml.simulator.steady import steady

QUICK, LONG = 300, 100_000
"""Draws of each law in every run of the tests, and in the slow ones."""


class Case(NamedTuple):
    """A node, what its tenants may use, and the loads of its services."""

    node: Node
    grants: tuple[Grant, ...]
    loads: dict[str, float]


def made_up(rng: np.random.Generator) -> PlatformModel:
    """A machine that nobody sells: 4 to 64 CPUs with and without SMT, 4 to 20 ways."""
    base = catalogs.platform(str(rng.choice(catalogs.whole_socket_names())))
    smt = bool(rng.integers(2))
    cores = int(rng.integers(4, 33 if smt else 65))
    size = cores / base.physical_cores
    return replace(
        base, id="made-up", cpus=cores * (2 if smt else 1), physical_cores=cores, ways=int(rng.integers(4, 21)),
        way_mib=float(rng.uniform(0.5, 3.5)), bandwidth_gbps=float(rng.uniform(1.5, 6.0)) * cores,
        llc_gbps=base.llc_gbps * size, cpu_groups=bool(rng.integers(2)), eevdf=bool(rng.integers(2)),
        smt_speed=float(rng.uniform(0.5, 0.8)),
    )  # fmt: skip


def random_platform(rng: np.random.Generator) -> PlatformModel:
    if rng.random() < 0.5:
        return made_up(rng)
    return catalogs.platform(str(rng.choice(catalogs.whole_socket_names())))


def fixed_clock(platform: PlatformModel) -> PlatformModel:
    """The machine without turbo: nobody's work slows down others' clock."""
    return replace(platform, all_core_ghz=platform.frequency_ghz, turbo_ghz=platform.frequency_ghz)


def service_on(name: str, platform: PlatformModel) -> ServiceModel:
    found = next(iter(catalogs.deployments(name).values()))
    return catalogs.scaled_to(found, catalogs.platform(found.platform), platform)


def random_node(rng: np.random.Generator, platform: PlatformModel, most: int) -> Node:
    """One to five services and up to two jobs, `most` tenants at most."""
    services = int(rng.integers(1, min(5, most) + 1))
    jobs = int(rng.integers(0, min(2, most - services) + 1))
    return Node(
        platform,
        tuple(
            service_on(str(name), platform) for name in rng.choice(catalogs.service_names(), services, replace=False)
        ),
        tuple(
            on_platform(catalogs.job(str(name)), platform)
            for name in rng.choice(catalogs.job_names(), jobs, replace=False)
        ),
    )


def parts_of(rng: np.random.Generator, whole: int, parts: int) -> list[int]:
    """So many random whole numbers from 1 with this sum."""
    cuts = np.sort(rng.choice(np.arange(1, whole), parts - 1, replace=False)) if parts > 1 else np.array([], np.int64)
    return [int(x) for x in np.diff(np.concatenate([[0], cuts, [whole]]))]


def cpus_of(platform: PlatformModel, first: int, cores: int) -> frozenset[int]:
    """The CPUs of so many physical cores."""
    return frozenset(cpu for pair in platform.siblings[first : first + cores] for cpu in pair)


def mask_of(first: int, ways: int) -> int:
    return ((1 << ways) - 1) << first


def isolated(rng: np.random.Generator, platform: PlatformModel) -> Case:
    """Each tenant on physical cores and ways of its own; at least one core and one way after the last are free."""
    most = min(platform.physical_cores, platform.ways) - 1
    node = random_node(rng, platform, most)
    n = len(node.tenants)
    cores, ways = parts_of(rng, platform.physical_cores, n + 1), parts_of(rng, platform.ways, n + 1)
    grants = tuple(
        Grant(cpus_of(platform, sum(cores[:i]), cores[i]), mask_of(sum(ways[:i]), ways[i])) for i in range(n)
    )
    loads = {
        service.name: float(rng.uniform(0.02, 1.3)) * cores[i] / platform.physical_cores
        for i, service in enumerate(node.services)
    }
    return Case(node, grants, loads)


def sharing(rng: np.random.Generator, platform: PlatformModel) -> Case:
    """Tenants in up to three groups, each with CPUs and ways in common; some ways or CPUs are shared by all."""
    case = isolated(rng, platform)
    n = len(case.grants)
    group = rng.integers(0, 3, n)
    cpus_too, ways_too = bool(rng.integers(2)), bool(rng.integers(2))
    grants = list[Grant]()
    for i, grant in enumerate(case.grants):
        mates = [case.grants[j] for j in range(n) if group[j] == group[i]]
        cpus = frozenset[int]().union(*(mate.cpus for mate in mates)) if cpus_too else grant.cpus
        # the kernel of real machines takes only masks without holes
        low = min((mate.way_mask & -mate.way_mask).bit_length() - 1 for mate in mates)
        high = max(mate.way_mask.bit_length() for mate in mates)
        grants.append(replace(grant, cpus=cpus, way_mask=mask_of(low, high - low) if ways_too else grant.way_mask))
    return case._replace(grants=tuple(grants))


def settled(case: Case) -> list[Flow]:
    return steady(case.node, case.grants, case.loads)
