"""Whatever a node is asked to grant, it stays physical: nobody uses more than there is, and latencies are in order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from osml.simulator import catalogs
from osml.simulator.engine import advance
from osml.simulator.models import PlatformModel, on_platform
from osml.simulator.state import Flow, Grant, Node, initial_state

PLATFORMS = ("e5-2697v4", "e5-2699v4", "e5-2630v4", "gold-6278c", "i7-4770k")
STEPS = 4000


def random_platform(rng: np.random.Generator) -> PlatformModel:
    return replace(catalogs.platform(str(rng.choice(PLATFORMS))), cpu_groups=bool(rng.integers(2)))


def random_node(rng: np.random.Generator, platform: PlatformModel) -> Node:
    services = []
    for name in rng.choice(catalogs.service_names(), rng.integers(1, 5), replace=False):
        found = next(iter(catalogs.deployments(str(name)).values()))
        service = catalogs.scaled_to(found, catalogs.platform(found.platform), platform)
        services.append(replace(service, threads=int(rng.integers(1, 65))))
    names = rng.choice(catalogs.job_names(), rng.integers(0, 4), replace=False)
    jobs = [replace(on_platform(catalogs.job(str(n)), platform), threads=int(rng.integers(1, 65))) for n in names]
    return Node(platform, tuple(services), tuple(jobs))


def random_grant(rng: np.random.Generator, platform: PlatformModel) -> Grant:
    cpus = int(rng.choice([platform.cpus, rng.integers(1, platform.cpus + 1)]))
    first = int(rng.integers(platform.cpus - cpus + 1))
    ways = int(rng.integers(1, platform.ways + 1))

    def often(share: float, low: float, high: float) -> float | None:
        return float(rng.uniform(low, high)) if rng.random() < share else None

    return Grant(
        frozenset(range(first, first + cpus)),
        ((1 << ways) - 1) << int(rng.integers(platform.ways - ways + 1)),
        cpu_quota=often(0.2, 0.05, cpus),
        cpu_weight=float(rng.choice([1, 10, 100, 100, 400, 10000])),
        mba_percent=often(0.4, 1, 100),
        memory_gib=often(0.2, 0.01, 8),
        disk_iops=often(0.1, 1, 500),
        network_gbps=often(0.1, 0.001, 5),
        priority=int(rng.choice([0, 0, 0, 1, 2])),
        slice_ms=often(0.2, 0.1, 100),
    )


def random_steps(seed: int) -> Iterator[tuple[Node, list[Grant], tuple[Flow, ...]]]:
    rng = np.random.default_rng(seed)
    for _ in range(STEPS // 4):
        platform = random_platform(rng)
        node = random_node(rng, platform)
        grants = [random_grant(rng, platform) for _ in node.tenants]
        state = initial_state(node)
        for _ in range(4):
            loads = {service.name: float(rng.choice([0.0, 0.001, rng.uniform(0, 1.2)])) for service in node.services}
            state, flows = advance(node, state, grants, loads, float(rng.choice([0.1, 1.0, 10.0])))
            yield node, grants, tuple(flows)


def test_a_large_machine_has_room_for_as_many_sets_of_tenants_as_it_has_cpus() -> None:
    platform = replace(catalogs.platform("e5-2697v4"), physical_cores=64, cpus=128)
    rng = np.random.default_rng(5)
    names = catalogs.service_names()[:8]
    home = catalogs.platform("e5-2697v4")
    services = tuple(catalogs.scaled_to(catalogs.service(name, home.id), home, platform) for name in names)
    grants = [
        Grant(frozenset(np.nonzero(rng.integers(2, size=128))[0].tolist()) | {0}, (1 << platform.ways) - 1)
        for _ in services
    ]
    sets = {frozenset(i for i, grant in enumerate(grants) if cpu in grant.cpus) for cpu in range(128)}
    assert len(sets) > 64
    node = Node(platform, services, ())
    _, flows = advance(node, initial_state(node), grants, dict.fromkeys(names, 0.2), 1.0)
    assert all(flow.cpu_s > 0.0 for flow in flows)


@pytest.fixture(scope="module")
def steps() -> list[tuple[Node, list[Grant], tuple[Flow, ...]]]:
    return list(random_steps(1))


def test_numbers_are_finite_and_percentiles_in_order(steps: list[tuple[Node, list[Grant], tuple[Flow, ...]]]) -> None:
    measured = 0
    for _, _, flows in steps:
        for flow in flows:
            assert all(math.isfinite(x) and x >= 0.0 for x in flow if isinstance(x, float)), flow
            if flow.p50_ms is None or flow.p95_ms is None or flow.p99_ms is None or flow.response is None:
                continue
            measured += 1
            assert 0.0 < flow.p50_ms <= flow.p95_ms * (1 + 1e-6) <= flow.p99_ms * (1 + 2e-6), flow
            assert 0.0 <= flow.response.delay_probability <= 1.0 + 1e-9
            assert 0.0 <= flow.response.wait_probability <= 1.0 + 1e-9
    assert measured > STEPS


def test_nobody_runs_on_more_cpus_than_granted(steps: list[tuple[Node, list[Grant], tuple[Flow, ...]]]) -> None:
    for node, grants, flows in steps:
        for grant, flow in zip(grants, flows, strict=True):
            assert flow.cpu_s / flow.dt <= min(len(grant.cpus), grant.cpu_quota or math.inf) * (1 + 1e-3) + 1e-6
        there = len(frozenset[int]().union(*(grant.cpus for grant in grants)))
        assert sum(flow.cpu_s / flow.dt for flow in flows) <= there * (1 + 3e-3), node


def test_nobody_moves_more_than_the_memory_or_its_throttle_lets_it(
    steps: list[tuple[Node, list[Grant], tuple[Flow, ...]]],
) -> None:
    throttled = 0
    for node, grants, flows in steps:
        most = node.platform.bandwidth_gbps * node.platform.usable_bandwidth
        moved = [flow.memory_bytes / 1e9 / flow.dt for flow in flows]
        caps = [most * (grant.mba_percent or 100.0) / 100.0 for grant in grants]
        throttled += sum(x > 0.9 * cap for x, cap, g in zip(moved, caps, grants, strict=True) if g.mba_percent)
        assert sum(moved) <= most, node
        assert all(x <= cap for x, cap in zip(moved, caps, strict=True)), node
    assert throttled > STEPS // 20
