"""The partition of the least E_S, for mixes that cannot meet all targets.

Best first over a lower bound: each service at the service time that the kindest environment of the partition leaves it,
each BE job as if the others did not slow it down. Everything whose bound is below the best E_S so far is settled on the
whole node.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from osml.simulator.columns import IntArray
from osml.simulator.oracle.contributions import Contributions
from osml.simulator.oracle.deadline import Deadline
from osml.simulator.oracle.enumerate import between
from osml.simulator.oracle.partitions import Evaluator, Outcome
from osml.simulator.state import Node

_ROOM = 1 << 17
_SMALLEST_STEP = 1e-6


class Least(NamedTuple):
    """A partition, what it leads to, and whether it is known that none is better."""

    partition: IntArray
    outcome: Outcome
    proven: bool


def least_entropy(node: Node, evaluate: Evaluator, contributions: Contributions, deadline: Deadline) -> Least | None:
    """The partition of the least E_S that leaves nothing idle, then of the least cost, then the first of them.

    None where the deadline passed before any was settled.
    """
    values = np.concatenate([contributions.prepare(), contributions.of_jobs])
    price = np.array([node.platform.ways, node.platform.cpus])
    low, step, room = float(values.min((1, 2)).sum()), 1e-2, _ROOM
    best: tuple[tuple[float, int, list[list[int]]], IntArray, Outcome] | None = None
    while best is None or low <= best[0][0]:
        if deadline.passed:
            break
        deadline.say(f"searching the lowest E_S (lower bound {low:.4f})")
        high = low + step if best is None else min(low + step, math.nextafter(best[0][0], math.inf))
        listed = between(values, low, high, room, deadline)
        if deadline.passed:
            break
        if listed is None:  # too many at once: a narrower band, or, where they are all alike, more room
            step, room = (step / 4.0, room) if step > _SMALLEST_STEP else (step, room * 4)
            continue
        sharp = contributions.of_partitions(listed)
        deadline.spend(listed=len(listed))
        for i in np.argsort(sharp, kind="stable"):
            if (best is not None and sharp[i] > best[0][0]) or deadline.passed:
                break
            partition = listed[i] if node.jobs else np.vstack([listed[i], np.zeros((1, 2), np.int64)])
            found = evaluate(partition)
            deadline.spend(nodes=1)
            cost = int((partition[: len(node.services)] @ price).sum())
            key = (found.e_s, cost, partition.tolist())
            if best is None or key < best[0]:
                best = key, partition, found
        low, step = high, step * 1.5
    return None if best is None else Least(best[1], best[2], not deadline.passed)
