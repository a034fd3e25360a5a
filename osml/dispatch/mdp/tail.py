"""Above the truncation every level is like the next: an exact quasi-birth-death tail instead of a cut.

Logarithmic reduction (Latouche and Ramaswami) with all differences taken as sums, so that rare phases cost no digits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.dispatch.mdp.elimination import factor, recurrent_state, relative_values, solve, stationary
from osml.dispatch.mdp.phases import Phases
from osml.dispatch.mdp.sweeps import rate_at

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_MAX_DOUBLINGS = 80


def linear_solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """X of matrix x = right."""
    return np.linalg.solve(matrix, right).astype(np.float64, copy=False)


@dataclass(frozen=True)
class Tail:
    """Levels that are all alike. Matrices are (phases, phases), vectors (phases,).

    up: rates to the level above. passage: G, the phase in which the level below is first reached. time: mean time until
    then. folded: U, a level with all excursions above it folded in. growth: what one more waiting job adds to the
    relative value of a phase, up to a constant that all phases share.
    """

    up: FloatArray
    passage: FloatArray
    folded: FloatArray
    time: FloatArray
    growth: FloatArray

    def first_sums(self, level: int) -> FloatArray:
        """(jobs x time, time) from `level`, the lowest of the tail, until the level below it. (phases, 2)"""
        cost = linear_solve(self.folded - self.up, level + self.up @ self.time)
        return np.stack([cost, self.time], axis=1)

    def rate_matrix(self) -> FloatArray:
        """R: probabilities of a level are those of the level below times R."""
        return linear_solve(self.folded.T, self.up.T).T


def build_tail(phases: Phases, post: IntArray) -> Tail:
    """The tail in which a decision in phase s leads to post[s]. Raises InputError when the queue grows for ever."""
    up, same, down = _blocks(phases, post)
    if not _is_stable(up, same, down):
        raise InputError("the queue grows without bound under this policy: use the slow servers above some threshold")
    passage = _first_passage(up, same, down)
    local = same + up @ passage
    np.fill_diagonal(local, 0.0)
    folded = np.diag(local.sum(axis=1) + down.sum(axis=1)) - local
    time = linear_solve(folded - up, np.ones(phases.size))
    state = recurrent_state(passage)
    drift = time - stationary(passage, state) @ time
    return Tail(up, passage, folded, time, relative_values(passage, state, drift))


def _blocks(phases: Phases, post: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rates up, within and down, of any level from the number of servers + 1 on."""
    blocks = np.zeros((3, phases.size, phases.size))
    events = phases.events
    level = phases.servers + 1
    for s in range(phases.size):
        for e in range(int(events.first[s]), int(events.first[s + 1])):
            to = int(events.target[e])
            to = int(post[to]) if events.decides[e] else to
            rate = rate_at(
                level,
                float(events.unit[e]),
                int(events.weight[e]),
                int(phases.n_fastest[s]),
                int(phases.n_slow_busy[s]),
            )
            blocks[1 - int(events.delta[e]), s, to] += rate
    return blocks[0], blocks[1], blocks[2]


def _is_stable(up: FloatArray, same: FloatArray, down: FloatArray) -> bool:
    whole = up + same + down
    shares = stationary(whole, recurrent_state(whole))
    return float(shares @ up.sum(axis=1)) < float(shares @ down.sum(axis=1))


def _solve(p: FloatArray, exits: FloatArray, b: FloatArray) -> FloatArray:
    pivots = np.empty(len(exits))
    factor(p, exits, pivots)
    solve(p, pivots, b)
    return b


def _first_passage(up: FloatArray, same: FloatArray, down: FloatArray) -> FloatArray:
    """G, by doubling the distance that is looked at."""
    m = len(up)
    b = _solve(same.copy(), (up + down).sum(axis=1), np.hstack([up, down]))
    rise, fall = b[:, :m].copy(), b[:, m:].copy()
    passage, reach = fall.copy(), rise.copy()
    for _ in range(_MAX_DOUBLINGS):
        rise_twice, fall_twice = rise @ rise, fall @ fall
        exits = (rise_twice + fall_twice).sum(axis=1)
        b = _solve(rise @ fall + fall @ rise, exits, np.hstack([rise_twice, fall_twice]))
        rise, fall = b[:, :m].copy(), b[:, m:].copy()
        passage += reach @ fall
        reach = reach @ rise
        if reach.max() < 1e-18:
            break
    return passage / passage.sum(axis=1, keepdims=True)
