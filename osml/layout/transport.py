"""The transport problem in small integers: which class of things goes to which place at the least cost.

CPUs (or mask bits) with the same history are one class, so the tables stay tiny (a handful of rows) however large the
machine is, and a plain successive-shortest-path solver is exact and fast enough to run in every decision.
"""

from __future__ import annotations

Table = list[list[int]]

_FAR = 1 << 60


def transport(supply: list[int], demand: list[int], cost: Table) -> Table:
    """Cheapest integral shipment: `flow[row][column]` with row sums `supply` and column sums `demand`.

    Costs are >= 0. Raises ValueError when supply and demand do not add up to the same total.
    """
    if sum(supply) != sum(demand):
        raise ValueError(f"supply adds up to {sum(supply)}, demand to {sum(demand)}; they must be equal")
    left, open_ = list(supply), list(demand)
    flow = [[0] * len(demand) for _ in supply]
    # What costs nothing first: flow on free arcs alone leaves no cheaper cycle behind, so the result stays optimal, and
    # where nothing has changed since the last call everything is done here.
    for row, prices in enumerate(cost):
        for column, price in enumerate(prices):
            if price == 0 and left[row] and open_[column]:
                _ship(flow, left, open_, [(row, column)], min(left[row], open_[column]))
    while any(left):
        path = _cheapest_path(flow, left, open_, cost)
        _ship(flow, left, open_, path, _capacity(flow, left, open_, path))
    return flow


def _cheapest_path(flow: Table, left: list[int], open_: list[int], cost: Table) -> list[tuple[int, int]]:
    """Arcs of the cheapest way from a row with supply to a column with demand: forward, back, forward, ..."""
    row_cost = [0 if rest else _FAR for rest in left]
    column_cost = [_FAR] * len(open_)
    into_column, into_row = [-1] * len(open_), [-1] * len(left)
    changed = True
    while changed:
        changed = False
        for row, base in enumerate(row_cost):
            if base == _FAR:
                continue
            for column, price in enumerate(cost[row]):
                if base + price < column_cost[column]:
                    column_cost[column], into_column[column], changed = base + price, row, True
        for row, shipped in enumerate(flow):
            for column, amount in enumerate(shipped):
                if amount and column_cost[column] - cost[row][column] < row_cost[row]:
                    row_cost[row], into_row[row], changed = column_cost[column] - cost[row][column], column, True
    column = min((c for c, rest in enumerate(open_) if rest), key=lambda c: (column_cost[c], c))
    path: list[tuple[int, int]] = []
    while True:
        row = into_column[column]
        path.append((row, column))
        if into_row[row] < 0 or (left[row] and row_cost[row] == 0):
            return path[::-1]
        column = into_row[row]
        path.append((row, column))


def _capacity(flow: Table, left: list[int], open_: list[int], path: list[tuple[int, int]]) -> int:
    """How much fits through a path: the ends' rests, and what flows on the arcs that are walked backwards."""
    back = [flow[row][column] for row, column in path[1::2]]
    return min([left[path[0][0]], open_[path[-1][1]], *back])


def _ship(flow: Table, left: list[int], open_: list[int], path: list[tuple[int, int]], amount: int) -> None:
    for step, (row, column) in enumerate(path):
        flow[row][column] += amount if step % 2 == 0 else -amount
    left[path[0][0]] -= amount
    open_[path[-1][1]] -= amount
