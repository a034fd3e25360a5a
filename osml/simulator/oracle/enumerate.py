"""All partitions that are worth a look, by depth-first search over services with what is certain as pruning."""

from __future__ import annotations

import numpy as np

from osml.base.jit import compiled
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.oracle.deadline import Deadline


@compiled
def _of_cost(
    cells: IntArray,
    counts: IntArray,
    least: IntArray,
    wanted: int,
    cores: int,
    ways: int,
    found: IntArray,
    most_steps: int,
) -> tuple[int, int]:
    """Choose one cell (cores, ways, cost) for each service, of `wanted` cost together, within cores and ways.

    `cells` is (services, cells, 3) in lexicographic order, `least` (services + 1, 3) the least that the services from i
    on need. Fills `found` (room, services, 2); returns how many there are, also those without room, and how many steps
    were taken. After `most_steps` it ends, whatever is left.
    """
    n = len(counts)
    at = np.zeros(n, np.int64)
    left = np.zeros((n + 1, 3), np.int64)
    left[0, 0], left[0, 1], left[0, 2] = cores, ways, wanted
    depth, number, steps = 0, 0, 0
    while depth >= 0 and steps < most_steps:
        steps += 1
        if at[depth] >= counts[depth]:
            depth -= 1
            if depth >= 0:
                at[depth] += 1
            continue
        cell = cells[depth, at[depth]]
        fits = True
        for k in range(3):
            left[depth + 1, k] = left[depth, k] - cell[k]
            fits = fits and left[depth + 1, k] >= least[depth + 1, k]
        if depth < n - 1:
            if fits:
                depth += 1
                at[depth] = 0
            else:
                at[depth] += 1
            continue
        if fits and left[n, 2] == 0:
            if number < len(found):
                for i in range(n):
                    found[number, i, 0], found[number, i, 1] = cells[i, at[i], 0], cells[i, at[i], 1]
            number += 1
        at[depth] += 1
    return number, steps


def of_cost(cells: list[IntArray], wanted: int, cores: int, ways: int, deadline: Deadline) -> IntArray:
    """All choices of one cell a service of exactly the `wanted` cost, in lexicographic order, (choices, services, 2).

    `cells[i]` has rows (cores, ways, cost) in lexicographic order. Some are missing where the deadline has passed.
    """
    n = len(cells)
    counts = np.array([len(rows) for rows in cells], np.int64)
    table = np.zeros((n, int(counts.max()), 3), np.int64)
    least = np.zeros((n + 1, 3), np.int64)
    for i in range(n - 1, -1, -1):
        table[i, : counts[i]] = cells[i]
        least[i] = least[i + 1] + cells[i].min(0)
    room = 1024
    while True:
        found = np.zeros((room, n, 2), np.int64)
        number, steps = _of_cost(table, counts, least, wanted, cores, ways, found, deadline.steps_left)
        deadline.spend(steps=steps)
        if number <= room or deadline.passed:
            return found[: min(number, room)]
        room = number


@compiled
def _between(
    values: FloatArray,
    suffix: FloatArray,
    low: float,
    high: float,
    cores: int,
    ways: int,
    found: IntArray,
    most_steps: int,
) -> tuple[int, int]:
    """Hand out all cores and ways so that the sum of values is at least `low` and less than `high`.

    `values` is (rows, cores, ways): what a row of a partition costs at least; the last row takes what is left.
    `suffix[i]` is the least that the rows from i on can cost. Returns how many there are, also those without room, and
    how many steps were taken. After `most_steps` it ends, whatever is left.
    """
    n = len(values)
    cell = np.ones((n, 2), np.int64)
    left = np.zeros((n + 1, 2), np.int64)
    left[0, 0], left[0, 1] = cores, ways
    so_far = np.zeros(n + 1)
    depth, number, steps = 0, 0, 0
    while depth >= 0 and steps < most_steps:
        steps += 1
        rows_after = n - 1 - depth
        if depth == n - 1:
            cell[depth, 0], cell[depth, 1] = left[depth, 0], left[depth, 1]
            total = so_far[depth] + values[depth, cell[depth, 0] - 1, cell[depth, 1] - 1]
            if low <= total < high:
                if number < len(found):
                    found[number] = cell
                number += 1
            depth -= 1
            if depth >= 0:
                cell[depth, 1] += 1
            continue
        if cell[depth, 1] > left[depth, 1] - rows_after:
            cell[depth, 1] = 1
            cell[depth, 0] += 1
        if cell[depth, 0] > left[depth, 0] - rows_after:
            depth -= 1
            if depth >= 0:
                cell[depth, 1] += 1
            continue
        so_far[depth + 1] = so_far[depth] + values[depth, cell[depth, 0] - 1, cell[depth, 1] - 1]
        if so_far[depth + 1] + suffix[depth + 1] >= high:
            cell[depth, 1] += 1
            continue
        left[depth + 1, 0] = left[depth, 0] - cell[depth, 0]
        left[depth + 1, 1] = left[depth, 1] - cell[depth, 1]
        depth += 1
        cell[depth, 0] = cell[depth, 1] = 1
    return number, steps


def between(values: FloatArray, low: float, high: float, room: int, deadline: Deadline) -> IntArray | None:
    """All partitions, nothing idle, whose rows cost at least `low` and less than `high` together.

    `values` (rows, cores, ways) is a lower bound of what each row contributes with so many cores and ways. None where
    there are more than `room` of them. Some are missing where the deadline has passed.
    """
    n, cores, ways = values.shape
    suffix = np.append(np.cumsum(values.min((1, 2))[::-1])[::-1], 0.0)
    found = np.zeros((room, n, 2), np.int64)
    number, steps = _between(values, suffix, low, high, cores, ways, found, deadline.steps_left)
    deadline.spend(steps=steps)
    return found[:number] if number <= room else None
