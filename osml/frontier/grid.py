"""The grid of allocations: what a cell costs, and where the loss of a core, a way, or both leads."""

from __future__ import annotations

from functools import cache
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from osml.base.failure import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

LOSSES = ((1, 0), (0, 1), (1, 1))
"""The one-step deprivations in cores and ways, in the order of every axis of losses."""


def checked_surface(latency_ms: ArrayLike) -> FloatArray:
    """The surface as float64; InputError where it isn't one."""
    surface = np.asarray(latency_ms, np.float64)
    if surface.ndim < 2 or 0 in surface.shape[-2:]:
        raise InputError(f"latency_ms has shape {surface.shape}, expected (..., cores, ways) with at least one of each")
    if np.any(surface < 0):
        raise InputError(f"latency_ms has the value {np.nanmin(surface):g}, expected milliseconds of at least 0")
    return surface


def checked_target(target_ms: ArrayLike, surface: FloatArray) -> FloatArray:
    """The targets with two axes of 1 behind, to be compared with the surface; InputError on impossible ones."""
    target = np.asarray(target_ms, np.float64)
    if not np.all(np.isfinite(target) & (target > 0)):
        raise InputError(f"target_ms is {target_ms}, expected finite milliseconds above 0")
    if target.ndim and target.shape != surface.shape[:-2]:
        raise InputError(f"target_ms has shape {target.shape}, expected one target or shape {surface.shape[:-2]}")
    return target[..., None, None]


def axes(n_cores: int, n_ways: int) -> tuple[IntArray, IntArray]:
    """Counts of cores, shape (cores, 1), and of ways, shape (ways,), both from 1."""
    return np.arange(1, n_cores + 1, dtype=np.int64).reshape(-1, 1), np.arange(1, n_ways + 1, dtype=np.int64)


@cache
def _costs(n_cores: int, n_ways: int, platform: tuple[int, int]) -> IntArray:
    cores, ways = axes(n_cores, n_ways)
    # One key for cost and tie-break: of equal costs fewer cores first.
    key = (cores * platform[1] + ways * platform[0]) * (n_cores + 1) + cores
    key.setflags(write=False)
    return key


def checked_platform(surface: FloatArray, platform: tuple[int, int] | None) -> tuple[int, int]:
    """(cores, ways) of the platform, by default those of the surface; InputError where it is smaller."""
    n_cores, n_ways = surface.shape[-2:]
    total = platform or (n_cores, n_ways)
    if total[0] < n_cores or total[1] < n_ways:
        raise InputError(f"platform is {total}, expected at least the {n_cores} cores and {n_ways} ways of the surface")
    return total


def price_keys(surface: FloatArray, platform: tuple[int, int] | None) -> IntArray:
    """Whole numbers, shape (cores, ways), in the order of preference: cheaper first, of equal costs fewer cores."""
    n_cores, n_ways = surface.shape[-2:]
    return _costs(n_cores, n_ways, checked_platform(surface, platform))


def cheapest(candidates: BoolArray, keys: IntArray) -> IntArray:
    """(cores, ways) of the cheapest candidate, shape (..., 2); 0, 0 where there is none."""
    flat = candidates.reshape(*candidates.shape[:-2], -1)
    order = np.where(flat, keys.reshape(-1), np.iinfo(np.int64).max)
    best = order.argmin(-1)
    found = np.take_along_axis(flat, best[..., None], -1)
    cell = np.stack(np.divmod(best, candidates.shape[-1]), -1) + 1  # (..., 2)
    return np.where(found, cell, 0)


def after_losses(surface: FloatArray) -> FloatArray:
    """Latency after each of LOSSES, shape (3, ..., cores, ways); NaN where nothing is left to lose.

    The last core and the last way are never taken from a service, so a step to zero does not count as a loss.
    """
    after = np.full((len(LOSSES), *surface.shape), np.nan)
    after[0, ..., 1:, :] = surface[..., :-1, :]
    after[1, ..., :, 1:] = surface[..., :, :-1]
    after[2, ..., 1:, 1:] = surface[..., :-1, :-1]
    return after


@cache
def possible_losses(n_cores: int, n_ways: int) -> BoolArray:
    """Which of LOSSES a cell can suffer, shape (3, cores, ways)."""
    possible = np.zeros((len(LOSSES), n_cores, n_ways), np.bool_)
    for index, (cores, ways) in enumerate(LOSSES):
        possible[index, cores:, ways:] = True
    possible.setflags(write=False)
    return possible


def at_cell(values: FloatArray, cell: IntArray) -> FloatArray:
    """The value of each surface in its cell (cores, ways from 1), NaN where the cell is none (0, 0)."""
    cores, ways = cell[..., 0], cell[..., 1]
    n_ways = values.shape[-1]
    flat = values.reshape(*values.shape[:-2], -1)
    index = np.maximum((cores - 1) * n_ways + ways - 1, 0)
    found = np.take_along_axis(flat, index[..., None], -1)[..., 0]
    return cast(FloatArray, np.where(cores > 0, found, np.nan))
