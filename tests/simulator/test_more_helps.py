"""More of anything helps a service, and more work hurts it: laws over random nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from osml.simulator import catalogs
from osml.simulator.models import JobModel, PlatformModel, on_platform
from osml.simulator.state import Flow, Grant
from tests.kit.random_nodes import (
    LONG,
    QUICK,
    Case,
    fixed_clock,
    isolated,
    mask_of,
    random_platform,
    service_on,
    settled,
    sharing,
)

Pair = tuple[Case, Case]
"""Two cases. The first service of the second must not have the longer p99, by the law that drew them."""


def with_grant(case: Case, grant: Grant) -> Case:
    """The case with another grant for the first service."""
    return case._replace(grants=(grant, *case.grants[1:]))


def on(case: Case, platform: PlatformModel) -> Case:
    """The same tenants with the same requests/s on another machine."""
    return case._replace(node=replace(case.node, platform=platform))


def free_part(case: Case) -> tuple[frozenset[int], int]:
    """(CPUs, ways) of physical cores and ways that nobody may use."""
    used = frozenset[int]().union(*(grant.cpus for grant in case.grants))
    taken = 0
    for grant in case.grants:
        taken |= grant.way_mask
    cores = [pair for pair in case.node.platform.siblings if used.isdisjoint(pair)]
    return frozenset(cpu for pair in cores for cpu in pair), mask_of(0, case.node.platform.ways) & ~taken


def first_free_core(case: Case) -> frozenset[int]:
    cpus, _ = free_part(case)
    first = min(cpus)
    sibling = case.node.platform.sibling(first)
    return frozenset([first] if sibling is None else [first, sibling])


def first_free_way(case: Case) -> int:
    _, ways = free_part(case)
    return ways & -ways


def without_jobs(case: Case) -> Case:
    services = len(case.node.services)
    return case._replace(node=replace(case.node, jobs=()), grants=case.grants[:services])


def another(rng: np.random.Generator, names: list[str], taken: list[str]) -> str:
    return str(rng.choice([name for name in names if name not in taken]))


# -- laws: each returns (before, after); the first service's p99 must not be longer after -----------------------------


def one_core_more(rng: np.random.Generator, platform: PlatformModel) -> Pair:
    # A whole physical core: a lone hyperthread slows down its sibling, which may well cost more than it brings.
    case = isolated(rng, platform)
    return case, with_grant(case, replace(case.grants[0], cpus=case.grants[0].cpus | first_free_core(case)))


def one_way_more(rng: np.random.Generator, platform: PlatformModel) -> Pair:
    case = isolated(rng, platform)
    return case, with_grant(case, replace(case.grants[0], way_mask=case.grants[0].way_mask | first_free_way(case)))


def more_bandwidth(rng: np.random.Generator, platform: PlatformModel) -> Pair:
    # With a cache that is never busy: jobs that wait less for the memory use that more, which all share.
    platform = replace(platform, llc_gbps=1e6)
    case = isolated(rng, platform)
    return case, on(case, replace(platform, bandwidth_gbps=platform.bandwidth_gbps * float(rng.uniform(1.02, 2.0))))


def higher_own_clock(rng: np.random.Generator, platform: PlatformModel) -> Pair:
    case = isolated(rng, platform)
    clock = float(rng.uniform(0.5, 1.0)) * platform.turbo_ghz
    faster = clock * float(rng.uniform(1.01, 1.5))
    slow, fast = (replace(case.grants[0], frequency_ghz=ghz) for ghz in (clock, faster))
    return with_grant(case, slow), with_grant(case, fast)


def higher_clock(rng: np.random.Generator, platform: PlatformModel) -> Pair:
    # Without jobs, and where nobody has a backlog: these would take more bandwidth with a higher clock.
    case = without_jobs(isolated(rng, platform))
    while any(flow.utilisation > 1.0 for flow in settled(case)):
        case = without_jobs(isolated(rng, platform))
    k = float(rng.uniform(1.01, 1.5))
    return case, on(
        case,
        replace(
            platform, frequency_ghz=platform.frequency_ghz * k, all_core_ghz=platform.all_core_ghz * k,
            turbo_ghz=platform.turbo_ghz * k,
        ),
    )  # fmt: skip


def less_load(rng: np.random.Generator, platform: PlatformModel) -> Pair:
    case = isolated(rng, platform)
    name = case.node.services[0].name
    more = min(2.0, case.loads[name] * float(rng.uniform(1.005, 1.5)))
    return case._replace(loads=case.loads | {name: more}), case


def one_job_fewer(rng: np.random.Generator, platform: PlatformModel) -> Pair:
    case = isolated(rng, platform)
    job: JobModel = on_platform(catalogs.job(another(rng, catalogs.job_names(), case.node.names)), platform)
    crowded = replace(case.node, jobs=(*case.node.jobs, job))
    return case._replace(node=crowded, grants=(*case.grants, Grant(*free_part(case)))), case


def one_neighbour_fewer(rng: np.random.Generator, platform: PlatformModel) -> Pair:
    case = isolated(rng, platform)
    service = service_on(another(rng, catalogs.service_names(), case.node.names), platform)
    cpus, ways = free_part(case)
    n = len(case.node.services)
    load = float(rng.uniform(0.02, 1.0)) * len(cpus) / platform.cpus
    return Case(
        replace(case.node, services=(*case.node.services, service)),
        (*case.grants[:n], Grant(cpus, ways), *case.grants[n:]),
        case.loads | {service.name: load},
    ), case


def one_core_more_for_all_sharers(rng: np.random.Generator, platform: PlatformModel) -> Pair:
    # Services only, and no full memory: jobs, and a service with a backlog, move more through it with the core that
    # they get, too, and insert more into a shared cache.
    case = without_jobs(sharing(rng, platform))
    while memory_is_full(case):
        case = without_jobs(sharing(rng, platform))
    mine, more = case.grants[0].cpus, first_free_core(case)
    return case, case._replace(
        grants=tuple(replace(g, cpus=g.cpus | more) if g.cpus == mine else g for g in case.grants)
    )


def one_way_more_for_all_sharers(rng: np.random.Generator, platform: PlatformModel) -> Pair:
    case = without_jobs(sharing(rng, platform))
    mine, more = case.grants[0].way_mask, first_free_way(case)
    return case, case._replace(
        grants=tuple(replace(g, way_mask=g.way_mask | more) if g.way_mask == mine else g for g in case.grants)
    )


LAWS: tuple[Callable[[np.random.Generator, PlatformModel], Pair], ...] = (
    one_core_more, one_way_more, more_bandwidth, higher_own_clock, higher_clock, less_load, one_job_fewer,
    one_neighbour_fewer, one_core_more_for_all_sharers, one_way_more_for_all_sharers,
)  # fmt: skip

TOLERANCE = 0.02


def memory_is_short(case: Case) -> bool:
    """Whether pages go to the disk. More load then touches them more often, and rightly more of them stay."""
    wanted = sum(tenant.memory.footprint_mib for tenant in case.node.tenants) / 1024.0
    return wanted > case.node.platform.memory_gib - case.node.platform.reserved_gib


def near_saturation(flow: Flow) -> bool:
    """Whether the laws are known to be broken, where requests take more than a few milliseconds.

    Below saturation the p99 has all that chance does to a queue. Beyond it the node gives the backlog of the mean, and
    little of what chance makes of it until that is long (test_a_service_of_seconds_... in test_transients.py).
    """
    return 0.9 < flow.utilisation < 2.0


def memory_is_full(case: Case) -> bool:
    platform = case.node.platform
    moved = sum(flow.memory_bytes for flow in settled(case)) / 1e9
    return moved > 0.9 * platform.bandwidth_gbps * platform.usable_bandwidth


def broken(law: Callable[[np.random.Generator, PlatformModel], Pair], draws: int, seed: int) -> Iterator[str]:
    """A line for each draw that breaks the law."""
    rng, looked_at = np.random.default_rng(seed), 0
    for draw in range(draws):
        platform = random_platform(rng)
        before, after = law(rng, fixed_clock(platform) if rng.random() < 0.3 else platform)
        if memory_is_short(before) or memory_is_short(after):
            continue
        first, second = settled(before)[0], settled(after)[0]
        if near_saturation(first) or near_saturation(second):
            continue
        looked_at += 1
        assert first.p99_ms is not None
        assert second.p99_ms is not None
        if second.p99_ms > first.p99_ms * (1.0 + TOLERANCE):
            yield f"draw {draw}: {first.p99_ms:.4g} ms -> {second.p99_ms:.4g} ms, {before} -> {after}"
    assert looked_at > draws / 2


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_more_helps_and_more_work_hurts(law: Callable[[np.random.Generator, PlatformModel], Pair]) -> None:
    assert not list(broken(law, QUICK, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_more_helps_and_more_work_hurts_in_many_draws(
    law: Callable[[np.random.Generator, PlatformModel], Pair],
) -> None:
    # Rare circumstances that a comment above does not name are worth a look, but no failure.
    found = list(broken(law, LONG, seed=2))
    assert len(found) <= LONG // 20_000, found
