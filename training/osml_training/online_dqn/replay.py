"""The experience pool of Model-C: tuples <Status, Action, Reward, Status'> in arrays; the oldest go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.predictors.actions import N_ACTIONS
from osml_training.dqn.transitions import Tuples


def checked_tuples(given: Tuples, inputs: int) -> Tuples:
    """Themselves, or InputError with the field that is wrong: nothing infinite, in every Status' something legal."""
    rows = len(given.before)
    shapes = ((rows, inputs), (rows,), (rows,), (rows, inputs), (rows, N_ACTIONS))
    for name, shape in zip(given._fields, shapes, strict=True):
        found = getattr(given, name).shape
        if found != shape:
            raise InputError(f"tuples: {name} has shape {found}, expected {shape}")
    if rows and not (given.action.min() >= 0 and given.action.max() < N_ACTIONS):
        raise InputError(
            f"tuples: actions are {given.action.min()} to {given.action.max()}, expected 0 to {N_ACTIONS - 1}"
        )
    if not np.isfinite(given.reward).all():
        raise InputError("tuples: a reward is not finite; leave out tuples without a measurement")
    for name in ("before", "after"):
        if np.isinf(getattr(given, name)).any():
            raise InputError(f"tuples: {name} has an infinite value, expected numbers, or NaN for missing values")
    if not (given.legal_after > 0).any(axis=1).all():
        raise InputError("tuples: legal_after has a row without a legal action, expected at least one")
    return given


def some(given: Tuples, rows: NDArray[np.int64]) -> Tuples:
    """The tuples of these rows."""
    return Tuples._make(part[rows] for part in given)


class Replay:
    """At most `capacity` tuples of so many `inputs`."""

    def __init__(self, capacity: int, inputs: int):
        self._kept = Tuples(
            np.zeros((capacity, inputs), np.float32),
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.float32),
            np.zeros((capacity, inputs), np.float32),
            np.zeros((capacity, N_ACTIONS), np.int8),
        )
        self.capacity, self.added = capacity, 0

    def __len__(self) -> int:
        return min(self.added, self.capacity)

    def add(self, new: Tuples) -> None:
        """Put tuples in; of more than fit at once the last ones stay."""
        rows = len(new.before)
        if rows > self.capacity:
            self.added += rows - self.capacity
            new = Tuples._make(part[-self.capacity :] for part in new)
            rows = self.capacity
        at = (self.added + np.arange(rows)) % self.capacity
        for kept, part in zip(self._kept, new, strict=True):
            kept[at] = part
        self.added += rows

    def sample(self, rows: int, rng: np.random.Generator) -> Tuples:
        """Random ones, with repetition. Raises ValueError where there are none."""
        return some(self._kept, rng.integers(0, len(self), rows))
