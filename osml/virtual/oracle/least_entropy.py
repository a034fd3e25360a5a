"""The partition of the least E_S, for mixes that cannot meet all targets.

Best first over a lower bound: each service as if it were alone on its cores and ways, at the clock that the power of
all together leaves at most; each BE job as if the others did not slow it down. Everything whose bound is below the best
E_S so far is settled on the whole node.
"""

from __future__ import annotations

import math

import numpy as np

from osml.virtual.columns import FloatArray, IntArray
from osml.virtual.oracle.bounds import TOLERANCE, Bounds
from osml.virtual.oracle.enumerate import between
from osml.virtual.oracle.partitions import Evaluator, Outcome, outcome
from osml.virtual.oracle.stand_ins import shares_of_jobs
from osml.virtual.state import Node

_ROOM = 1 << 16
_CLOCKS = 7
_SMALLEST_STEP = 1e-6


class _Contributions:
    """What each row of a partition adds to E_S at least, with so many cores and ways and at a clock."""

    def __init__(self, node: Node, bounds: Bounds) -> None:
        platform = node.platform
        self._node, self._bounds = node, bounds
        self._weight = outcome([math.inf], [1.0], [1.0] if node.jobs else []).e_s / len(node.services)
        self._clocks = np.linspace(platform.frequency_ghz, platform.turbo_ghz, _CLOCKS)
        self._tables: dict[int, FloatArray] = {}
        self._power = [bounds.power_alone(i) for i in range(len(node.services))]
        self._job_power = np.array(
            [
                sum(
                    cpus * job.memory.power
                    for cpus, job in zip(shares_of_jobs(node.jobs, cores), node.jobs, strict=True)
                )
                for cores in range(platform.cpus + 1)
            ]
        )

    def of_services(self, clock: int) -> FloatArray:
        """(services, cores, ways) at the clock of this index; the last is the turbo clock."""
        if clock not in self._tables:
            limit = None if clock == _CLOCKS - 1 else float(self._clocks[clock])
            rows = [
                self._weight * np.maximum(0.0, 1.0 - service.target_ms / self._bounds.tails_alone(i, limit))
                for i, service in enumerate(self._node.services)
            ]
            self._tables[clock] = np.stack(rows)
        return self._tables[clock]

    def of_jobs(self, solo_rates: list[float]) -> FloatArray:
        """(1, cores, ways) of the row that all BE jobs share, (0, cores, ways) where there are none."""
        platform = self._node.platform
        if not solo_rates:
            return np.empty((0, platform.cpus, platform.ways))
        slow = np.maximum(1.0, np.array(solo_rates)[:, None, None] / self._bounds.rates_alone()).sum(0)
        share = 1.0 - self._weight * len(self._node.services)
        return (share * (1.0 - len(solo_rates) / slow))[None]

    def sharper(self, partitions: IntArray, jobs: FloatArray) -> FloatArray:
        """Lower bounds of E_S of many partitions (partitions, rows, 2), at the clock that their power allows."""
        platform, n = self._node.platform, len(self._node.services)
        cells = partitions - 1
        power = self._job_power[partitions[:, n, 0]] if len(jobs) else np.zeros(len(partitions))
        for i in range(n):
            power = power + self._power[i][cells[:, i, 0], cells[:, i, 1]]
        fall = (platform.turbo_ghz - platform.frequency_ghz) * np.minimum(1.0, power / platform.physical_cores)
        level = np.searchsorted(self._clocks, (platform.turbo_ghz - fall) * (1.0 + TOLERANCE))
        level = np.minimum(level, _CLOCKS - 1)
        bounds = jobs[0][cells[:, n, 0], cells[:, n, 1]] if len(jobs) else np.zeros(len(partitions))
        for clock in np.unique(level):
            chosen = level == clock
            table = self.of_services(int(clock))
            for i in range(n):
                bounds[chosen] += table[i][cells[chosen, i, 0], cells[chosen, i, 1]]
        return bounds


def least_entropy(node: Node, evaluate: Evaluator, bounds: Bounds) -> tuple[IntArray, Outcome]:
    """The partition of the least E_S that leaves nothing idle, then of the least cost, then the first of them."""
    contributions = _Contributions(node, bounds)
    jobs = contributions.of_jobs(evaluate.solo_rates)
    values = np.concatenate([contributions.of_services(_CLOCKS - 1), jobs])
    price = np.array([node.platform.ways, node.platform.cpus])
    low, step, room = float(values.min((1, 2)).sum()), 1e-2, _ROOM
    best: tuple[tuple[float, int, list[list[int]]], IntArray, Outcome] | None = None
    while best is None or low <= best[0][0]:
        high = low + step if best is None else min(low + step, math.nextafter(best[0][0], math.inf))
        listed = between(values, low, high, room)
        if listed is None:  # too many at once: a narrower band, or, where they are all alike, more room
            step, room = (step / 4.0, room) if step > _SMALLEST_STEP else (step, room * 4)
            continue
        sharp = contributions.sharper(listed, jobs)
        for i in np.argsort(sharp, kind="stable"):
            if best is not None and sharp[i] > best[0][0]:
                break
            partition = listed[i] if node.jobs else np.vstack([listed[i], np.zeros((1, 2), np.int64)])
            found = evaluate(partition)
            cost = int((partition[: len(node.services)] @ price).sum())
            key = (found.e_s, cost, partition.tolist())
            if best is None or key < best[0]:
                best = key, partition, found
        low, step = high, step * 1.5
    return best[1], best[2]
