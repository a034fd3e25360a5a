"""The exact best partition of a mix into isolated parts (docs/reference/labels.md has the argument).

Feasible mixes: branch and bound on cost. Cells that a service cannot meet its target with, beside the least that the
others can do to it, are left out; a first feasible partition bounds what everybody can get, which makes "the least"
more, and so on. What is left and may meet all targets in its kindest environment is settled on whole nodes, in the
order of cost, until a feasible one is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from osml.base.failure import InputError
from osml.simulator.columns import IntArray
from osml.simulator.oracle.bounds import Bounds
from osml.simulator.oracle.contributions import Contributions
from osml.simulator.oracle.deadline import Deadline
from osml.simulator.oracle.enumerate import of_cost
from osml.simulator.oracle.fitting import Fitting
from osml.simulator.oracle.least_entropy import Least, least_entropy
from osml.simulator.oracle.partitions import Evaluator, Outcome
from osml.simulator.state import Node

_ROUNDS = 8
_TRIES = 32
"""Largest partitions from which a first feasible one is sought."""

_FIRST_PART = 0.6
"""Of the time: how long a feasible partition is sought before it goes to the least E_S."""

_TOGETHER = "no partition meets all targets; the services contend for clock frequency and memory"


class Answer(NamedTuple):
    """The best partition, (services + 1, 2) cores and ways with what BE jobs share in the last row, and its outcome.

    `cost` is the share of the platform's cores plus that of its ways which LC services hold. `missing` says, where the
    mix is infeasible, what is known to be missing, in sentences. `nodes` are whole nodes that were settled, `cells`
    evaluations of one service for bounds. Where the time was up before the search had ended, `proven` is False: nothing
    better was found until then, which says nothing of what was not tried.
    """

    partition: IntArray
    outcome: Outcome
    cost: float
    missing: list[str]
    nodes: int
    cells: int
    seconds: float
    proven: bool = True


class Search:
    """One search. `proven` is False once something was left out for want of time."""

    def __init__(self, node: Node, loads: Mapping[str, float], deadline: Deadline) -> None:
        platform = node.platform
        self.node, self.n, self.jobs = node, len(node.services), int(bool(node.jobs))
        rows = self.n + self.jobs
        for what, total in (("cores", platform.cpus), ("ways", platform.ways), ("cache groups", platform.max_groups)):
            if rows > total:
                raise InputError(f"the mix needs {rows} isolated parts, {platform.id} has only {total} {what}")
        if not self.n:
            raise InputError("the mix has no LC service, expected at least one NAME=LOAD")
        self.total = np.array([platform.cpus, platform.ways], np.int64)
        unit = math.gcd(platform.cpus, platform.ways)
        self.price = self.total[::-1] // unit  # whole numbers with the ratio of 1/cores to 1/ways
        self.evaluate = Evaluator(node, loads)
        self.bounds = Bounds(node, loads)
        self.fitting = Fitting(self.bounds)
        self.contributions = Contributions(node, self.bounds, self.evaluate.solo_rates)
        self.deadline = deadline
        self.proven = True
        self.missing: list[str] = []
        self._needs: list[IntArray] = []

    def cost(self, partition: IntArray) -> int:
        """Cost of the LC services in whole units."""
        return int((partition[: self.n] @ self.price).sum())

    def whole(self, cells: IntArray) -> IntArray:
        """Cells of the services with the row of the BE jobs: all that is left."""
        rest = self.total - cells.sum(0) if self.jobs else np.zeros(2, np.int64)
        return np.vstack([cells, rest])

    def even(self) -> IntArray:
        """Equal shares, the first ones larger where they cannot be."""
        rows = self.n + self.jobs
        shares = self.total // rows + (np.arange(rows)[:, None] < self.total % rows)
        return shares if self.jobs else np.vstack([shares, np.zeros((1, 2), np.int64)])

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
            self._needs = [self.bounds.fewest_cores(i, most, job_cores, job_ways) for i in range(self.n)]
            cells = [self._cells(need, most[i]) for i, need in enumerate(self._needs)]
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

    def _first(self, cells: list[IntArray]) -> tuple[IntArray, Outcome] | None:
        """A feasible partition to begin with; None where none is found or, then `missing` says so, there is none."""
        self.deadline.say("searching for a first feasible partition")
        found = self._climb(cells)
        if found is not None:
            return found
        largest = self.fitting.largest(self._needs, self.deadline)
        if largest is None:
            return None
        if not len(largest):
            self.missing.append(_TOGETHER)
            return None
        for at in largest[:_TRIES]:
            if (reached := self.evaluate(self.whole(at))).feasible:
                return self._shrink(at, reached)
        return None

    def cheapest(self) -> tuple[IntArray, Outcome] | None:
        """The feasible partition of the least cost, then E_S, then lexicographically first; None without any."""
        self.deadline.say("computing bounds on the need of each service")
        cells = self._candidates(None)
        if cells is None:
            return None
        first = self._first(cells)
        if first is None and self.missing:
            return None
        upper = None if first is None else self.cost(first[0])
        if upper is not None:
            cells = self._candidates(upper) or cells
        low = sum(int(rows[:, 2].min()) for rows in cells)
        high = sum(int(rows[:, 2].max()) for rows in cells) if upper is None else upper
        for wanted in range(low, high + 1):
            self.deadline.say(f"trying partitions of cost {wanted / self.total[0] / self.price[0]:.3f} of 2")
            best = self._of_cost(cells, wanted)
            if best is not None and self.proven:
                return best
            if not self.proven:
                return best if best is not None or first is None else (self.whole(first[0]), first[1])
        return None

    def _of_cost(self, cells: list[IntArray], wanted: int) -> tuple[IntArray, Outcome] | None:
        """The best feasible partition of this cost."""
        cores, ways = (self.total - self.jobs).tolist()
        choices = of_cost(cells, wanted, cores, ways, self.deadline)
        if self.deadline.passed:
            self.proven = False
            return None
        if self.jobs:
            choices = np.concatenate([choices, self.total - choices.sum(1, keepdims=True)], 1)
        self.deadline.spend(listed=len(choices))
        choices = choices[self.fitting.slowness(choices) < 1.0]
        least = np.zeros(len(choices))
        if self.jobs:
            least = self.contributions.of_jobs[0][choices[:, -1, 0] - 1, choices[:, -1, 1] - 1]
        best: tuple[tuple[float, list[list[int]]], IntArray, Outcome] | None = None
        for k in np.argsort(least, kind="stable"):
            if best is not None and (least[k] > best[0][0] or not self.jobs):
                break  # without jobs all are alike, and the first is wanted
            if self.deadline.passed:
                self.proven = False
                break
            partition = choices[k] if self.jobs else self.whole(choices[k])
            found = self.evaluate(partition)
            self.deadline.spend(nodes=1)
            key = found.e_s, partition.tolist()
            if found.feasible and (best is None or key < best[0]):
                best = key, partition, found
        return None if best is None else (best[1], best[2])

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


def best_partition(
    node: Node,
    loads: Mapping[str, float],
    limit_s: float | None = None,
    say: Callable[[str], None] | None = None,
    limit_work: int | None = None,
) -> Answer:
    """The exact best partition of a node into isolated parts, under loads (fractions of max load).

    Feasible: the least cost (share of cores plus share of ways that LC services hold), ties by E_S, then the
    lexicographically first (cores and ways of the first service, of the second, ...). Otherwise the least E_S among
    partitions that leave nothing idle, ties by cost, then lexicographically. After `limit_s` seconds (looked at between
    batches), or `limit_work` units of work (see `Deadline`), the best so far is the answer, and not `proven`. `say` is
    told what the search does. Raises InputError on impossible mixes.
    """
    if limit_s is not None and not limit_s >= 0:
        raise InputError(f"limit_s is {limit_s}, expected a number of seconds, 0 or more")
    deadline = Deadline(limit_s, say, limit_work)
    search = Search(node, loads, deadline.share(_FIRST_PART))
    found, proven = search.cheapest(), search.proven
    if found is None:
        least = least_entropy(node, search.evaluate, search.contributions, deadline)
        if least is None:
            even = search.even()
            least = Least(even, search.evaluate(even), False)
        found, proven = (least.partition, least.outcome), proven and least.proven
    partition, reached = found
    if not reached.feasible:
        if not search.proven:
            search.missing.append("no feasible partition was found; search incomplete")
        elif not search.missing:
            search.missing.append(_TOGETHER)
    held = partition[: search.n].sum(0) / search.total
    return Answer(
        partition,
        reached,
        float(held.sum()),
        search.missing,
        search.evaluate.nodes,
        search.bounds.cells,
        deadline.elapsed_s,
        proven,
    )
