"""The toy node of the policies' tests behaves as its docstring says."""

from __future__ import annotations

from tests.kit.toy_node import ToyNode, demo_tenants


def test_the_toy_node_gets_faster_with_every_unit() -> None:
    node = ToyNode(demo_tenants(), policy="even")
    node.step()
    small = node.slacks()
    node.cores, node.ways = 40, 24
    node.step()
    assert all((small[name] or 0) < (slack or 0) for name, slack in node.slacks().items())
