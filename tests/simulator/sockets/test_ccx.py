"""Cache domains of one socket: they share its memory, each behind a link of its own, and nothing is lost or made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from osml.domain import MbaRange
from osml.simulator import catalogs, engine
from osml.simulator.board import cpus_of, domain_count, whole_platform
from osml.simulator.columns import S_BACKLOG
from osml.simulator.models import JobModel, PlatformModel, on_platform
from osml.simulator.node_platform import board_platform
from osml.simulator.sockets import BoardState, advance, initial
from osml.simulator.state import Flow, Grant, Node, NodeInputError, initial_state
from tests.kit.random_nodes import random_node

MILAN, ROME = catalogs.platform("epyc-7763"), catalogs.platform("epyc-7742")
MOSES, XAPIAN = (catalogs.service(name, MILAN.id) for name in ("moses", "xapian"))
STREAM = on_platform(catalogs.job("stream"), MILAN)
ALL_WAYS = 0xFFFF


def in_domain(number: int, first: int = 0, last: int | None = None, sockets: int = 1) -> frozenset[int]:
    return frozenset(cpus_of(MILAN, sockets, number)[first:last])


def gbps(flow: Flow) -> float:
    return flow.memory_bytes / 1e9 / flow.dt


def streams(count: int) -> tuple[JobModel, ...]:
    return tuple(replace(STREAM, name=f"stream-{i}") for i in range(count))


def settled(node: Node, grants: list[Grant], loads: dict[str, float], sockets: int = 1, steps: int = 15) -> list[Flow]:
    state, flows = initial(node, sockets), list[Flow]()
    for _ in range(steps):
        state, flows = advance(node, sockets, state, grants, loads, 1.0)
    return flows


def test_a_socket_has_its_domains_and_one_memory() -> None:
    whole = whole_platform(MILAN, 1)
    assert (whole.cpus, whole.physical_cores, whole.ways) == (128, 64, 16)
    assert (whole.bandwidth_gbps, whole.memory_gib) == (MILAN.bandwidth_gbps, MILAN.memory_gib)
    assert whole_platform(MILAN, 2).bandwidth_gbps == 2 * MILAN.bandwidth_gbps
    assert [domain_count(ROME, sockets) for sockets in (1, 2)] == [16, 32]
    assert cpus_of(MILAN, 1, 1) == (*range(8, 16), *range(72, 80))
    assert sorted(cpu for number in range(32) for cpu in cpus_of(ROME, 2, number)) == list(range(256))


def test_policies_see_what_the_agent_shows_on_such_a_machine() -> None:
    platform = board_platform(MILAN, 1)
    assert platform.mba == MbaRange(1, 2048, 1, "eighth_gbps")
    assert platform.sparse_masks
    assert (len(platform.domains), platform.regions_in_domains, platform.bandwidth_gbps) == (8, True, 204.8)
    assert platform.domains[7].cpus == "56-63,120-127"


def test_a_domain_that_is_alone_on_its_socket_is_a_node() -> None:
    node = Node(MILAN, (MOSES,), (STREAM,))
    parts = [(0, 8, 0xFF), (8, 16, 0xFF00)]
    alone = [Grant(frozenset(range(first, last)), mask) for first, last, mask in parts]
    placed = [Grant(in_domain(3, first, last), mask) for first, last, mask in parts]
    state, plain = initial(node, 1), initial_state(node)
    rng = np.random.default_rng(1)
    for _ in range(10):
        shocks = rng.standard_normal(2)
        state, flows = advance(node, 1, state, placed, {"moses": 0.4}, 1.0, shocks)
        plain, known = engine.advance(node, plain, alone, {"moses": 0.4}, 1.0, shocks)
        assert flows == known


def test_a_domain_moves_no_more_than_its_link_and_all_no_more_than_the_memory() -> None:
    usable = MILAN.bandwidth_gbps * MILAN.usable_bandwidth
    moved = {}
    for count in range(1, 9):
        grants = [Grant(in_domain(number), ALL_WAYS) for number in range(count)]
        flows = settled(Node(MILAN, (), streams(count)), grants, {})
        moved[count] = [gbps(flow) for flow in flows]
        assert max(moved[count]) <= MILAN.link_gbps
        assert sum(moved[count]) <= usable
        assert max(moved[count]) == pytest.approx(min(moved[count]), rel=1e-3)
    assert moved[2] == pytest.approx(2 * moved[1], rel=1e-3)  # two links are full, the memory is not
    assert sum(moved[8]) > 0.9 * usable
    assert moved[8][0] < 0.6 * moved[1][0]


def test_work_in_other_domains_slows_a_service_only_by_the_memory() -> None:
    last = 0.0
    for count in (0, 1, 3, 6):
        grants = [Grant(in_domain(number), ALL_WAYS) for number in range(count)]
        flows = settled(Node(MILAN, (MOSES,), streams(count)), [Grant(in_domain(7), ALL_WAYS), *grants], {"moses": 0.5})
        assert flows[0].p99_ms is not None
        assert flows[0].p99_ms >= last * (1 - 1e-3)
        assert flows[0].occupancy_mib == pytest.approx(16 * MILAN.way_mib, rel=0.01)  # the cache is its own
        last = flows[0].p99_ms
    swaps = [replace(on_platform(catalogs.job("cpu-burner"), MILAN), name=f"job-{i}") for i in range(6)]
    grants = [Grant(in_domain(number), ALL_WAYS) for number in range(6)]
    beside = settled(Node(MILAN, (MOSES,), tuple(swaps)), [Grant(in_domain(7), ALL_WAYS), *grants], {"moses": 0.5})
    alone = settled(Node(MILAN, (MOSES,)), [Grant(in_domain(7), ALL_WAYS)], {"moses": 0.5})
    assert beside[0].p99_ms == pytest.approx(alone[0].p99_ms, rel=1e-3)


def test_the_other_socket_has_a_memory_of_its_own() -> None:
    for home, disturbed in ((7, True), (8, False)):
        grants = [Grant(in_domain(home, sockets=2), ALL_WAYS)]
        grants += [Grant(in_domain(number, sockets=2), ALL_WAYS) for number in range(6)]
        beside = settled(Node(MILAN, (MOSES,), streams(6)), grants, {"moses": 0.5}, sockets=2)
        alone = settled(Node(MILAN, (MOSES,)), grants[:1], {"moses": 0.5}, sockets=2)
        assert (beside[0] != alone[0]) is disturbed


@pytest.mark.parametrize("limit", [0.125, 1.0, 4.0, 20.0])
def test_a_throttle_is_a_ceiling_in_each_domain(limit: float) -> None:
    node = Node(MILAN, (), (STREAM,))
    one = settled(node, [Grant(in_domain(0), ALL_WAYS, mba_gbps=limit)], {})
    two = settled(node, [Grant(in_domain(0) | in_domain(1), ALL_WAYS, mba_gbps=limit)], {})
    assert 0.9 * limit <= gbps(one[0]) <= limit
    assert 0.9 * limit <= gbps(two[0]) / 2 <= limit


def test_a_tighter_throttle_of_a_job_helps_the_others() -> None:
    node = Node(MILAN, (MOSES,), (STREAM,))
    tails, moved = [], []
    for limit in (None, 30.0, 15.0, 4.0, 1.0):
        flows = settled(
            node, [Grant(in_domain(0, 0, 8), 0xFF), Grant(in_domain(0, 8), 0xFF00, mba_gbps=limit)], {"moses": 0.4}
        )
        tails.append(flows[0].p99_ms)
        moved.append(gbps(flows[1]))
    assert tails == sorted(tails, reverse=True)
    assert moved == sorted(moved, reverse=True)


def test_parts_in_one_socket_wait_in_one_queue_and_in_two_sockets_in_two() -> None:
    few = replace(XAPIAN, threads=4)
    node = Node(MILAN, (few,))
    tails = {
        other: settled(
            node, [Grant(in_domain(0, 0, 2, 2) | in_domain(other, 0, 2, 2), ALL_WAYS)], {"xapian": 0.2}, sockets=2
        )[0].p99_ms
        for other in (0, 1, 8)
    }
    both = settled(node, [Grant(in_domain(0, 0, 4, 2), ALL_WAYS)], {"xapian": 0.2}, sockets=2)[0].p99_ms
    assert tails[1] == pytest.approx(both, rel=0.1)
    assert tails[8] > tails[1]


def test_an_idle_domain_serves_what_a_busy_one_can_not() -> None:
    """A job weighs more on the CPUs of one domain: 16,000 requests waited there, beside a domain that was half idle."""
    whole = replace(MOSES, threads=64)
    burner = on_platform(catalogs.job("cpu-burner"), MILAN)
    busy, idle = in_domain(0, 0, 8), in_domain(1, 0, 8)
    grants = [Grant(busy | idle, ALL_WAYS, cpu_weight=20.0), Grant(busy, ALL_WAYS)]
    state, node = initial(Node(MILAN, (whole,), (burner,)), 1), Node(MILAN, (whole,), (burner,))
    flows = list[Flow]()
    for second in range(20):
        state, flows = advance(node, 1, state, grants, {"moses": 1.2}, 1.0)
        assert isinstance(state, BoardState)
        assert sum(waiting(state, 2)) < (1000.0 if second < 5 else 10.0)
    assert flows[0].requests == pytest.approx(1.2 * whole.max_load, rel=1e-3)
    assert flows[0].p50_ms is not None
    assert flows[0].p50_ms < whole.target_ms


def test_a_backlog_waits_equally_long_in_all_domains_of_a_socket() -> None:
    whole = replace(MOSES, threads=64)
    node = Node(MILAN, (whole,))
    state = initial(node, 1)
    for _ in range(10):
        state, _ = advance(
            node, 1, state, [Grant(in_domain(0, 0, 4) | in_domain(1, 0, 4), ALL_WAYS)], {"moses": 1.5}, 1.0
        )
    assert isinstance(state, BoardState)
    assert sum(waiting(state, 1)) > 3000.0
    apart = [Grant(in_domain(0, 0, 1) | in_domain(1, 0, 15), ALL_WAYS)]
    for _ in range(4):  # it drained through the one CPU for half a minute, beside 15 idle ones
        state, flows = advance(node, 1, state, apart, {"moses": 0.6}, 1.0)
    assert isinstance(state, BoardState)
    assert sum(waiting(state, 1)) < 10.0
    together = settled(node, [Grant(in_domain(1, 0, 16), ALL_WAYS)], {"moses": 0.6})
    assert flows[0].p99_ms == pytest.approx(together[0].p99_ms, rel=0.2)


def test_a_lock_is_one_in_all_domains_of_a_socket() -> None:
    """Eight dispatchers let a load of 2 through with its target met; the one is at 83 %, and misses it."""
    whole = replace(MOSES, threads=64)
    every = frozenset(range(whole_platform(MILAN, 1).cpus))
    [flow] = settled(Node(MILAN, (whole,)), [Grant(every, ALL_WAYS)], {"moses": 2.0})
    assert flow.p99_ms is not None
    assert flow.p99_ms > whole.target_ms
    tight = replace(whole, serial_ms=2.0 * whole.serial_ms)
    [flow] = settled(Node(MILAN, (tight,)), [Grant(every, ALL_WAYS)], {"moses": 2.0})
    assert flow.requests == pytest.approx(1000.0 / tight.serial_ms, rel=1e-3)


def test_a_queue_has_one_limit_and_a_job_one_stream() -> None:
    cpus = frozenset(cpus_of(MILAN, 1, number)[0] for number in range(8))
    short = replace(MOSES, queue_limit_s=2.0)
    node = Node(MILAN, (short,))
    state = initial(node, 1)
    for _ in range(10):
        state, _ = advance(node, 1, state, [Grant(cpus, ALL_WAYS)], {"moses": 2.0}, 1.0)
    assert isinstance(state, BoardState)
    waits = sum(float(part.state.rows[0, S_BACKLOG]) for part in state.parts if part.tenants)
    assert waits == pytest.approx(2.0 * short.max_load, rel=0.01)

    reader = replace(on_platform(catalogs.job("cpu-burner"), MILAN), disk_mbps=0.4 * MILAN.disk_mbps)
    mongodb = catalogs.service("mongodb", MILAN.id)
    beside = Node(MILAN, (mongodb,), (reader,))
    tails = [
        settled(beside, [Grant(in_domain(7), ALL_WAYS), Grant(there, ALL_WAYS)], {"mongodb": 0.3})[0].p99_ms
        for there in (in_domain(0, 0, 6), cpus - in_domain(7) - in_domain(6))
    ]
    assert tails[0] == pytest.approx(tails[1], rel=1e-2)


def random_grants(rng: np.random.Generator, platform: PlatformModel, tenants: int) -> list[Grant]:
    """Each tenant in one domain or several, with random CPUs, ways (with holes) and throttles."""
    found = []
    for _ in range(tenants):
        domains = rng.choice(platform.domains, int(rng.choice([1, 1, 1, 2, platform.domains])), replace=False)
        cpus = [cpu for number in domains for cpu in cpus_of(platform, 1, int(number))]
        some = rng.choice(cpus, int(rng.integers(1, len(cpus) + 1)), replace=False)
        limit = float(rng.integers(1, 400)) / 8.0 if rng.random() < 0.3 else None
        mask = int(rng.integers(1, 1 << platform.ways))
        found.append(Grant(frozenset(int(cpu) for cpu in some), mask, mba_gbps=limit))
    return found


@pytest.mark.parametrize("platform", [MILAN, ROME], ids=lambda one: one.id)
def test_nothing_is_lost_or_used_twice(platform: PlatformModel) -> None:
    rng = np.random.default_rng(5)
    for _ in range(60):
        node = random_node(rng, platform, 7)
        grants = random_grants(rng, platform, len(node.tenants))
        loads = {service.name: float(rng.uniform(0.0, 2.0)) for service in node.services}
        state = initial(node, 1)
        assert isinstance(state, BoardState)
        for _ in range(4):
            before = waiting(state, len(node.tenants))
            state, flows = advance(node, 1, state, grants, loads, 1.0, rng.standard_normal(len(node.tenants)))
            assert isinstance(state, BoardState)
            check(platform, node, grants, state, flows)
            after = waiting(state, len(node.tenants))
            for i, service in enumerate(node.services):
                arrived = loads[service.name] * service.max_load
                refused = arrived + before[i] - flows[i].requests - after[i]
                assert refused >= -1e-6 * (arrived + before[i] + 1.0)
                backlog = sum(
                    float(part.state.rows[part.tenants.index(i), S_BACKLOG])
                    for part in state.parts
                    if i in part.tenants
                )
                assert backlog <= service.queue_limit_s * service.max_load * (1 + 1e-6)
                if service.serial_ms > 0:
                    assert flows[i].requests <= 1000.0 / service.serial_ms * (1 + 1e-6)


def waiting(state: BoardState, tenants: int) -> list[float]:
    found = [0.0] * tenants
    for part in state.parts:
        for tenant, backlog in zip(part.tenants, part.state.backlog, strict=True):
            found[tenant] += backlog
    return found


def check(platform: PlatformModel, node: Node, grants: list[Grant], state: BoardState, flows: list[Flow]) -> None:
    """CPU time, ways and bytes are no more than there are."""
    usable = platform.bandwidth_gbps * platform.usable_bandwidth
    devices = sum(
        flow.requests * service.device_kib * 1024.0 / 1e9
        for service, flow in zip(node.services, flows, strict=False)
    )  # fmt: skip
    assert sum(map(gbps, flows)) <= max(usable - devices, 0.06 * usable)
    for grant, flow in zip(grants, flows, strict=True):
        inside = [bool(grant.cpus & frozenset(cpus_of(platform, 1, number))) for number in range(platform.domains)]
        assert flow.cpu_s <= len(grant.cpus) * (1 + 1e-3)
        assert gbps(flow) <= sum(inside) * platform.link_gbps
        if grant.mba_gbps is not None:
            assert gbps(flow) <= sum(inside) * grant.mba_gbps * (1 + 1e-3)
    for part in state.parts:
        assert (part.state.occupancy_mib.sum(axis=0) <= platform.way_mib * (1 + 1e-9)).all()


def test_impossible_boards_are_refused() -> None:
    with pytest.raises(ValueError, match="the node has 128 cache domains, expected at most 64: take fewer sockets"):
        initial(Node(ROME, (), (STREAM,)), 8)
    with pytest.raises(NodeInputError, match="has CPU 128, epyc-7763 has CPUs 0-127"):
        advance(
            Node(MILAN, (), (STREAM,)), 1, initial(Node(MILAN, (), (STREAM,)), 1), [Grant(frozenset({128}), 1)], {}, 1.0
        )
