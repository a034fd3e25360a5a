"""Resources out of neighbours who don't need them, by Model-B's points (OSML, section 4.2 and algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np

from osml.domain import Service
from osml.policies.osml.facts import Facts
from osml.policies.osml.guard import may_have
from osml.policies.osml.node import Cell
from osml.predictors import feature_row

MOST_GIVERS = 3
"""Neighbours in one trade (OSML, algorithm 1: at most three services involved, the fewer the better)."""

MOST_SLOWDOWN, LEAST_SLOWDOWN = 0.2, 0.05
"""Range of slowdowns that Model-B was trained on."""

KEPT = 0.7
"""Share of its slack that a neighbour may lose in a trade."""


def allowed_slowdown(service: Service) -> float | None:
    """By how much a service may be slowed down and still be well within its target; None where it has no such room."""
    latency_ms, target_ms = service.latency_ms, service.target_ms
    if latency_ms is None or target_ms is None or latency_ms <= 0:
        return None
    room = KEPT * (target_ms / latency_ms - 1.0)
    return min(room, MOST_SLOWDOWN) if room >= LEAST_SLOWDOWN else None


def spare_points(facts: Facts) -> dict[str, list[Cell]]:
    """What each service with a cell can be deprived of below its need, by Model-B, as far as the guard allows it."""
    here = [facts.services[name] for name in facts.cells if name not in facts.set_aside and facts.meets(name)]
    slow = {one.name: share for one in here if (share := allowed_slowdown(one)) is not None}
    model = facts.models.b
    if model is None or not slow:
        return {}
    inputs, quantum = model.metadata.inputs, facts.quantum
    try:
        rows = [feature_row(facts.observation, n, inputs, {"slowdown": share}) for n, share in slow.items()]
        points = model.predict(np.stack(rows)).points
    except Exception:  # a broken model has nothing to trade; what is wrong with it was said when it was opened
        return {}
    found: dict[str, list[Cell]] = {}
    for name, row in zip(slow, points.tolist(), strict=True):
        if all(math.isfinite(value) for value in row):
            pairs = zip(row[::2], row[1::2], strict=True)
            cells = {Cell(max(0, int(cores / quantum)), max(0, int(ways))) for cores, ways in pairs}
            want = facts.wants[name]
            found[name] = sorted(
                cell
                for cell in cells - {Cell(0, 0)}
                if may_have(facts, name, Cell(want.cores - cell.cores, want.ways - cell.ways))
            )
    return found


def best_fit(lack: Cell, points: Mapping[str, Sequence[Cell]]) -> dict[str, Cell] | None:
    """Who gives what so that the lack is covered: the fewest givers, then the least given; None where nobody can."""
    for count in range(1, MOST_GIVERS + 1):
        best: tuple[int, dict[str, Cell]] | None = None
        for names in combinations(sorted(points), count):
            for taken in product(*(points[name] for name in names)):
                cores, ways = sum(c.cores for c in taken), sum(c.ways for c in taken)
                if cores < lack.cores or ways < lack.ways:
                    continue
                if best is None or cores + ways < best[0]:
                    best = (cores + ways, dict(zip(names, taken, strict=True)))
        if best is not None:
            return best[1]
    return None
