"""Which partitions may meet all targets, in the kindest environment that they leave."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.oracle.bounds import Bounds
from osml.simulator.oracle.deadline import Deadline
from osml.simulator.oracle.enumerate import between
from osml.simulator.oracle.environment import Demands, times_of

_ROOM = 1 << 18


class _Tables(NamedTuple):
    demands: Demands
    longest_s: FloatArray


class Fitting:
    """Sorts partitions out whose services cannot meet their targets together. Its tables are made when first needed."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._services = len(bounds.node.services)

    @cached_property
    def _tables(self) -> _Tables:
        return _Tables(self._bounds.demands(feasible=True), self._bounds.longest_times())

    def slowness(self, partitions: IntArray) -> FloatArray:
        """The greatest ratio of a service's time to that at which it misses its target, (partitions,).

        At 1 and above a partition (rows, 2) certainly misses one.
        """
        return self._ratio(partitions, self._tables.longest_s, apart=False)

    def _ratio(self, partitions: IntArray, longest_s: FloatArray, *, apart: bool) -> FloatArray:
        n = self._services
        times = np.zeros((len(partitions), n))
        times_of(self._tables.demands, partitions, apart, times)
        longest = longest_s[np.arange(n), partitions[:, :n, 0] - 1]
        with np.errstate(divide="ignore"):
            return (self._bounds.granted(times) / longest).max(1)

    def largest(self, needs: list[IntArray], deadline: Deadline) -> IntArray | None:
        """Partitions that leave one core and way to the BE jobs and nothing idle, and that may meet all targets.

        Where there is none, no smaller partition meets them either: nobody gains by having less, as long as no two
        services share a physical core, which is left out here. `needs[i]` are the fewest cores by ways (0: not to be
        had). None where there are too many to look at, or the deadline passed. The least slow come first.
        """
        platform, n = self._bounds.node.platform, self._services
        jobs = int(bool(self._bounds.node.jobs))
        values = np.full((n, platform.cpus, platform.ways), np.inf)
        cores = np.arange(1, platform.cpus + 1)
        for i, need in enumerate(needs):
            allowed = (need > 0) & (cores[:, None] >= need)
            values[i, :, : len(need)][allowed] = 0.0
        listed = between(values[:, : platform.cpus - jobs, : platform.ways - jobs], 0.0, 1.0, _ROOM, deadline)
        if listed is None or deadline.passed:
            return None
        if not len(listed):
            return listed
        # The bound holds for all partitions within these, so jobs count with the one core that they have at least, and
        # with the misses of the most ways that they may get.
        rows = np.tile(np.array([1, platform.ways - n]), (len(listed), 1, 1)) if jobs else np.empty((len(listed), 0, 2))
        whole = np.concatenate([listed, rows.astype(np.int64)], 1)
        longest = np.maximum.accumulate(self._tables.longest_s, 1)
        slowness = self._ratio(whole, longest, apart=True)
        order = np.argsort(slowness, kind="stable")
        return listed[order[: int((slowness < 1.0).sum())]]
