"""Linear systems of Markov chains, solved without a subtraction (Grassmann, Taksar, Heyman).

A chain on m states leaves state i for state j at rate p[i, j] and leaves the set at rate exits[i]. With D the diagonal
of all rates out of a state, D - p is an M-matrix. Its pivots are summed from rates instead of being differences: so
each entry of a solution is right to nearly all digits, however rare the state. Diagonals of p are ignored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osml.base.jit import unlocked

FloatArray = NDArray[np.float64]


@unlocked
def factor(p: FloatArray, exits: FloatArray, pivots: FloatArray) -> None:
    """LU of D - p in place: pivots, and in p what is above them and the multipliers below. Uses up `exits`."""
    m = exits.shape[0]
    for k in range(m):
        pivot = exits[k]
        for j in range(k + 1, m):
            pivot += p[k, j]
        pivots[k] = pivot
        for i in range(k + 1, m):
            share = p[i, k] / pivot
            p[i, k] = share
            if share != 0.0:
                for j in range(k + 1, m):
                    p[i, j] += share * p[k, j]
                exits[i] += share * exits[k]


@unlocked
def solve(p: FloatArray, pivots: FloatArray, b: FloatArray) -> None:
    """Replace b (m, columns) by the solution x of (D - p) x = b."""
    m, columns = b.shape
    for k in range(m):
        for i in range(k + 1, m):
            share = p[i, k]
            if share != 0.0:
                for c in range(columns):
                    b[i, c] += share * b[k, c]
    for k in range(m - 1, -1, -1):
        for j in range(k + 1, m):
            rate = p[k, j]
            if rate != 0.0:
                for c in range(columns):
                    b[k, c] += rate * b[j, c]
        for c in range(columns):
            b[k, c] /= pivots[k]


@unlocked
def solve_left(p: FloatArray, pivots: FloatArray, c: FloatArray) -> None:
    """Replace c (m,) by the solution x of x (D - p) = c."""
    m = c.shape[0]
    for k in range(m):
        c[k] /= pivots[k]
        for j in range(k + 1, m):
            c[j] += c[k] * p[k, j]
    for k in range(m - 1, -1, -1):
        for i in range(k + 1, m):
            c[k] += c[i] * p[i, k]


@unlocked
def _without(p: FloatArray, state: int, exits: FloatArray) -> FloatArray:
    """The chain without one state; going there counts as leaving."""
    m = p.shape[0]
    rest = np.empty((m - 1, m - 1))
    for i in range(m - 1):
        row = i if i < state else i + 1
        exits[i] = p[row, state]
        for j in range(m - 1):
            rest[i, j] = p[row, j if j < state else j + 1]
    return rest


@unlocked
def stationary(p: FloatArray, state: int) -> FloatArray:
    """Stationary distribution of a closed chain; `state` has to be recurrent."""
    m = p.shape[0]
    result = np.ones(m)
    if m > 1:
        exits, pivots, weights = np.empty(m - 1), np.empty(m - 1), np.empty(m - 1)
        rest = _without(p, state, exits)
        for i in range(m - 1):
            weights[i] = p[state, i if i < state else i + 1]
        factor(rest, exits, pivots)
        solve_left(rest, pivots, weights)
        for i in range(m - 1):
            result[i if i < state else i + 1] = weights[i]
    return result / result.sum()


@unlocked
def relative_values(p: FloatArray, state: int, costs: FloatArray) -> FloatArray:
    """Expected cost until `state` is reached, of a closed chain with a cost rate per state."""
    m = p.shape[0]
    result = np.zeros(m)
    if m > 1:
        exits, pivots, sums = np.empty(m - 1), np.empty(m - 1), np.empty((m - 1, 1))
        rest = _without(p, state, exits)
        for i in range(m - 1):
            sums[i, 0] = costs[i if i < state else i + 1]
        factor(rest, exits, pivots)
        solve(rest, pivots, sums)
        for i in range(m - 1):
            result[i if i < state else i + 1] = sums[i, 0]
    return result


@unlocked
def recurrent_state(p: FloatArray) -> int:
    """A likely state that the chain comes back to: the likeliest one after a few hundred jumps."""
    m = p.shape[0]
    jumps = p.copy()
    fastest = 0.0
    for i in range(m):
        jumps[i, i] = 0.0
        fastest = max(fastest, jumps[i].sum())
    for i in range(m):
        jumps[i] /= fastest
        jumps[i, i] = 1.0 - jumps[i].sum() if jumps[i].sum() < 1.0 else 0.0
    weights = np.full(m, 1.0 / m)
    for _ in range(256):
        after = np.zeros(m)
        for i in range(m):
            for j in range(m):
                after[j] += weights[i] * jumps[i, j]
        weights = after
    return int(np.argmax(weights))
