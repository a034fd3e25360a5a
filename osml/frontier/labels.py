"""RCliff, OAA and the kind of cliff (design of this project; OSML section 3.1 gives them in words and pictures)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from osml.frontier.b_points import SLOWDOWNS, b_points
from osml.frontier.grid import (
    BoolArray,
    FloatArray,
    IntArray,
    after_losses,
    at_cell,
    cheapest,
    checked_surface,
    checked_target,
    possible_losses,
    price_keys,
)

KINDS = ("none", "cores", "ways", "both")
"""What falls off a cliff by one step; the index is the code that `cliff_kind` gives."""

AS_BAD = 0.5
"""Slowdowns whose logarithm is at least this share of the worst one's count as equally bad.

They span decades (the heat maps of OSML are logarithmic, too), and a measured tail is not exact: with noise of 5 % on
each cell this moves RCliff less than a linear share does, since the cheapest of many cells stays where it is.
"""

SHARP = 2.0
"""A step is a cliff where it breaks the target and multiplies the latency at least by this."""


class Labels(NamedTuple):
    """Labels of one or many surfaces; cells are (cores, ways), and 0, 0 is none.

    `rcliff` and `oaa` have shape (..., 2), `kind` (...), `b_points` (..., slowdowns, directions, 2).
    """

    rcliff: IntArray
    oaa: IntArray
    kind: IntArray
    b_points: IntArray


def resource_cliff(latency_ms: ArrayLike, target_ms: ArrayLike, platform: tuple[int, int] | None = None) -> IntArray:
    """RCliff: on the QoS-feasible boundary the cell whose one-step deprivation hurts most, cheapest first.

    Feasible is a latency of at most the target; on the boundary are feasible cells from which the loss of a core, a way
    or both is measured and breaks the target. "Hurts" is the latency after the worst of the three over the latency
    before; what is AS_BAD is equally bad, and of these the cheapest is taken (cost: shares of `platform`'s cores and
    ways, by default the surface's own; of equal costs fewer cores). Where no loss can break the target it is the
    cheapest feasible cell, and (0, 0) where nothing is feasible.
    """
    surface = checked_surface(latency_ms)
    target = checked_target(target_ms, surface)
    keys = price_keys(surface, platform)
    feasible = surface <= target
    after = after_losses(surface)
    boundary = feasible & (after > target).any(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        hurt = np.where(after > target, after / surface, 0.0).max(0)
    hurt = np.where(boundary, hurt, 0.0)
    worst = hurt.max((-2, -1), keepdims=True)
    has_boundary = boundary.any((-2, -1), keepdims=True)
    candidates = np.where(has_boundary, boundary & (hurt >= worst**AS_BAD), feasible)
    return cheapest(candidates, keys)


def optimal_area(latency_ms: ArrayLike, target_ms: ArrayLike, platform: tuple[int, int] | None = None) -> IntArray:
    """OAA: the cheapest cell from which the loss of one core, one way, or both is still feasible.

    A loss that is not possible (the last core, the last way) does not count, one that was not measured does. (0, 0)
    where there is no such cell. Costs and ties as for `resource_cliff`.
    """
    surface = checked_surface(latency_ms)
    target = checked_target(target_ms, surface)
    keys = price_keys(surface, platform)
    impossible = ~possible_losses(*surface.shape[-2:])
    shape = (len(impossible), *(1,) * (surface.ndim - 2), *surface.shape[-2:])
    safe: BoolArray = (after_losses(surface) <= target) | impossible.reshape(shape)
    return cheapest((surface <= target) & safe.all(0), keys)


def cliff_kind(latency_ms: ArrayLike, target_ms: ArrayLike, rcliff: IntArray | None = None) -> IntArray:
    """Which losses are cliffs at RCliff, as an index into KINDS.

    A cliff breaks the target and multiplies the latency by SHARP. Where only
    the loss of a core and a way together is one, both are.
    """
    surface = checked_surface(latency_ms)
    target = checked_target(target_ms, surface)
    cell = resource_cliff(surface, target_ms) if rcliff is None else rcliff
    after = after_losses(surface)
    with np.errstate(divide="ignore", invalid="ignore"):
        sharp = (after > target) & (after >= SHARP * surface)
    cores, ways, both = (at_cell(step.astype(np.float64), cell) > 0 for step in sharp)
    alone = cores + 2 * ways
    return np.where((alone == 0) & both, 3, alone).astype(np.int64)


def steepest_losses(latency_ms: ArrayLike) -> FloatArray:
    """How many times the loss of one core, and of one way, multiplies the latency at the worst place, shape (..., 2).

    Over the whole surface, whatever the target: the picture of OSML's figure 1, where the fall from 34 to 4644 ms
    begins above the target. NaN where no loss was measured.
    """
    surface = checked_surface(latency_ms)
    with np.errstate(divide="ignore", invalid="ignore"):
        times = after_losses(surface)[:2] / surface
    known = ~np.isnan(times)
    worst = np.where(known, times, 0.0).max((-2, -1))  # (2, ...)
    return np.moveaxis(np.where(known.any((-2, -1)), worst, np.nan), 0, -1)


def label(
    latency_ms: ArrayLike,
    target_ms: ArrayLike,
    slowdowns: Sequence[float] = SLOWDOWNS,
    platform: tuple[int, int] | None = None,
) -> Labels:
    """All labels of one or many surfaces. Raises InputError on input that is no surface or no target."""
    surface = checked_surface(latency_ms)
    rcliff = resource_cliff(surface, target_ms, platform)
    oaa = optimal_area(surface, target_ms, platform)
    return Labels(rcliff, oaa, cliff_kind(surface, target_ms, rcliff), b_points(surface, oaa, slowdowns, platform))
