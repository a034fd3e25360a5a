"""A node of several sockets: apart, each is a node of one socket; together, nothing is lost or made up."""

import numpy as np
import pytest

from osml.domain.cpulist import parse_cpulist
from osml.simulator import catalogs, engine
from osml.simulator.board import cpus_of, whole_platform
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.models import on_platform
from osml.simulator.node_platform import board_platform, domain_platform
from osml.simulator.sockets import advance, initial
from osml.simulator.state import Grant, Node, initial_state

SOCKET = catalogs.platform("e5-2697v4")
MOSES, XAPIAN = (catalogs.service(name, SOCKET.id) for name in ("moses", "xapian"))
STREAM = on_platform(catalogs.job("stream"), SOCKET)
LOADS = {"moses": 0.4, "xapian": 0.3}
ALL_WAYS = (1 << SOCKET.ways) - 1


def on_socket(socket: int, first: int, last: int) -> frozenset[int]:
    return frozenset(cpus_of(SOCKET, 2, socket)[first:last])


def test_cpus_are_numbered_as_linux_does() -> None:
    both = [cpus_of(SOCKET, 2, socket) for socket in range(2)]
    assert both[0] == (*range(18), *range(36, 54))
    assert sorted(both[0] + both[1]) == list(range(72))
    assert cpus_of(SOCKET, 1, 0) == tuple(range(36))
    siblings = whole_platform(SOCKET, 2).siblings
    assert all({*pair} <= {*both[0]} or {*pair} <= {*both[1]} for pair in siblings)


def test_two_sockets_with_their_own_tenants_are_two_nodes() -> None:
    node = Node(SOCKET, (MOSES, XAPIAN), (STREAM,))
    grants = [Grant(on_socket(1, 0, 12), 0xFF), Grant(on_socket(0, 0, 10), 0xFF), Grant(on_socket(1, 12, 36), 0xFFF00)]
    first, second = Node(SOCKET, (XAPIAN,)), Node(SOCKET, (MOSES,), (STREAM,))
    own_first = [Grant(frozenset(range(10)), 0xFF)]
    own_second = [Grant(frozenset(range(12)), 0xFF), Grant(frozenset(range(12, 36)), 0xFFF00)]
    state, one, two = initial(node, 2), initial_state(first), initial_state(second)
    rng = np.random.default_rng(1)
    for _ in range(20):
        shocks = rng.standard_normal(3)
        state, flows = advance(node, 2, state, grants, LOADS, 0.5, shocks)
        one, [xapian] = engine.advance(first, one, own_first, {"xapian": 0.3}, 0.5, shocks[[1]])
        two, [moses, stream] = engine.advance(second, two, own_second, {"moses": 0.4}, 0.5, shocks[[0, 2]])
        assert flows == [moses, xapian, stream]


def test_one_socket_is_the_engine_itself() -> None:
    node = Node(SOCKET, (MOSES,), (STREAM,))
    grants = [Grant(frozenset(range(20)), 0x3FF), Grant(frozenset(range(20, 36)), 0xFFC00)]
    state, plain = initial(node, 1), initial_state(node)
    for _ in range(5):
        state, flows = advance(node, 1, state, grants, {"moses": 0.5}, 1.0)
        plain, known = engine.advance(node, plain, grants, {"moses": 0.5}, 1.0)
        assert flows == known


def test_a_service_on_both_sockets_answers_all_requests_and_a_job_has_both_memories() -> None:
    node = Node(SOCKET, (MOSES,), (STREAM,))
    everything = [Grant(frozenset(range(72)), ALL_WAYS)] * 2
    state = initial(node, 2)
    for _ in range(30):
        state, [moses, stream] = advance(node, 2, state, everything, {"moses": 0.5}, 1.0)
    assert moses.requests == pytest.approx(0.5 * MOSES.max_load, rel=0.02)
    assert moses.p50_ms < moses.p95_ms < moses.p99_ms
    assert moses.resident_mib == pytest.approx(MOSES.memory.footprint_mib, rel=0.01)
    one = Node(SOCKET, (), (STREAM,))
    _, [alone] = engine.advance(one, initial_state(one), [Grant(frozenset(range(36)), ALL_WAYS)], {}, 1.0)
    assert alone.memory_bytes < stream.memory_bytes <= 2.0 * SOCKET.bandwidth_gbps * 1e9


def test_who_moves_takes_its_queue_along_and_finds_a_cold_cache() -> None:
    node = Node(SOCKET, (MOSES,), ())
    tight, state = Grant(on_socket(0, 0, 2), 0xF), initial(node, 2)
    for _ in range(5):
        state, _ = advance(node, 2, state, [tight], {"moses": 0.5}, 1.0)
    moved, [flow] = advance(node, 2, state, [Grant(on_socket(1, 0, 30), ALL_WAYS)], {"moses": 0.5}, 0.01)
    assert [part.tenants for part in moved.parts] == [(), (0,)]
    assert state.parts[0].state.backlog[0] > 0
    assert flow.backlog_ms[0] > 0
    assert moved.parts[1].state.occupancy_mib.sum() < state.parts[0].state.occupancy_mib.sum() / 2


def test_policies_see_two_domains_or_one_pool() -> None:
    divided, pool = (board_platform(SOCKET, 2, by_domain=each) for each in (True, False))
    assert [domain.cpus for domain in divided.domains] == ["0-17,36-53", "18-35,54-71"]
    assert (divided.cores, divided.ways, divided.bandwidth_gbps) == (72, 20, 2 * SOCKET.bandwidth_gbps)
    assert (divided.regions_in_domains, pool.regions_in_domains) == (True, False)
    assert board_platform(SOCKET, 1) == domain_platform(SOCKET)


@pytest.mark.parametrize("policy", ["osml:formula", "parties"])
def test_a_policy_keeps_each_service_on_one_socket(policy: str) -> None:
    loop = ClosedLoop(Node(SOCKET, (MOSES, XAPIAN), (STREAM,)), LOADS, policy, sockets=2)
    for interval in loop.run(15):
        for one in interval.decision.assignments if interval.decision else []:
            cpus = set(parse_cpulist(one.cpus or ""))
            assert any(cpus <= set(cpus_of(SOCKET, 2, socket)) for socket in range(2))


def test_limits_of_a_tenant_hold_over_all_its_sockets() -> None:
    node = Node(SOCKET, (catalogs.service("mongodb", SOCKET.id),))
    grant = Grant(frozenset(range(2 * SOCKET.cpus)), ALL_WAYS, memory_gib=2.0)
    state = initial(node, 2)
    for _ in range(3):
        state, [flow] = advance(node, 2, state, [grant], {"mongodb": 0.2}, 1.0)
    assert flow.resident_mib <= 2048 * 1.001


def test_too_many_sockets_are_refused() -> None:
    with pytest.raises(ValueError, match="the node has 9 sockets, expected 1 to 8"):
        whole_platform(SOCKET, 9)
