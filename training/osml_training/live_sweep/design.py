"""Which allocation to measure next, so that few of them give the labels that all of them would give.

More cores or ways never make a service slower. So a cell that meets the target says that every larger one does, and a
cell that misses it says that every smaller one does. Four stages:

1. the largest cell, then always the unknown cell that decides most others, whatever it turns out to be: the frontier;
2. the corners of the frontier and what the loss of a core, a way, or both leads to: RCliff;
3. the cheapest cell that can lose one of each, and these losses: OAA;
4. the cells below the OAA within the largest tolerated slowdown: B-points.

A cell is (cores, ways) from 0 here: index 0 is one unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from osml.frontier import SLOWDOWNS
from osml.frontier.grid import LOSSES
from osml.frontier.labels import optimal_area

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Cell = tuple[int, int]


def next_cell(latency_ms: Floats, target_ms: float, allowed: Bools) -> Cell | None:
    """The cell to measure next; None where the labels need no more.

    `latency_ms` is (cores, ways), NaN where a cell was not measured, infinite where nothing was answered. Cells that
    are not `allowed` are never proposed, and nothing is said about them.
    """
    open_cells = allowed & np.isnan(latency_ms)
    top = largest(allowed)
    if top is None:
        return None
    if open_cells[top]:
        return top
    if not latency_ms[top] <= target_ms:
        return None  # no cell meets the target
    meets, misses = known(latency_ms, target_ms)
    unknown = open_cells & ~meets & ~misses
    if unknown.any():
        return _most_decisive(unknown)
    for needed in (_corners(meets), _optimal(meets), _below(latency_ms, meets)):
        for cell in needed:
            if open_cells[cell]:
                return cell
    return None


def every_cell(latency_ms: Floats, target_ms: float, allowed: Bools) -> Cell | None:
    """The same for a sweep of all cells: the largest that was not measured."""
    del target_ms
    return largest(allowed & np.isnan(latency_ms))


def largest(allowed: Bools) -> Cell | None:
    """The allowed cell with most of everything: of the largest sum of shares. None where no cell is allowed."""
    if not allowed.any():
        return None
    cores, ways = np.indices(allowed.shape)
    share = (cores + 1) / allowed.shape[0] + (ways + 1) / allowed.shape[1]
    row, column = np.unravel_index(int(np.where(allowed, share, -1.0).argmax()), allowed.shape)
    return int(row), int(column)


def known(latency_ms: Floats, target_ms: float) -> tuple[Bools, Bools]:
    """Which cells meet the target and which miss it, measured or by monotonicity.

    What was measured of a cell counts before what others say of it. Where two others contradict each other, nothing is
    known.
    """
    measured = ~np.isnan(latency_ms)
    good = measured & (latency_ms <= target_ms)
    bad = measured & ~good
    above, below = _at_least(good), _at_least(bad[::-1, ::-1])[::-1, ::-1]
    meets, misses = good | (above & ~bad), bad | (below & ~good)
    contradiction = meets & misses
    return meets & ~contradiction, misses & ~contradiction


def _at_least(cells: Bools) -> Bools:
    """Cells with at least the cores and the ways of one of these."""
    return np.logical_or.accumulate(np.logical_or.accumulate(cells, 0), 1)


def _most_decisive(unknown: Bools) -> Cell:
    """The unknown cell whose worse answer decides most unknown cells: a bisection in two directions."""
    count = unknown.astype(np.int64)
    smaller = count.cumsum(0).cumsum(1)
    larger = count[::-1, ::-1].cumsum(0).cumsum(1)[::-1, ::-1]
    worth = np.where(unknown, np.minimum(smaller, larger), -1)
    row, column = np.unravel_index(int(worth.argmax()), unknown.shape)
    return int(row), int(column)


def _losses(cell: Cell) -> Iterator[Cell]:
    for cores, ways in LOSSES:
        if cell[0] >= cores and cell[1] >= ways:
            yield cell[0] - cores, cell[1] - ways


def _corners(meets: Bools) -> Iterator[Cell]:
    """Cells that meet the target and can lose neither a core nor a way, each with its losses."""
    for row, column in np.argwhere(meets).tolist():
        if (row and meets[row - 1, column]) or (column and meets[row, column - 1]):
            continue
        yield row, column
        yield from _losses((row, column))


def _optimum(meets: Bools) -> Cell | None:
    cores, ways = (int(value) for value in optimal_area(np.where(meets, 0.0, np.inf), 1.0))
    return (cores - 1, ways - 1) if cores else None


def _optimal(meets: Bools) -> Iterator[Cell]:
    cell = _optimum(meets)
    if cell is not None:
        yield cell
        yield from _losses(cell)


def _below(latency_ms: Floats, meets: Bools) -> Iterator[Cell]:
    """From the OAA downwards, as long as a cell is within the largest tolerated slowdown; then its neighbours below."""
    start = _optimum(meets)
    if start is None or math.isnan(latency_ms[start]):
        return
    most_ms = (1.0 + max(SLOWDOWNS)) * latency_ms[start]
    waiting, seen = [start], {start}
    while waiting:
        cell = waiting.pop(0)
        if not latency_ms[cell] <= most_ms:
            if math.isnan(latency_ms[cell]):
                yield cell
            continue
        for below in ((cell[0] - 1, cell[1]), (cell[0], cell[1] - 1)):
            if min(below) >= 0 and below not in seen:
                seen.add(below)
                waiting.append(below)


def expected_cells(n_cores: int, n_ways: int) -> int:
    """About how many cells a surface takes: before anything is known, for a promise of time."""
    if n_ways == 1:
        return min(n_cores, math.ceil(math.log2(n_cores + 1)) + 4)
    return min(n_cores * n_ways, n_cores + n_ways)
