"""The exact best partition of a mix (docs/reference/labels.md has the argument).

Feasible mixes: branch and bound on cost. Cells that a service cannot meet its target with, beside the least that the
others can do to it, are left out; a first feasible partition bounds what everybody can get, which makes "the least"
more, and so on. What is left is evaluated in the order of cost on whole nodes until a feasible one is found.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from osml.failure import InputError
from osml.virtual.columns import IntArray
from osml.virtual.oracle.bounds import Bounds
from osml.virtual.oracle.enumerate import of_cost
from osml.virtual.oracle.least_entropy import least_entropy
from osml.virtual.oracle.partitions import Evaluator, Outcome
from osml.virtual.state import Node

_ROUNDS = 8


class Answer(NamedTuple):
    """The best partition, (services + 1, 2) cores and ways with what BE jobs share in the last row, and its outcome.

    `cost` is the share of the platform's cores plus that of its ways which LC services hold. `missing` says, where the
    mix is infeasible, what is known to be missing, in sentences. `nodes` are whole nodes that were settled, `cells`
    evaluations of one service for bounds.
    """

    partition: IntArray
    outcome: Outcome
    cost: float
    missing: list[str]
    nodes: int
    cells: int
    seconds: float


class Search:
    """One search; `best()` answers."""

    def __init__(self, node: Node, loads: Mapping[str, float]) -> None:
        platform = node.platform
        self.node, self.n, self.jobs = node, len(node.services), int(bool(node.jobs))
        rows = self.n + self.jobs
        for what, total in (("cores", platform.cpus), ("ways", platform.ways), ("cache groups", platform.max_groups)):
            if rows > total:
                raise InputError(f"{rows} isolated parts are wanted, {platform.id} has {total} {what}")
        if not self.n:
            raise InputError("the mix has no LC service, expected at least one NAME=LOAD")
        self.total = np.array([platform.cpus, platform.ways], np.int64)
        unit = math.gcd(platform.cpus, platform.ways)
        self.price = self.total[::-1] // unit  # whole numbers with the ratio of 1/cores to 1/ways
        self.evaluate = Evaluator(node, loads)
        self.bounds = Bounds(node, loads)
        self.missing: list[str] = []

    def cost(self, partition: IntArray) -> int:
        """Cost of the LC services in whole units."""
        return int((partition[: self.n] @ self.price).sum())

    def whole(self, cells: IntArray) -> IntArray:
        """Cells of the services with the row of the BE jobs: all that is left."""
        rest = self.total - cells.sum(0) if self.jobs else np.zeros(2, np.int64)
        return np.vstack([cells, rest])

    def _cells(self, need: IntArray, most: IntArray) -> IntArray:
        """Rows (cores, ways, cost) that may do, in lexicographic order."""
        ways = np.arange(1, len(need) + 1)
        rows = [
            (cores, way, cores * self.price[0] + way * self.price[1])
            for cores in range(1, int(most[0]) + 1)
            for way in ways[: most[1]][(need[: most[1]] > 0) & (need[: most[1]] <= cores)]
        ]
        return np.array(rows, np.int64).reshape(-1, 3)

    def _candidates(self, upper: int | None) -> list[IntArray] | None:
        """Cells of each service that may be part of an answer of at most `upper` cost; None where there is none."""
        most = np.tile(self.total - (self.n - 1) - self.jobs, (self.n, 1))
        room = self.total - self.jobs
        cells: list[IntArray] = []
        for _ in range(_ROUNDS):
            before = most.copy()
            least_ways = 0 if not cells else sum(int(rows[:, 1].min()) for rows in cells)
            job_cores, job_ways = self.jobs, int(self.total[1]) - max(least_ways, self.n)
            if cells and self.jobs:
                most_cores = min(int(room[0]), int(most[:, 0].sum()))
                if upper is not None:
                    most_cores = min(most_cores, (upper - least_ways * int(self.price[1])) // int(self.price[0]))
                job_cores = max(1, int(self.total[0]) - most_cores)
            cells = [
                self._cells(self.bounds.fewest_cores(i, most, job_cores, job_ways), most[i]) for i in range(self.n)
            ]
            empty = [i for i in range(self.n) if not len(cells[i])]
            if empty:
                self._say_hopeless(empty)
                return None
            least = np.array([rows.min(0) for rows in cells])
            if np.any(least[:, :2].sum(0) > room):
                self._say_short(least)
                return None
            for i in range(self.n):
                others = least.sum(0) - least[i]
                rows = cells[i]
                fits = np.all(rows[:, :2] <= room - others[:2], 1)
                if upper is not None:
                    fits &= rows[:, 2] <= upper - others[2]
                cells[i] = rows[fits]
                if not len(cells[i]):
                    return None
                most[i] = cells[i][:, :2].max(0)
            if np.array_equal(before, most):
                break
        return cells

    def _climb(self, cells: list[IntArray]) -> tuple[IntArray, Outcome] | None:
        """A feasible partition, not necessarily the best: grow what fails, then shrink; None where it gets stuck."""
        at = np.array([rows[rows[:, 2].argmin(), :2] for rows in cells])
        targets = [service.target_ms for service in self.node.services]
        steps = np.array([(1, 0), (0, 1)])
        room = self.total - self.jobs
        if np.any(at.sum(0) > room):
            return None
        found = self.evaluate(self.whole(at))
        while not found.feasible:
            worst = int(np.argmax([tail / target for tail, target in zip(found.tails_ms, targets, strict=True)]))
            tries: list[tuple[float, IntArray, Outcome]] = []
            for step in steps:
                trial = at.copy()
                trial[worst] += step
                if np.all(trial.sum(0) <= room):
                    reached = self.evaluate(self.whole(trial))
                    tries.append((reached.tails_ms[worst] * float(step @ self.price), trial, reached))
            if not tries:
                return None
            _, at, found = min(tries, key=lambda entry: entry[0])
        return self._shrink(at, found)

    def _shrink(self, at: IntArray, found: Outcome) -> tuple[IntArray, Outcome]:
        shrunk = True
        while shrunk:
            shrunk = False
            for i in range(self.n):
                for step in np.array([(1, 0), (0, 1)]):
                    trial = at.copy()
                    trial[i] -= step
                    if np.all(trial >= 1) and (reached := self.evaluate(self.whole(trial))).feasible:
                        at, found, shrunk = trial, reached, True
        return at, found

    def cheapest(self) -> tuple[IntArray, Outcome] | None:
        """The feasible partition of the least cost, then E_S, then lexicographically first; None without any."""
        cells = self._candidates(None)
        if cells is None:
            return None
        first = self._climb(cells)
        upper = None if first is None else self.cost(first[0])
        if upper is not None:
            cells = self._candidates(upper) or cells
        low = sum(int(rows[:, 2].min()) for rows in cells)
        high = sum(int(rows[:, 2].max()) for rows in cells) if upper is None else upper
        room = self.total - self.jobs
        for wanted in range(low, high + 1):
            best: tuple[IntArray, Outcome] | None = None
            for choice in of_cost(cells, wanted, int(room[0]), int(room[1])):
                found = self.evaluate(self.whole(choice))
                if found.feasible and (best is None or found.e_s < best[1].e_s):
                    best = self.whole(choice), found
                    if found.e_s == 0.0:
                        break  # nothing is better, and the first of equals is wanted
            if best is not None:
                return best
        return None

    def _say_hopeless(self, services: list[int]) -> None:
        for i in services:
            service = self.node.services[i]
            self.missing.append(
                f"{service.name} misses its {service.percentile} of {service.target_ms:g} ms with any allocation that "
                f"leaves a core and a way for each of the others"
            )

    def _say_short(self, least: IntArray) -> None:
        for k, what in enumerate(("cores", "ways")):
            wanted, there = int(least[:, k].sum()) + self.jobs, int(self.total[k])
            if wanted > there:
                each = ", ".join(f"{s.name} {least[i, k]}" for i, s in enumerate(self.node.services))
                jobs = ", BE jobs 1" if self.jobs else ""
                self.missing.append(f"at least {wanted} {what} are needed ({each}{jobs}), there are {there}")


def best_partition(node: Node, loads: Mapping[str, float]) -> Answer:
    """The exact best partition of a node under loads (fractions of max load).

    Feasible: the least cost (share of cores plus share of ways that LC services hold), ties by E_S, then the
    lexicographically first (cores and ways of the first service, of the second, ...). Otherwise the least E_S among
    partitions that leave nothing idle, ties by cost, then lexicographically. Raises InputError on impossible mixes.
    """
    start = time.perf_counter()
    search = Search(node, loads)
    found = search.cheapest() or least_entropy(node, search.evaluate, search.bounds)
    partition, reached = found
    if not reached.feasible and not search.missing:
        search.missing.append("no partition meets all targets; the services slow each other down by clock and memory")
    held = partition[: search.n].sum(0) / search.total
    return Answer(
        partition, reached, float(held.sum()), search.missing, search.evaluate.nodes, search.bounds.cells,
        time.perf_counter() - start,
    )  # fmt: skip
