"""Resources out of neighbours who don't need them: Model-B's points, and Model-B' for what two services share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np

from osml.domain import Observation, Service
from osml.policies.osml.answers.models import Models
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


def b_points(observation: Observation, services: Sequence[Service], models: Models) -> dict[str, list[Cell]]:
    """What each service can be deprived of (units, ways), by Model-B, at the slowdown that it can bear.

    Empty without the model, or where it answers what is no number.
    """
    slow = {s.name: share for s in services if (share := allowed_slowdown(s)) is not None}
    if models.b is None or not slow:
        return {}
    inputs, quantum = models.b.metadata.inputs, observation.platform.core_quantum
    try:
        rows = np.stack([feature_row(observation, n, inputs, {"slowdown": share}) for n, share in slow.items()])
        points = models.b.predict(rows).points
    except Exception:  # a broken model has nothing to trade; what is wrong with it was said when it was opened
        return {}
    found: dict[str, list[Cell]] = {}
    for name, row in zip(slow, points.tolist(), strict=True):
        pairs = [(row[k], row[k + 1]) for k in range(0, len(row), 2)]
        if all(math.isfinite(value) for pair in pairs for value in pair):
            cells = {Cell(max(0, int(c / quantum)), max(0, int(w))) for c, w in pairs}
            found[name] = sorted(cells - {Cell(0, 0)})
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


def neighbour_to_share(
    observation: Observation, cells: Mapping[str, Cell], neighbours: Sequence[Service], cores: int, models: Models
) -> tuple[str, float] | None:
    """Algorithm 4: the neighbour who suffers least from sharing so many of its cores, and its slowdown in percent.

    None without Model-B', and where everybody would be expected to miss the target.
    """
    givers = [s for s in neighbours if cells[s.name].cores > cores and s.latency_ms is not None and s.target_ms]
    if models.b2 is None or not givers:
        return None
    platform, inputs = observation.platform, models.b2.metadata.inputs
    left = [
        {
            "expected_cores": (cells[s.name].cores - cores) * platform.core_quantum,
            "expected_cache_mib": cells[s.name].ways * (platform.way_mib or math.nan),
        }
        for s in givers
    ]
    try:
        rows = np.stack([feature_row(observation, s.name, inputs, p) for s, p in zip(givers, left, strict=True)])
        loss = models.b2.predict(rows).points[:, 0].tolist()
    except Exception:  # as above
        return None
    found: list[tuple[float, str]] = []
    for service, percent in zip(givers, loss, strict=True):
        if not math.isfinite(percent) or percent >= 100.0:
            continue
        slowdown = 1.0 / (1.0 - max(0.0, percent) / 100.0)
        if (service.latency_ms or 0.0) * slowdown <= (service.target_ms or 0.0):
            found.append((100.0 * (slowdown - 1.0), service.name))
    if not found:
        return None
    percent, name = min(found)
    return name, percent
