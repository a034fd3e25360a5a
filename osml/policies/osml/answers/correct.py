"""Model-C's corrections: the action that it values most among those that are legal here (OSML, algorithms 2 and 3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from osml.domain import Observation
from osml.policies.osml.answers.models import Models
from osml.policies.osml.node import Cell
from osml.predictors import feature_row
from osml.predictors.actions import N_ACTIONS, NO_CHANGE, REACH, action_index, action_of, legal_actions


class Action(NamedTuple):
    """Cores and ways that an action gives, and its value."""

    cores: int
    ways: int
    q: float

    def __str__(self) -> str:
        return f"Model-C <{self.cores:+d}, {self.ways:+d}> Q={self.q:.2f}"


_MOVES = [action_of(k) for k in range(N_ACTIONS)]
_UP = np.array([cores >= 0 and ways >= 0 and (cores, ways) != (0, 0) for cores, ways in _MOVES])


def upsize(observation: Observation, name: str, models: Models, cell: Cell, free: Cell) -> Action | None:
    """What Model-C would give a service that misses its target, of so much that is `free`; None without the model."""
    q = _values(observation, name, models)
    if q is None:
        return None
    legal = legal_actions(cell.cores, max(cell.ways, 1), free.cores, free.ways).astype(bool) & _UP
    if not legal.any():
        return None
    best = int(np.argmax(np.where(legal, q, -np.inf)))
    return Action(*_MOVES[best], float(q[best]))


def downsize_value(observation: Observation, name: str, models: Models, change: Cell) -> tuple[float, float] | None:
    """Model-C's values of taking so much (clipped to what one action moves) and of leaving all as it is."""
    q = _values(observation, name, models)
    if q is None:
        return None
    action = action_index(max(-REACH, min(0, change.cores)), max(-REACH, min(0, change.ways)))
    return float(q[action]), float(q[NO_CHANGE])


def _values(observation: Observation, name: str, models: Models) -> np.ndarray[tuple[int], np.dtype[np.float32]] | None:
    if models.c is None:
        return None
    try:
        row = feature_row(observation, name, models.c.metadata.inputs)
        q = models.c.q(row[None, :])[0]
    except Exception:  # a broken model corrects nothing; the plain rule takes its place
        return None
    return q if q.shape == (N_ACTIONS,) and bool(np.isfinite(q).all()) else None
