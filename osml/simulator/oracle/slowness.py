"""How slow a service may become: its tail latency as a function of cores and service time alone.

Clock, memory and cache reach a queue through nothing but the service time. So a service alone on so many cores and all
ways, slowed down by its clock, shows what any environment with that service time does to it. The waits outside of the
CPU (disk, network) are those of the service alone, the least that there can be.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.jit import compiled
from osml.simulator import columns as c
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.oracle.settled import SettledNode, place_first, tail_column
from osml.simulator.physics.fixed_point import Work
from osml.simulator.state import Node
from osml.simulator.steady import settle_node

POINTS = 64
_CLOSE_POINTS = 52
"""Of the points: those between the target and an intolerance of _CLOSELY, where it is looked at closely."""

_CLOSELY = 0.98
_SLOWEST = 0.1
"""Of the base clock: the slowest that is looked at."""

_STEPS = 16

_DIP = 0.02
"""Where a tail falls while the service slows down (the queue of the last second turns into a backlog at saturation) it
may fall this much further between two of the times."""

_JITTER = 1e-4
"""Relative error of a tail by that of the engine's fixed points: less is no fall."""


class Curve(NamedTuple):
    """For each number of cores the service times in s at which a tail latency in ms is known, (cores, points).

    Times grow; the first is 0 with the tail at the turbo clock. At any service time from one of the times on the tail
    is at least that one's. `falls` (cores, 1): the tail falls somewhere while the service slows down.
    """

    times_s: FloatArray
    tails_ms: FloatArray
    clocks_ghz: FloatArray
    falls: NDArray[np.bool_]

    def capped(self, tails_ms: FloatArray) -> FloatArray:
        """Tails (cores, ways) at the least service times, no higher than any that is certain at longer ones.

        Where tails never fall this changes nothing.
        """
        return np.where(self.falls, np.minimum(tails_ms, self.tails_ms.min(1)[:, None]), tails_ms)


@compiled
def _at_clocks(
    platform: FloatArray,
    tenants: FloatArray,
    tables: FloatArray,
    limits: FloatArray,
    order: IntArray,
    arrivals: FloatArray,
    seconds: float,
    state: FloatArray,
    occupancy: FloatArray,
    flows: FloatArray,
    work: Work,
    column: int,
    cores: IntArray,
    clocks: FloatArray,
    times_s: FloatArray,
    tails_ms: FloatArray,
) -> None:
    """Service times and tails of tenant 0, (rows, columns), on cores[row] at clocks[row, column]."""
    users, masks = np.zeros(len(order), np.int64), np.zeros(len(tenants), np.int64)
    last_way = int(platform[c.P_WAYS]) - 1
    for row in range(len(cores)):
        place_first(users, masks, order, cores[row], last_way + 1, last_way)
        for k in range(clocks.shape[1]):
            if k > 0 and clocks[row, k] == clocks[row, k - 1]:
                times_s[row, k], tails_ms[row, k] = times_s[row, k - 1], tails_ms[row, k - 1]
                continue
            limits[0, c.G_CLOCK] = clocks[row, k]
            settle_node(
                platform, tenants, tables, limits, users, masks, arrivals, seconds, state, occupancy, flows, work
            )
            times_s[row, k] = tails_ms[row, k] = np.inf
            if flows[0, c.F_COMPLETED] > 0.0:
                times_s[row, k] = flows[0, c.F_CPU_S] / flows[0, c.F_COMPLETED]
                tails_ms[row, k] = flows[0, column]
    limits[0, c.G_CLOCK] = np.inf


class Slowness:
    """One service alone, at the clocks that are asked for."""

    def __init__(self, node: Node, settled: SettledNode) -> None:
        self._settled = settled
        self._column = tail_column(node, 0)
        self._turbo, self._slowest = node.platform.turbo_ghz, node.platform.frequency_ghz * _SLOWEST
        self.cores = np.arange(1, node.platform.cpus + 1)

    def at(self, cores: IntArray, clocks_ghz: FloatArray) -> Curve:
        """Times and tails at clocks (len(cores), points)."""
        times, tails = np.zeros(clocks_ghz.shape), np.zeros(clocks_ghz.shape)
        self._settled.evaluations += clocks_ghz.size
        _at_clocks(*self._settled.arguments, self._column, cores, clocks_ghz, times, tails)
        return Curve(np.maximum.accumulate(times, 1), tails, clocks_ghz, np.zeros((len(cores), 1), np.bool_))

    def first_above(self, limit_ms: float) -> Curve:
        """By cores the highest clock known at which the tail is above a limit, or the slowest: (cores, 1)."""
        high, low = np.full((len(self.cores), 1), self._turbo), np.full((len(self.cores), 1), self._slowest)
        never = self.at(self.cores, high).tails_ms > limit_ms
        low[never] = self._turbo
        for _ in range(_STEPS):
            middle = np.sqrt(low * high)
            above = self.at(self.cores, middle).tails_ms > limit_ms
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return self.at(self.cores, low)

    def longest_times(self, target_ms: float) -> FloatArray:
        """The shortest service times in s, by cores, that miss the target; 0 where all do, inf where none."""
        first = self.first_above(target_ms).clocks_ghz
        found = self._lowest_beyond(self.at(self.cores, self._spread(first, self._slowest, _CLOSE_POINTS)))
        times = np.where(first >= self._turbo, 0.0, found.times_s)
        missed = found.tails_ms > target_ms
        at = missed.argmax(1)[:, None]
        times = np.where(at == 0, times[:, :1], np.take_along_axis(found.times_s, at, 1))
        return np.where(missed.any(1, keepdims=True), times, np.inf)[:, 0]

    def _spread(self, first: FloatArray, last: FloatArray | float, points: int) -> FloatArray:
        """Clocks from first (cores, 1) to last, closer at first, where the queue grows steeply."""
        return first * (last / first) ** (np.linspace(0.0, 1.0, points) ** 3)

    def _lowest_beyond(self, found: Curve) -> Curve:
        lowest = np.minimum.accumulate(found.tails_ms[:, ::-1], 1)[:, ::-1]
        falls = lowest < found.tails_ms * (1.0 - _JITTER)
        falls[:, 1:] |= falls[:, :-1].copy()
        return found._replace(tails_ms=lowest * (1.0 - _DIP * falls), falls=falls.any(1, keepdims=True))

    def curve(self, target_ms: float) -> Curve:
        """Times and tails around a target, (cores, POINTS)."""
        first = self.first_above(target_ms).clocks_ghz
        last = self.first_above(target_ms / (1.0 - _CLOSELY)).clocks_ghz
        beyond = np.linspace(0.0, 1.0, POINTS - _CLOSE_POINTS)[1:]
        clocks = [
            np.full_like(first, self._turbo),
            self._spread(first, last, _CLOSE_POINTS),
            last * (self._slowest / last) ** beyond,
        ]
        found = self._lowest_beyond(self.at(self.cores, np.concatenate(clocks, 1)))
        found.times_s[:, 0] = 0.0
        return found
