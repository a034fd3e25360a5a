"""The published labelling of the authors' artifact, kept for comparison."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from osml.frontier.grid import IntArray, axes, checked_surface, checked_target

MARGIN = 2
"""Cores and ways between RCliff and OAA, always."""


def reference(latency_ms: ArrayLike, target_ms: ArrayLike) -> tuple[IntArray, IntArray]:
    """RCliff and OAA, each (..., 2), as the published annotation script finds them.

    RCliff has the least cores + ways of all cells strictly below the target; of equal sums the one with more cores; the
    whole grid where no cell is below. OAA is RCliff with two cores and two ways more, even beyond the machine. Use it
    with mean latencies, as the authors did. A person looked over each of theirs; nobody does here.
    """
    surface = checked_surface(latency_ms)
    target = checked_target(target_ms, surface)
    n_cores, n_ways = surface.shape[-2:]
    below = surface < target
    cores, ways = axes(n_cores, n_ways)
    key = (cores + ways) * n_cores + (n_cores - cores)  # the sum first, then more cores
    order = np.where(below, key, np.iinfo(np.int64).max).reshape(*surface.shape[:-2], -1)
    order[..., -1] = np.where(below[..., -1, -1], order[..., -1], np.iinfo(np.int64).max - 1)
    rcliff = np.stack(np.divmod(order.argmin(-1), n_ways), -1).astype(np.int64) + 1
    return rcliff, rcliff + MARGIN
