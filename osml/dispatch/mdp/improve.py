"""The other half of policy iteration: in each state the best decision against given relative values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osml.base.jit import unlocked

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TIE = 2e-13
"""Decisions whose values differ by less than this share of the level's largest value count as equal."""


@unlocked
def improve_level(
    level: int,
    size: int,
    values: FloatArray,
    n_fastest: IntArray,
    n_slow_busy: IntArray,
    gain: IntArray,
    repeated: bool,
    choice: IntArray,
    rates: FloatArray,
) -> float:
    """Change `choice` (a class per phase, 0 = wait) where another decision is better; return the largest gain.

    gain[s, j]: phase after a job goes to class j. rates[s]: how often a decision is taken in s; the return value is
    gain times rate. Phases are sorted by busy servers: those that a decision leads to come later.
    """
    n_classes = gain.shape[1]
    scale = 0.0
    for s in range(size):
        scale = max(scale, abs(values[s]))
    best_of = values.copy()
    largest = 0.0
    for s in range(size - 1, -1, -1):
        if level - n_slow_busy[s] <= n_fastest[s]:
            continue
        now = choice[s]
        held = best_of[gain[s, now]] if now > 0 and repeated else (values[gain[s, now]] if now > 0 else values[s])
        best, least = now, held
        for j in range(n_classes):
            to = s if j == 0 else gain[s, j]
            if to < 0:
                continue
            value = values[to] if j == 0 or not repeated else best_of[to]
            if value < least - TIE * scale:
                best, least = j, value
        if best != now:
            choice[s] = best
            largest = max(largest, (held - least) * rates[s])
        best_of[s] = least
    return largest


@unlocked
def improve_levels(
    top: int,
    sizes_at: IntArray,
    values: FloatArray,
    passage: FloatArray,
    first_sums: FloatArray,
    time: FloatArray,
    mean: float,
    n_fastest: IntArray,
    n_slow_busy: IntArray,
    gain: IntArray,
    repeated: bool,
    tail: IntArray,
    quiet: int,
    lowest: int,
    rows: IntArray,
    rates: FloatArray,
) -> tuple[int, float]:
    """Improve every level in `rows` (levels, phases) from 0 on, until the rest agrees with the tail for long enough.

    Values of levels above `top` follow from the tail. quiet: levels above the last one that disagrees with the tail
    which have to agree, besides half its height. lowest: that level is at least this one. Returns (last level that
    disagrees, largest gain); the level is -1 when `rows` is too short to tell.
    """
    m = gain.shape[0]
    last, largest, level = lowest, 0.0, 0
    current = values[0].copy()
    while level <= last + last // 2 + quiet or level <= top:
        if level >= rows.shape[0]:
            return -1, largest
        if level <= top:
            current[:] = values[level]
        else:
            after = np.empty(m)
            for s in range(m):
                total = first_sums[s, 0] + (level - top - 1) * time[s] - mean * first_sums[s, 1]
                for j in range(m):
                    total += passage[s, j] * current[j]
                after[s] = total
            current = after
        size = sizes_at[min(level, sizes_at.shape[0] - 1)]
        row = rows[level]
        largest = max(largest, improve_level(level, size, current, n_fastest, n_slow_busy, gain, repeated, row, rates))
        for s in range(size):
            if level - n_slow_busy[s] > n_fastest[s] and row[s] != tail[s]:
                last = level
                break
        level += 1
    return last, largest
