"""What the shadow policies would have done, in sum and by node."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import msgspec

from osml_serving.shadow.messages import Shadowed

MAX_NODES = 10_000


class ShadowSums(msgspec.Struct):
    """A shadow policy over all its intervals: how often it would have decided the same, else, or failed.

    `cores`, `ways` and `lc_cores` are sums over its intervals (see Shadowed), `e_s` and `e_s_decided` over the
    `predicted` ones.
    """

    policy: str
    same: int = 0
    other: int = 0
    failed: int = 0
    infeasible: int = 0
    cores: float = 0.0
    ways: float = 0.0
    lc_cores: float = 0.0
    predicted: int = 0
    e_s: float = 0.0
    e_s_decided: float = 0.0


@dataclass
class ShadowTally:
    """Sums by policy, and the newest interval of each node by policy."""

    sums: dict[str, ShadowSums] = field(default_factory=dict[str, ShadowSums])
    nodes: OrderedDict[str, dict[str, Shadowed]] = field(default_factory=OrderedDict[str, dict[str, Shadowed]])
    lost: int = 0

    def add(self, one: Shadowed) -> None:
        """Count an interval."""
        sums = self.sums.setdefault(one.policy, ShadowSums(one.policy))
        newest = self.nodes.pop(one.node, {})
        newest[one.policy] = one
        self.nodes[one.node] = newest
        if len(self.nodes) > MAX_NODES:
            self.nodes.popitem(last=False)
        if one.failed is not None:
            sums.failed += 1
            return
        sums.same += one.same
        sums.other += not one.same
        sums.infeasible += one.infeasible
        sums.cores += one.cores
        sums.ways += one.ways
        sums.lc_cores += one.lc_cores
        if one.e_s is not None and one.e_s_decided is not None:
            sums.predicted += 1
            sums.e_s += one.e_s
            sums.e_s_decided += one.e_s_decided

    def lose(self) -> None:
        """Count an interval that no shadow policy saw."""
        self.lost += 1

    def of_node(self, node: str) -> list[Shadowed]:
        """The newest interval of a node, by policy."""
        return [one for _, one in sorted(self.nodes.get(node, {}).items())]
