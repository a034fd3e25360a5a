"""Everything about a state except the number in system, enumerated, with the events that can happen.

Classes are (kind, mode) pairs, fastest first. Class 0 never idles while jobs wait (the paper's footnote 2), so its busy
servers follow from the level and aren't enumerated. Phases are sorted by the busy servers of the other classes: those
that exist at a low level are a prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.dispatch.mdp.model import Farm

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

UP, SAME, DOWN = 1, 0, -1
FIXED, PER_BUSY_FASTEST, PER_IDLE_FASTEST = 0, 1, 2
MEMORY_LIMIT = 1 << 30
"""Bytes that the factors of a solve may take."""
_FEWEST_LEVELS = 64
# Four events for each (class, mode) pair at most; an event needs about this many bytes while it is collected.
_BYTES_PER_EVENT = 400

Phase = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Environment, servers per class, busy servers per class from 1 on."""


@dataclass(frozen=True)
class Events:
    """What can happen in each phase. Events of phase s are first[s]:first[s+1].

    The rate is unit[e] times 1, times the busy servers of class 0, or times its idle ones (weight). delta: change of
    level. decides: whether the controller may send a waiting job to a slower server right after.
    """

    first: IntArray
    unit: FloatArray
    weight: IntArray
    delta: IntArray
    decides: IntArray
    target: IntArray


@dataclass(frozen=True)
class Phases:
    """The phases of a farm. gain[s, j]: phase after a job goes to an idle server of class j; -1 without one."""

    listed: tuple[Phase, ...]
    index: dict[Phase, int]
    classes: tuple[tuple[int, int], ...]
    class_rates: tuple[float, ...]
    servers: int
    n_fastest: IntArray
    n_slow_busy: IntArray
    gain: IntArray
    events: Events

    @property
    def size(self) -> int:
        """Number of phases."""
        return len(self.listed)

    def exist_at(self, level: int) -> int:
        """How many phases (a prefix) exist with so many jobs in system."""
        return int(np.searchsorted(self.n_slow_busy, level, side="right"))


def count_phases(farm: Farm) -> int:
    """Number of phases, without listing them."""
    fastest = max(max(kind.rates) for kind in farm.kinds)
    total, seen = len(farm.environment), False
    for kind in farm.kinds:
        boxes = 2 * len(kind.rates)
        if not seen and fastest in kind.rates:
            boxes, seen = boxes - 1, True
        total *= comb(kind.count + boxes - 1, boxes - 1)
    return total


def memory_needed(size: int, levels: int) -> int:
    """Bytes for the factors of so many levels, of one round and of the round before it."""
    return 2 * levels * (8 * size * size + 4 * 8 * size)


def enumerate_phases(farm: Farm) -> Phases:
    """List phases and events. Raises InputError when a solve would need more than a GiB."""
    size = count_phases(farm)
    needed = memory_needed(size, farm.servers + _FEWEST_LEVELS) + size * _BYTES_PER_EVENT * 8
    if needed > MEMORY_LIMIT:
        raise InputError(
            f"servers is {farm.servers}: {size} states a level need at least {needed / 2**30:.1f} GiB, limit "
            f"{MEMORY_LIMIT / 2**30:g} GiB; solve for fewer servers"
        )
    pairs = [(k, m) for k, kind in enumerate(farm.kinds) for m in range(len(kind.rates))]
    classes = tuple(sorted(pairs, key=lambda pair: -farm.kinds[pair[0]].rates[pair[1]]))
    listed = tuple(sorted(_all_phases(farm, classes), key=lambda phase: (sum(phase[2]), phase)))
    index = {phase: i for i, phase in enumerate(listed)}
    gain = np.full((len(listed), len(classes)), -1, dtype=np.int64)
    for s, (environment, counts, busy) in enumerate(listed):
        for j in range(1, len(classes)):
            if busy[j - 1] < counts[j]:
                gain[s, j] = index[environment, counts, _shifted(busy, j - 1, 1)]
    return Phases(
        listed,
        index,
        classes,
        tuple(farm.kinds[k].rates[m] for k, m in classes),
        farm.servers,
        np.array([phase[1][0] for phase in listed], dtype=np.int64),
        np.array([sum(phase[2]) for phase in listed], dtype=np.int64),
        gain,
        _events(farm, classes, listed, index),
    )


def _all_phases(farm: Farm, classes: tuple[tuple[int, int], ...]) -> Iterator[Phase]:
    """Each way to spread the servers of each kind over (mode, busy or idle); class 0 unsplit."""
    boxes = [(j, part) for j in range(len(classes)) for part in ((0,) if j == 0 else (0, 1))]

    def extend(kind: int, counts: list[int], busy: list[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        if kind == len(farm.kinds):
            yield tuple(counts), tuple(busy[1:])
            return
        own = [box for box in boxes if classes[box[0]][0] == kind]
        n_servers = farm.kinds[kind].count
        for bars in combinations(range(n_servers + len(own) - 1), len(own) - 1):
            edges = (-1, *bars, n_servers + len(own) - 1)
            more_counts, more_busy = counts.copy(), busy.copy()
            for (j, part), low, high in zip(own, edges, edges[1:], strict=False):
                more_counts[j] += high - low - 1
                more_busy[j] += part * (high - low - 1)
            yield from extend(kind + 1, more_counts, more_busy)

    for environment in range(len(farm.environment)):
        for counts, busy in extend(0, [0] * len(classes), [0] * len(classes)):
            yield environment, counts, busy


def _shifted(values: tuple[int, ...], at: int, by: int) -> tuple[int, ...]:
    return (*values[:at], values[at] + by, *values[at + 1 :])


def _events(
    farm: Farm, classes: tuple[tuple[int, int], ...], listed: tuple[Phase, ...], index: dict[Phase, int]
) -> Events:
    anytime = int(farm.epochs == "anytime")
    rows: list[tuple[float, int, int, int, int]] = []
    first = [0]
    for s, (environment, counts, busy) in enumerate(listed):
        rows.append((farm.arrival, FIXED, UP, 1, s))
        if counts[0]:
            rows.append((_rate(farm, classes[0]), PER_BUSY_FASTEST, DOWN, anytime, s))
        for j in range(1, len(classes)):
            if busy[j - 1]:
                after = index[environment, counts, _shifted(busy, j - 1, -1)]
                rows.append((busy[j - 1] * _rate(farm, classes[j]), FIXED, DOWN, 1, after))
        for a, b, rate in _switches(farm, classes, environment):
            if counts[a]:
                rows += _moves(environment, counts, busy, a, b, rate, anytime, index)
        for other, rate in enumerate(farm.environment[environment]):
            if other != environment and rate > 0:
                rows.append((rate, FIXED, SAME, anytime, index[other, counts, busy]))
        first.append(len(rows))
    columns = list(zip(*rows, strict=True))
    whole = [np.array(column, dtype=np.int64) for column in columns[1:]]
    return Events(np.array(first, dtype=np.int64), np.array(columns[0], dtype=np.float64), *whole)


def _rate(farm: Farm, pair: tuple[int, int]) -> float:
    return farm.kinds[pair[0]].rates[pair[1]]


def _switches(farm: Farm, classes: tuple[tuple[int, int], ...], environment: int) -> Iterator[tuple[int, int, float]]:
    """Pairs of classes between which a server of this environment goes, and the rate."""
    for a, (kind, mode) in enumerate(classes):
        for b, (other, after) in enumerate(classes):
            if kind == other and mode != after:
                rate = farm.kinds[kind].switching[environment][mode][after]
                if rate > 0:
                    yield a, b, rate


def _moves(
    environment: int,
    counts: tuple[int, ...],
    busy: tuple[int, ...],
    a: int,
    b: int,
    rate: float,
    anytime: int,
    index: dict[Phase, int],
) -> list[tuple[float, int, int, int, int]]:
    """A server, idle or busy, goes from class a to class b."""
    moved = _shifted(_shifted(counts, a, -1), b, 1)
    rows: list[tuple[float, int, int, int, int]] = []
    idle = 1 if a == 0 else counts[a] - busy[a - 1]
    working = 1 if a == 0 else busy[a - 1]
    weights = (PER_IDLE_FASTEST, PER_BUSY_FASTEST) if a == 0 else (FIXED, FIXED)
    if idle:
        # An idle server that became faster is a reason to ask; the fastest class takes a job unasked.
        asked = int(anytime or 0 < b < a)
        rows.append((rate * idle, weights[0], SAME, asked, index[environment, moved, busy]))
    if working:
        after = busy if a == 0 else _shifted(busy, a - 1, -1)
        after = after if b == 0 else _shifted(after, b - 1, 1)
        rows.append((rate * working, weights[1], SAME, anytime, index[environment, moved, after]))
    return rows
