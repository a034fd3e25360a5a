"""The partitions that CLITE chooses from: every resource cut into one part for each LC service and one for all BE jobs.

A *point* is a partition as integers, shape (resources, parts); many points have shape (n, resources, parts).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.allocation.compositions import Cut, Units, cut_of, draw_cuts, with_parts
from osml.allocation.division import Division
from osml.allocation.fair import equal_split
from osml.allocation.holding import POOL, Holding
from osml.allocation.limits import Limits

STEPS = (1, 2, 4)  # units that a neighbour differs by
MAX_NEIGHBOURS = 256  # of one point


class Kept(NamedTuple):
    """One part of a point that others shall have in common with it (dropout-copy)."""

    part: int
    point: Units  # (resources, parts)


class Space:
    """All legal points of one set of services, limits and platform."""

    def __init__(self, cuts: Sequence[Cut]) -> None:
        self.cuts = list(cuts)
        self.parts = self.cuts[0].parts if self.cuts else []
        self.least = np.array([cut.least for cut in self.cuts]).reshape(self.shape)
        self.most = np.array([cut.most for cut in self.cuts]).reshape(self.shape)
        self.totals = np.array([cut.total for cut in self.cuts])

    @property
    def shape(self) -> tuple[int, int]:
        """Resources, parts."""
        return len(self.cuts), len(self.parts)

    @property
    def free(self) -> list[int]:
        """Indices of the parts that may differ between points."""
        return [part for part in range(len(self.parts)) if (self.most > self.least)[:, part].any()]

    def scaled(self, points: Units) -> NDArray[np.float64]:
        """Points as shares of the platform, shape (n, resources * parts): what the surrogate model sees."""
        return (points / self.totals[:, None]).reshape(len(points), -1)

    def equal(self) -> Units:
        """The first bootstrap point: equal parts, as far as limits allow; the BE jobs count as one."""
        return np.array([self._split(cut, None) for cut in self.cuts])

    def extreme(self, part: int) -> Units:
        """A bootstrap point: this part has as much of everything as it may, the others have the least."""
        return np.array([self._split(cut, part) for cut in self.cuts])

    def _split(self, cut: Cut, largest: int | None) -> list[int]:
        limits = {name: Limits(*bounds) for name, *bounds in zip(cut.parts, cut.least, cut.most, strict=True)}
        if largest is not None:
            name = cut.parts[largest]
            most = min(cut.most[largest], cut.total - sum(cut.least) + cut.least[largest])
            limits[name] = Limits(most, most)
        return list(equal_split(cut.total, cut.parts, limits).values())

    def draw(self, count: int, rng: np.random.Generator, kept: Kept | None) -> Units:
        """Points drawn uniformly, (count, resources, parts)."""
        drawn = [
            draw_cuts(cut if kept is None else _with(cut, kept.part, int(kept.point[at, kept.part])), count, rng)
            for at, cut in enumerate(self.cuts)
        ]
        return np.stack(drawn, axis=1)

    def neighbours(self, points: Units, rng: np.random.Generator, kept: Kept | None) -> Units:
        """Legal points that differ from one of these by a few units of one resource moved between two parts."""
        moves = self._moves(kept)
        if len(moves) > MAX_NEIGHBOURS:
            moves = rng.choice(moves, MAX_NEIGHBOURS, replace=False)
        found = (points[:, None] + moves[None]).reshape(-1, *self.shape)
        return found[((found >= self.least) & (found <= self.most)).all(axis=(1, 2))]

    def _moves(self, kept: Kept | None) -> Units:
        movable = [part for part in self.free if kept is None or part != kept.part]
        givers, takers = np.nonzero(~np.eye(len(movable), dtype=bool))
        moves = np.zeros((len(self.cuts), len(STEPS), len(givers), *self.shape), dtype=np.int64)
        pairs = np.arange(len(givers))
        for resource in range(len(self.cuts)):
            for at, step in enumerate(STEPS):
                moves[resource, at, pairs, resource, np.array(movable, dtype=int)[givers]] = -step
                moves[resource, at, pairs, resource, np.array(movable, dtype=int)[takers]] = step
        return moves.reshape(-1, *self.shape)


def space_of(division: Division) -> Space:
    """The points that a division could take, resource by resource in its order."""
    return Space([_cut(division, holding)[0] for holding in division.holdings.values()])


def take_up(division: Division, point: Units) -> None:
    """Let the division be what the point says."""
    for (resource, holding), counts in zip(division.holdings.items(), point, strict=True):
        cut, units = _cut(division, holding)
        division.holdings[resource] = with_parts(holding, cut, (counts * units).tolist())


def _cut(division: Division, holding: Holding) -> tuple[Cut, int]:
    """The cuts of a holding, and how many of its units one of theirs is.

    Slices of CPU time are cut in whole cores where the limits let them; what is left over is the pool's.
    """
    cut, units = cut_of(holding), division.core_units if holding.resource == "cores" else 1
    least, most = [-(-count // units) for count in cut.least], [count // units for count in cut.most]
    whole = Cut(cut.parts, cut.total // units, least, most)
    fits = sum(least) <= whole.total <= sum(most) and all(low <= high for low, high in zip(least, most, strict=True))
    return (whole, units) if fits else (cut, 1)


def part_label(part: str, jobs: Sequence[str]) -> str:
    """A part in words."""
    if part != POOL:
        return part
    return f"be:{','.join(jobs)}" if jobs else "idle"


def _with(cut: Cut, part: int, units: int) -> Cut:
    least, most = list(cut.least), list(cut.most)
    least[part] = most[part] = units
    return cut._replace(least=least, most=most)
