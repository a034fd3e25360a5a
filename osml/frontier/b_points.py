"""B-points: what can be taken from a service at its OAA for a tolerable slowdown (OSML section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from osml.base.failure import InputError
from osml.frontier.grid import FloatArray, IntArray, at_cell, axes, checked_platform, checked_surface

SLOWDOWNS = (0.05, 0.10, 0.15, 0.20)
"""Tolerated latency over that at the OAA, minus 1; the published models know these four."""

DIRECTIONS = ("balanced", "core_dominated", "way_dominated")


def _worst_on_the_way(surface: FloatArray, oaa: IntArray) -> FloatArray:
    """The worst latency of all allocations between the OAA and each cell below it; infinite elsewhere or unmeasured."""
    cores, ways = axes(*surface.shape[-2:])
    below = (cores <= oaa[..., 0, None, None]) & (ways <= oaa[..., 1, None, None])
    inside = np.where(np.isnan(surface), np.inf, surface)
    inside = np.where(below, inside, 0.0)  # no latency is less than 0
    for axis in (-2, -1):
        inside = np.flip(np.maximum.accumulate(np.flip(inside, axis), axis), axis)
    return np.where(below, inside, np.inf)


def _worth(cores: IntArray, ways: IntArray, total: tuple[int, int]) -> IntArray:
    """How good it is to take so much in each direction, shape (..., DIRECTIONS, cores x ways); -1 where it is not."""
    shares = cores * total[1], ways * total[0]
    scale = 2 * total[0] * total[1] + 1
    balanced = np.minimum(*shares) * scale + shares[0] + shares[1]
    core_first, way_first = cores * (total[1] + 1) + ways, ways * (total[0] + 1) + cores
    allowed = (cores > 0) & (ways > 0), cores > 0, ways > 0
    worth = [np.where(fine, value, -1) for fine, value in zip(allowed, (balanced, core_first, way_first), strict=True)]
    return np.stack(worth, -3).reshape(*worth[0].shape[:-2], len(DIRECTIONS), -1)


def b_points(
    latency_ms: ArrayLike,
    oaa: IntArray,
    slowdowns: Sequence[float] = SLOWDOWNS,
    platform: tuple[int, int] | None = None,
) -> IntArray:
    """Cores and ways that can be taken from the OAA, shape (..., slowdowns, DIRECTIONS, 2); 0, 0 where there are none.

    A slowdown s tolerates (1 + s) times the latency at the OAA, whether or not that meets the target, in the cell that
    is left and in every cell between, so that the steps may be taken in any order.
    Balanced takes at least one of each and the largest smaller share of the platform, then the largest sum of shares;
    core-dominated takes at least one core, as many cores as can be and then as many ways; way-dominated likewise.
    """
    surface = checked_surface(latency_ms)
    n_cores, n_ways = surface.shape[-2:]
    total = checked_platform(surface, platform)
    if not all(np.isfinite(s) and s >= 0 for s in slowdowns):
        raise InputError(f"slowdowns are {list(slowdowns)}, expected finite shares of at least 0, such as 0.05")
    if oaa.shape != (*surface.shape[:-2], 2):
        raise InputError(f"oaa has shape {oaa.shape}, expected {(*surface.shape[:-2], 2)}: cores and ways per surface")
    every_core, every_way = axes(n_cores, n_ways)
    cores = np.maximum(oaa[..., 0, None, None] - every_core, 0)  # (..., cores, 1): taken
    ways = np.maximum(oaa[..., 1, None, None] - every_way, 0)  # (..., 1, ways): taken
    worth = _worth(cores, ways, total)
    worst = _worst_on_the_way(surface, oaa).reshape(*surface.shape[:-2], 1, -1)
    tolerated = at_cell(surface, oaa)[..., None, None]
    out = np.zeros((*surface.shape[:-2], len(slowdowns), len(DIRECTIONS), 2), np.int64)
    for k, slowdown in enumerate(slowdowns):
        value = np.where(worst <= (1.0 + slowdown) * tolerated, worth, -1)
        best = value.argmax(-1)  # (..., directions)
        found = np.take_along_axis(value, best[..., None], -1)[..., 0] >= 0
        row, column = np.divmod(best, n_ways)
        out[..., k, :, 0] = np.where(found, oaa[..., 0, None] - row - 1, 0)
        out[..., k, :, 1] = np.where(found, oaa[..., 1, None] - column - 1, 0)
    return out
