"""Ways to cut a number of units into parts with limits: drawn uniformly, exactly, and many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.allocation.holding import POOL, Holding

Units = NDArray[np.int64]


class Cut(NamedTuple):
    """One resource as parts that sum up to `total`: part i gets between `least[i]` and `most[i]` units."""

    parts: list[str]  # services with a part of their own, then the pool
    total: int
    least: list[int]
    most: list[int]


def cut_of(holding: Holding) -> Cut:
    """The cuts that a holding allows: every unit in use, unless the operator's limits leave some over.

    Without sharers the pool holds only what nobody may have; with them, it does not outgrow their limits otherwise.
    """
    names = [name for name in holding.own if name not in holding.sharers]
    least, most = [holding.limits[n].least for n in names], [holding.limits[n].most for n in names]
    left_over = max(0, holding.total - sum(most))
    shared_least = max([holding.pool_floor, *(holding.limits[n].least for n in holding.sharers)])
    shared_most = min([holding.total, *(holding.limits[n].most for n in holding.sharers)]) if holding.sharers else 0
    least.append(max(shared_least, left_over))
    most.append(max(shared_most, left_over, least[-1]))
    spare, lacking = holding.total - sum(least), holding.total - sum(most)  # the others' limits bind, too
    bounds = [(max(low, lacking + high), min(high, spare + low)) for low, high in zip(least, most, strict=True)]
    return Cut([*names, POOL], holding.total, [low for low, _ in bounds], [high for _, high in bounds])


def with_parts(holding: Holding, cut: Cut, units: Sequence[int]) -> Holding:
    """The holding after such a cut. `units` are in the order of `cut.parts`."""
    own = dict.fromkeys(holding.own, 0) | {
        name: int(count) for name, count in zip(cut.parts, units, strict=True) if name != POOL
    }
    return holding._replace(own=own)


def draw_cuts(cut: Cut, count: int, rng: np.random.Generator) -> Units:
    """Cuts drawn uniformly from all that are legal, shape (count, parts).

    Counts how many ways the last parts can use up r units (dynamic programming over the parts), then walks through the
    parts, each time with the probability that this count gives. Raises ValueError where no cut is legal.
    """
    spare = cut.total - sum(cut.least)
    room = np.minimum(np.subtract(cut.most, cut.least), max(spare, 0))
    if spare < 0 or room.sum() < spare:
        raise ValueError(f"{cut.total} units can't be cut into parts of {cut.least} to {cut.most}")
    if 2 * spare > room.sum():  # the same from above: few possibilities would drown in the rounding of many
        return room - _drawn(room, int(room.sum()) - spare, count, rng) + np.asarray(cut.least)
    return _drawn(room, spare, count, rng) + np.asarray(cut.least)


def _drawn(room: Units, spare: int, count: int, rng: np.random.Generator) -> Units:
    """Parts from 0 to `room` that sum up to `spare`, shape (count, parts)."""
    ways = [np.eye(1, spare + 1)[0]]  # ways[i][r]: how many there are for the last i parts to use up r, up to a factor
    for most in reversed(room):
        below = np.cumsum(ways[-1])
        below[most + 1 :] -= below[: max(0, spare - most)].copy()
        ways.append(np.maximum(below, 0.0) / below.max())
    left = np.full(count, spare)
    units = np.empty((count, len(room)), dtype=np.int64)
    for part, most in enumerate(room):
        after = np.concatenate(([0.0], np.cumsum(ways[len(room) - part - 1])))  # after[r]: ways to leave less than r
        least_kept, most_kept = np.maximum(left - most, 0), np.minimum(left, room[part + 1 :].sum())
        low, high = after[least_kept], after[most_kept + 1]
        kept = np.searchsorted(after, low + rng.random(count) * (high - low), side="right") - 1
        kept = np.clip(kept, least_kept, most_kept)
        units[:, part] = left - kept
        left = kept
    return units


def seeded(seed: int, draws: int) -> np.random.Generator:
    """The generator of one decision; a negative seed is one of its own, too."""
    return np.random.default_rng([abs(seed), int(seed < 0), draws])
