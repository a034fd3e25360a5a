"""Level by level through the chain: first-passage matrices, costs, relative values and probabilities.

Down from the truncation to a centre, G_n: where the chain is when it first gets from level n to n - 1. Up from level 0
to the centre, the mirror image. At the centre a closed chain is left, whose states are likely ones: nothing is measured
against a state that is never seen (which would lose all digits in large farms and near saturation).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osml.base.jit import unlocked
from osml.dispatch.mdp.elimination import factor, solve, solve_left

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@unlocked
def rate_at(level: int, unit: float, weight: int, n_fastest: int, n_slow_busy: int) -> float:
    """Rate of an event with `level` jobs in system."""
    if weight == 0:
        return unit
    busy = min(level - n_slow_busy, n_fastest)
    return unit * busy if weight == 1 else unit * (n_fastest - busy)


@unlocked
def _load(
    level: int,
    up_leaves: bool,
    down_leaves: bool,
    first: IntArray,
    unit: FloatArray,
    weight: IntArray,
    delta: IntArray,
    decides: IntArray,
    target: IntArray,
    n_fastest: IntArray,
    n_slow_busy: IntArray,
    post: IntArray,
    size: int,
    above: FloatArray,
    above_sums: FloatArray,
    below: FloatArray,
    below_sums: FloatArray,
    p: FloatArray,
    exits: FloatArray,
    b: FloatArray,
) -> None:
    """Fill the chain on one level: neighbours are folded in by their first-passage matrices, or left for.

    b: columns 0..m-1 the rates of leaving by target, m the cost (jobs), m+1 the time, both with the excursions.
    """
    m = p.shape[0]
    p[:size, :size] = 0.0
    exits[:size] = 0.0
    b[:size, :] = 0.0
    for s in range(size):
        b[s, m] = level
        b[s, m + 1] = 1.0
        for e in range(first[s], first[s + 1]):
            rate = rate_at(level, unit[e], weight[e], n_fastest[s], n_slow_busy[s])
            if rate == 0.0:
                continue
            change = delta[e]
            to = post[level + change, target[e]] if decides[e] else target[e]
            if change == 0:
                p[s, to] += rate
            elif (change > 0 and up_leaves) or (change < 0 and down_leaves):
                b[s, to] += rate
                exits[s] += rate
            elif change > 0:
                for j in range(size):
                    p[s, j] += rate * above[to, j]
                b[s, m] += rate * above_sums[to, 0]
                b[s, m + 1] += rate * above_sums[to, 1]
            else:
                for j in range(size):
                    p[s, j] += rate * below[to, j]
                b[s, m] += rate * below_sums[to, 0]
                b[s, m + 1] += rate * below_sums[to, 1]


@unlocked
def eliminate(
    top: int,
    centre: int,
    sizes: IntArray,
    first: IntArray,
    unit: FloatArray,
    weight: IntArray,
    delta: IntArray,
    decides: IntArray,
    target: IntArray,
    n_fastest: IntArray,
    n_slow_busy: IntArray,
    post: IntArray,
    passage: FloatArray,
    tail_sums: FloatArray,
    lu: FloatArray,
    pivots: FloatArray,
    sums: FloatArray,
    middle: FloatArray,
    middle_sums: FloatArray,
) -> None:
    """Both sweeps. passage and tail_sums: G, cost and time of level top + 1.

    Results: lu and pivots (factors of every level but the centre), sums[n]: (cost, time) until the neighbouring level
    on the centre's side, middle: the closed chain at the centre with its (cost, time) rates.
    """
    m = passage.shape[0]
    exits, b = np.empty(m), np.empty((m, m + 2))
    nothing, no_sums = np.zeros((m, m)), np.zeros((m, 2))
    above, above_sums = passage.copy(), tail_sums.copy()
    for level in range(top, centre, -1):
        size = sizes[level]
        _load(
            level,
            False,
            True,
            first,
            unit,
            weight,
            delta,
            decides,
            target,
            n_fastest,
            n_slow_busy,
            post,
            size,
            above,
            above_sums,
            nothing,
            no_sums,
            lu[level],
            exits,
            b,
        )
        factor(lu[level, :size, :size], exits[:size], pivots[level, :size])
        solve(lu[level, :size, :size], pivots[level, :size], b[:size])
        above[:size] = b[:size, :m]
        above_sums[:size] = b[:size, m:]
        sums[level, :size] = b[:size, m:]
    below, below_sums = nothing, no_sums
    for level in range(centre):
        size = sizes[level]
        _load(
            level,
            True,
            False,
            first,
            unit,
            weight,
            delta,
            decides,
            target,
            n_fastest,
            n_slow_busy,
            post,
            size,
            nothing,
            no_sums,
            below,
            below_sums,
            lu[level],
            exits,
            b,
        )
        factor(lu[level, :size, :size], exits[:size], pivots[level, :size])
        solve(lu[level, :size, :size], pivots[level, :size], b[:size])
        if level == 0:
            below, below_sums = np.zeros((m, m)), np.zeros((m, 2))
        below[:size] = b[:size, :m]
        below_sums[:size] = b[:size, m:]
        sums[level, :size] = b[:size, m:]
    _load(
        centre,
        False,
        False,
        first,
        unit,
        weight,
        delta,
        decides,
        target,
        n_fastest,
        n_slow_busy,
        post,
        sizes[centre],
        above,
        above_sums,
        below,
        below_sums,
        middle,
        exits,
        b,
    )
    middle_sums[:, :] = b[:, m:]


@unlocked
def _step(
    level: int,
    change: int,
    size: int,
    values: FloatArray,
    first: IntArray,
    unit: FloatArray,
    weight: IntArray,
    delta: IntArray,
    decides: IntArray,
    target: IntArray,
    n_fastest: IntArray,
    n_slow_busy: IntArray,
    post: IntArray,
    out: FloatArray,
) -> None:
    """out[s, 0] = sum over the events of s that change the level so: rate times the value where they lead."""
    for s in range(size):
        total = 0.0
        for e in range(first[s], first[s + 1]):
            if delta[e] == change:
                rate = rate_at(level, unit[e], weight[e], n_fastest[s], n_slow_busy[s])
                if rate != 0.0:
                    to = post[level + change, target[e]] if decides[e] else target[e]
                    total += rate * values[to]
        out[s, 0] = total


@unlocked
def spread_values(
    top: int,
    centre: int,
    sizes: IntArray,
    first: IntArray,
    unit: FloatArray,
    weight: IntArray,
    delta: IntArray,
    decides: IntArray,
    target: IntArray,
    n_fastest: IntArray,
    n_slow_busy: IntArray,
    post: IntArray,
    lu: FloatArray,
    pivots: FloatArray,
    sums: FloatArray,
    gain: float,
    h: FloatArray,
) -> None:
    """From relative values at the centre to those of levels 0 to top."""
    x = np.empty((h.shape[1], 1))
    for step in range(1, top + 1):
        for level in (centre + step, centre - step):
            if level < 0 or level > top:
                continue
            size = sizes[level]
            change = -1 if level > centre else 1
            _step(
                level,
                change,
                size,
                h[level + change],
                first,
                unit,
                weight,
                delta,
                decides,
                target,
                n_fastest,
                n_slow_busy,
                post,
                x,
            )
            solve(lu[level, :size, :size], pivots[level, :size], x[:size])
            for s in range(size):
                h[level, s] = x[s, 0] + sums[level, s, 0] - gain * sums[level, s, 1]


@unlocked
def _flow(
    level: int,
    change: int,
    size: int,
    weights: FloatArray,
    first: IntArray,
    unit: FloatArray,
    weight: IntArray,
    delta: IntArray,
    decides: IntArray,
    target: IntArray,
    n_fastest: IntArray,
    n_slow_busy: IntArray,
    post: IntArray,
    out: FloatArray,
) -> None:
    """Probability flow from one level to its neighbour."""
    out[:] = 0.0
    for s in range(size):
        for e in range(first[s], first[s + 1]):
            if delta[e] == change:
                rate = rate_at(level, unit[e], weight[e], n_fastest[s], n_slow_busy[s])
                if rate != 0.0:
                    to = post[level + change, target[e]] if decides[e] else target[e]
                    out[to] += weights[s] * rate


@unlocked
def spread_probabilities(
    top: int,
    centre: int,
    sizes: IntArray,
    first: IntArray,
    unit: FloatArray,
    weight: IntArray,
    delta: IntArray,
    decides: IntArray,
    target: IntArray,
    n_fastest: IntArray,
    n_slow_busy: IntArray,
    post: IntArray,
    lu: FloatArray,
    pivots: FloatArray,
    shares: FloatArray,
) -> None:
    """From stationary probabilities at the centre to those of levels 0 to top. shares: (levels, phases)."""
    out = np.empty(shares.shape[1])
    for step in range(1, top + 1):
        for level in (centre + step, centre - step):
            if level < 0 or level > top:
                continue
            source, change = (level - 1, 1) if level > centre else (level + 1, -1)
            _flow(
                source,
                change,
                sizes[source],
                shares[source],
                first,
                unit,
                weight,
                delta,
                decides,
                target,
                n_fastest,
                n_slow_busy,
                post,
                out,
            )
            size = sizes[level]
            solve_left(lu[level, :size, :size], pivots[level, :size], out[:size])
            shares[level, :size] = out[:size]
