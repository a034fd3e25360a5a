"""What each row of a partition adds to E_S at least."""

from __future__ import annotations

import math

import numpy as np

from osml.base.jit import compiled
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.oracle.bounds import Bounds
from osml.simulator.oracle.environment import times_of
from osml.simulator.oracle.partitions import outcome
from osml.simulator.state import Node


@compiled
def _add_services(
    partitions: IntArray,
    times_s: FloatArray,
    keys_s: FloatArray,
    values: FloatArray,
    alone: FloatArray,
    found: FloatArray,
) -> None:
    """Add to `found` what the services contribute: the greater of `alone` and the curve's value at the service time."""
    for k in range(len(partitions)):
        for i in range(times_s.shape[1]):
            cores, way = partitions[k, i, 0] - 1, partitions[k, i, 1] - 1
            low, high = 0, keys_s.shape[2]
            while high - low > 1:
                middle = (low + high) // 2
                if keys_s[i, cores, middle] <= times_s[k, i]:
                    low = middle
                else:
                    high = middle
            found[k] += max(values[i, cores, low], alone[i, cores, way])


class Contributions:
    """Lower bounds of E_S, for partitions in which any service may miss its target."""

    def __init__(self, node: Node, bounds: Bounds, solo_rates: list[float]) -> None:
        self._node, self._bounds, self._solo_rates = node, bounds, solo_rates
        self._weight = outcome([math.inf], [1.0], [1.0] if node.jobs else []).e_s / len(node.services)
        self.of_jobs = self._of_jobs()

    def _missing(self, service: int, tails_ms: FloatArray) -> FloatArray:
        return self._weight * np.maximum(0.0, 1.0 - self._node.services[service].target_ms / tails_ms)

    def _of_jobs(self) -> FloatArray:
        """(1, cores, ways) of the row that all BE jobs share, (0, cores, ways) where there are none."""
        platform = self._node.platform
        if not self._solo_rates:
            return np.empty((0, platform.cpus, platform.ways))
        slow = np.maximum(1.0, np.array(self._solo_rates)[:, None, None] / self._bounds.rates_alone()).sum(0)
        share = 1.0 - self._weight * len(self._node.services)
        return (share * (1.0 - len(self._solo_rates) / slow))[None]

    def prepare(self) -> FloatArray:
        """What services contribute alone, (services, cores, ways); to be called before `of_partitions`."""
        services = range(len(self._node.services))
        curves = [self._bounds.curve(i) for i in services]
        alone = [found.capped(self._bounds.tails_alone(i)) for i, found in zip(services, curves, strict=True)]
        self._alone = np.stack([self._missing(i, tails) for i, tails in enumerate(alone)])
        self._keys = np.stack([found.times_s for found in curves])
        self._values = np.stack([self._missing(i, found.tails_ms) for i, found in zip(services, curves, strict=True)])
        self._demands = self._bounds.demands(feasible=False)
        return self._alone

    def of_partitions(self, partitions: IntArray) -> FloatArray:
        """Lower bounds of E_S of many partitions (partitions, rows, 2), beside the least that services do together."""
        n = len(self._node.services)
        times = np.zeros((len(partitions), n))
        times_of(self._demands, partitions, False, times)
        found = np.zeros(len(partitions))
        if len(self.of_jobs):
            found += self.of_jobs[0][partitions[:, n, 0] - 1, partitions[:, n, 1] - 1]
        _add_services(partitions, self._bounds.granted(times), self._keys, self._values, self._alone, found)
        return found
