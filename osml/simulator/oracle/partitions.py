"""Partitions in counts, and what a whole node does with one of them.

A partition is an array (services + 1, 2) of cores and ways: one row an LC service, isolated, in the order of the node;
the last row is what all BE jobs share (0, 0 where there are none; what is over then stays idle).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from osml import entropy
from osml.domain import Partition, Platform, Region, Service
from osml.domain.cpulist import parse_cpulist
from osml.layout import assign
from osml.simulator import columns as c
from osml.simulator.columns import IntArray
from osml.simulator.models import PlatformModel
from osml.simulator.oracle.settled import SettledNode, tail_column
from osml.simulator.state import Node
from osml.simulator.surface import solo_speed


class Outcome(NamedTuple):
    """What a partition leads to: tails at the targets' percentiles (infinite: never), slowdowns of jobs, E_S."""

    tails_ms: tuple[float, ...]
    slowdowns: tuple[float, ...]
    e_lc: float | None
    e_be: float | None
    e_s: float
    feasible: bool


def counted(platform: PlatformModel) -> Platform:
    """The platform as layout counts it; the cache is left out, since isolated ways are all alike to the node."""
    return Platform(
        id=platform.id, cores=platform.cpus, cpus=f"0-{platform.cpus - 1}", siblings=platform.siblings, ways=None
    )


class Evaluator:
    """Settles whole nodes exactly, CPUs placed by osml.layout. `nodes` counts them."""

    def __init__(self, node: Node, loads: Mapping[str, float]) -> None:
        self.node = node
        self.loads = dict(loads)
        self._settled = SettledNode(node, loads)
        self._columns = [tail_column(node, i) for i in range(len(node.services))]
        self._targets = [service.target_ms for service in node.services]
        self.solo_rates = [1e9 * solo_speed(node.platform, job)[1] for job in node.jobs]
        self._platform = counted(node.platform)
        lc = [Service(name=service.name, kind="lc", target_ms=service.target_ms) for service in node.services]
        self._tenants = [*lc, *(Service(name=job.name, kind="be") for job in node.jobs)]
        self._users: dict[tuple[int, ...], IntArray] = {}
        self._masks = np.zeros(len(node.tenants), np.int64)

    @property
    def nodes(self) -> int:
        """Whole nodes that were settled."""
        return self._settled.evaluations

    def _placed(self, cores: tuple[int, ...]) -> IntArray:
        """The tenants on each CPU as bits, as layout places these core counts on an empty node."""
        known = self._users.get(cores)
        if known is None:
            regions = [
                Region(owners=[service.name], cores=count)
                for service, count in zip(self.node.services, cores, strict=False)
            ]
            if self.node.jobs:
                regions.append(Region(owners=[job.name for job in self.node.jobs], cores=cores[-1]))
            known = np.zeros(self.node.platform.cpus, np.int64)
            for i, assignment in enumerate(assign(Partition(regions=regions), self._platform, self._tenants)):
                known[parse_cpulist(assignment.cpus or "")] |= 1 << i
            self._users[cores] = known
        return known

    def placement(self, partition: IntArray) -> tuple[IntArray, IntArray]:
        """Tenants on each CPU as bits and way masks of each tenant; the next call overwrites the masks."""
        n, below = len(self.node.services), 0
        for i, ways in enumerate(partition[:, 1].tolist()):
            self._masks[i : i + 1 if i < n else None] = ((1 << ways) - 1) << below
            below += ways
        return self._placed(tuple(partition[:, 0].tolist())), self._masks

    def __call__(self, partition: IntArray) -> Outcome:
        """The outcome of one partition."""
        n = len(self.node.services)
        flows = self._settled.flows(*self.placement(partition))
        tails = [float(flows[i, column]) for i, column in enumerate(self._columns)]
        tails = [math.inf if math.isnan(tail) else tail for tail in tails]  # NaN: nothing was completed
        slow = [
            solo / rate if (rate := float(flows[n + k, c.F_INSTRUCTIONS])) > 0 else math.inf
            for k, solo in enumerate(self.solo_rates)
        ]
        return outcome(tails, self._targets, slow)


def outcome(tails_ms: list[float], targets_ms: list[float], slowdowns: list[float]) -> Outcome:
    """E_S of tail latencies and slowdowns; feasible where every tail is within its target."""
    pairs = list(zip(tails_ms, targets_ms, strict=True))
    e_lc = entropy.lc_entropy([entropy.intolerable(tail, target) for tail, target in pairs]) if pairs else None
    e_be = entropy.be_entropy(slowdowns) if slowdowns else None
    e_s = entropy.combine(e_lc, e_be)
    feasible = all(tail <= target for tail, target in pairs)
    return Outcome(tuple(tails_ms), tuple(slowdowns), e_lc, e_be, 0.0 if e_s is None else e_s, feasible)
