"""Whether predicted bounds hold where they are used: at the end of a run, in the company that a policy has made.

The truth is the surface of tails of one service over cores and ways: it has so many of each, the others divide the rest
as they do in the last partition. RCliff and OAA come from it as for the training data (osml.frontier).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from osml.domain import Decision, Partition
from osml.frontier import FloatArray, IntArray, label
from osml.simulator.colocation.episodes import shares
from osml.simulator.oracle.settled import SettledNode, tail_column
from osml.simulator.state import Node

_MOST_CELLS = 4000
"""Cells of all services of a node together that are settled: seconds."""


class Held(NamedTuple):
    """Services with a forecast and an RCliff, and in how many of them what was predicted suffices.

    `cores` and `ways`: RCliff is not above its upper bound. `oaa`: neither cores nor ways of the OAA are above the
    predicted ones, rounded up. Not among these: `unfamiliar` forecasts, of which the model said that it does not know
    the service or machine, and `unjudged` ones, on nodes that are too large to be settled.
    """

    forecasts: int = 0
    cores: int = 0
    ways: int = 0
    oaa: int = 0
    unfamiliar: int = 0
    unjudged: int = 0


def bounds_held(node: Node, loads: Mapping[str, float], decision: Decision, hidden: frozenset[str]) -> Held:
    """Forecasts of the last decision against the truth; nothing where there are none, or the node is too large."""
    cells = node.platform.cpus * node.platform.ways * len(node.services)
    forecasts = {one.service: one for one in decision.forecasts if one.familiar}
    unfamiliar = len(decision.forecasts) - len(forecasts)
    isolable = len(node.names) <= min(node.platform.cpus, node.platform.ways)
    if not forecasts or not isolable or cells > _MOST_CELLS:
        return Held(unfamiliar=unfamiliar, unjudged=len(forecasts))
    counts = [0, 0, 0, 0]
    for i, service in enumerate(node.services):
        told = forecasts.get(service.name)
        if told is None:
            continue
        total = (node.platform.cpus, node.platform.ways)
        truth = label(true_surface(node, loads, decision.partition, hidden, i), service.target_ms, platform=total)
        cliff, oaa = truth.rcliff.tolist(), truth.oaa.tolist()
        if cliff[0] == 0:
            continue
        held = (
            True,
            cliff[0] <= told.rcliff_upper.cores,
            cliff[1] <= told.rcliff_upper.ways,
            0 < oaa[0] <= math.ceil(told.oaa.cores) and oaa[1] <= math.ceil(told.oaa.ways),
        )
        counts = [count + fine for count, fine in zip(counts, held, strict=True)]
    return Held(*counts, unfamiliar=unfamiliar)


def true_surface(
    node: Node, loads: Mapping[str, float], partition: Partition, hidden: frozenset[str], of: int
) -> FloatArray:
    """Tails in ms of service `of`, (cores, ways): index 0 is one of each."""
    groups = _others(node, hidden, of)
    names = [[node.names[k] for k in group] for group in groups]
    weights = [
        [max(1, partition.cores_of(group[0])) for group in names],
        [max(1, partition.ways_of(group[0])) for group in names],
    ]
    cpus, ways = node.platform.cpus, node.platform.ways
    everywhere = [k for k, name in enumerate(node.names) if name in hidden]
    order, settled, column = node.platform.cpu_order(), SettledNode(node, loads), tail_column(node, of)
    found = np.full((cpus - len(groups), ways - len(groups)), np.inf)
    masks = np.full(len(node.names), (1 << ways) - 1, np.int64)
    for cores in range(1, found.shape[0] + 1):
        users = np.full(cpus, sum(1 << k for k in everywhere), np.int64)
        _place(users, order, [[of], *groups], [cores, *_rest(cpus - cores, weights[0])])
        for width in range(1, found.shape[1] + 1):
            below = 0
            for group, units in zip([[of], *groups], [width, *_rest(ways - width, weights[1])], strict=True):
                masks[group] = ((1 << units) - 1) << below
                below += units
            tail = float(settled.flows(users, masks)[of, column])
            found[cores - 1, width - 1] = math.inf if math.isnan(tail) else tail
    return found


def _others(node: Node, hidden: frozenset[str], of: int) -> list[list[int]]:
    """The other services one by one, and all jobs that are managed together."""
    n = len(node.services)
    jobs = [k for k, name in enumerate(node.names) if k >= n and name not in hidden]
    return [*([k] for k in range(n) if k != of), *([jobs] if jobs else [])]


def _rest(total: int, weights: Sequence[int]) -> list[int]:
    return shares(total, weights) if weights else []


def _place(users: IntArray, order: Sequence[int], groups: Sequence[Sequence[int]], counts: Sequence[int]) -> None:
    """Groups side by side on the CPUs in order."""
    at = 0
    for group, count in zip(groups, counts, strict=True):
        users[list(order[at : at + count])] |= sum(1 << k for k in group)
        at += count
