"""Cache lines in ways that a tenant may not fill any more."""

from __future__ import annotations

import pytest

from osml.simulator import catalogs
from osml.simulator.engine import advance
from osml.simulator.state import Flow, Grant, Node, NodeState, initial_state
from osml.simulator.steady import steady

PLATFORM = catalogs.platform("e5-2697v4")
CPUS = frozenset(range(16))


def after(node: Node, state: NodeState, grants: list[Grant], load: float, seconds: int) -> tuple[NodeState, list[Flow]]:
    flows = list[Flow]()
    for _ in range(seconds):
        state, flows = advance(node, state, grants, dict.fromkeys(node.names[: len(node.services)], load), 1.0)
    return state, flows


@pytest.mark.parametrize("name", ["moses", "img-dnn", "masstree"])
def test_a_small_cell_is_as_small_after_a_large_one(name: str) -> None:
    node = Node(PLATFORM, (catalogs.service(name, PLATFORM.id),))
    wide, narrow = [Grant(CPUS, 0xFFFFF)], [Grant(CPUS, 0x3)]
    state, _ = after(node, initial_state(node), wide, 0.4, 20)
    state, flows = after(node, state, narrow, 0.4, 60)
    settled = steady(node, narrow, {name: 0.4})
    assert state.occupancy_mib[0, 2:].sum() == pytest.approx(0.0, abs=0.01)
    assert flows[0].p99_ms == pytest.approx(settled[0].p99_ms, rel=0.02)


def test_nobody_holds_more_than_it_has_while_its_ways_change() -> None:
    node = Node(PLATFORM, (catalogs.service("xapian", PLATFORM.id),))
    footprint = node.services[0].memory.footprint_mib
    state, _ = after(node, initial_state(node), [Grant(CPUS, 0x3FF)], 0.4, 30)
    for second in range(40):
        state, flows = after(node, state, [Grant(CPUS, 0xFFC00)], 0.4, 1)
        assert flows[0].occupancy_mib <= footprint * (1 + 1e-9), second
    assert state.occupancy_mib[0, :10].sum() == pytest.approx(0.0, abs=0.01)


def test_lines_stay_where_their_tenant_reads_nothing() -> None:
    node = Node(PLATFORM, (catalogs.service("moses", PLATFORM.id),))
    state, _ = after(node, initial_state(node), [Grant(CPUS, 0xFFFFF)], 0.4, 20)
    idle, _ = after(node, state, [Grant(CPUS, 0x3)], 0.0, 20)
    assert idle.occupancy_mib[0, 2:].sum() == pytest.approx(state.occupancy_mib[0, 2:].sum())
