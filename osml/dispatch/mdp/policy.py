"""Stationary dispatch policies as tables: which class a waiting job goes to, by level and phase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.dispatch.mdp.phases import Phases

IntArray = NDArray[np.int64]

HOLD = 0
"""Class 0 takes jobs without being asked; as a decision it means that the job goes on waiting."""


@dataclass(frozen=True)
class Policy:
    """choice[n, s]: class (from 1) that a waiting job goes to in phase s with n jobs in system, or HOLD.

    n counts after the event that brought the decision. From n = len(choice) on, `tail` (phases,) decides.
    """

    choice: IntArray
    tail: IntArray

    def rows(self, levels: int) -> IntArray:
        """Choice for levels 0 to levels - 1."""
        missing = levels - len(self.choice)
        return self.choice[:levels] if missing <= 0 else np.vstack([self.choice, np.tile(self.tail, (missing, 1))])


def fastest_idle(phases: Phases) -> IntArray:
    """For each phase the fastest class with an idle server, HOLD where all are busy."""
    return np.array(
        [next((j for j, to in enumerate(row) if to >= 0), HOLD) for row in phases.gain.tolist()], dtype=np.int64
    )


def non_idling(phases: Phases) -> Policy:
    """A server never idles while jobs wait (paper, section V-B)."""
    return Policy(np.zeros((0, phases.size), dtype=np.int64), fastest_idle(phases))


def threshold_policy(phases: Phases, thresholds: Mapping[tuple[int, int], int | None]) -> Policy:
    """The policy under N(i, b): with i servers under interference, b of them busy, one more is used from that system
    size (before an arrival) on. None, or no entry: never.

    A server is under interference in every mode but its kind's first. Servers of other kinds that are free of it never
    idle while jobs wait. Raises InputError for a threshold below 0.
    """
    wrong = {key: limit for key, limit in thresholds.items() if limit is not None and limit < 0}
    if wrong:
        raise InputError(f"thresholds {wrong} are below 0, expected a number in system or null for never")
    action = fastest_idle(phases)
    under = [j for j in range(1, len(phases.classes)) if phases.classes[j][1] > 0]
    never = 1 << 60
    limits = np.zeros(phases.size, dtype=np.int64)
    for s, (_, counts, busy) in enumerate(phases.listed):
        if phases.classes[action[s]][1] > 0:
            state = (sum(counts[j] for j in under), sum(busy[j - 1] for j in under))
            limit = thresholds.get(state)
            limits[s] = never if limit is None else limit + 1
    top = int(limits[limits < never].max(initial=0))
    reached = np.arange(top + 1)[:, None] >= limits[None, :]
    rows = np.where(reached, action[None, :], HOLD)
    return Policy(rows[:-1], rows[-1])


def resolve(phases: Phases, choice: IntArray, repeated: bool) -> IntArray:
    """post[n, s]: phase after the decision. repeated: decide again until the job waits or no job is left to send.

    choice covers levels 0 to its length - 1. Where no job waits (a server of class 0 idles or all jobs are in service),
    nothing is decided.
    """
    levels = np.arange(len(choice))[:, None]
    here = np.arange(phases.size)[None, :]
    waits = levels - phases.n_slow_busy[None, :] > phases.n_fastest[None, :]
    once = np.where((choice > HOLD) & waits, phases.gain[here, choice], here)
    if not repeated:
        return once
    result, again = once, np.take_along_axis(once, once, axis=1)
    while not np.array_equal(result, again):
        result, again = again, np.take_along_axis(again, again, axis=1)
    return again
