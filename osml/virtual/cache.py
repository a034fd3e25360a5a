"""The shared last-level cache: miss ratio, who holds which way, and how slowly that changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osml.virtual.models import MemoryBehaviour

FloatArray = NDArray[np.float64]


def miss_ratio(memory: MemoryBehaviour, cache_mib: float) -> float:
    """Share of last-level-cache accesses that miss while the program holds `cache_mib` MiB; from 1 down to miss_min."""
    return memory.miss_min + (1.0 - memory.miss_min) / (1.0 + (cache_mib / memory.working_set_mib) ** memory.steepness)


def mask_bits(mask: int, ways: int) -> FloatArray:
    """1.0 for each way of the mask, lowest way first."""
    return np.array([float(mask >> way & 1) for way in range(ways)])


def target_occupancy(masks: FloatArray, insertions: FloatArray, footprints: FloatArray, way_mib: float) -> FloatArray:
    """MiB that each tenant ends up with in each way, if everything stays as it is.

    Sharers of a way hold it in proportion to what they insert there per second. Nobody holds more than its footprint:
    what it can't fill goes to the other sharers. `masks` is 0/1, `insertions` any positive rate.
    """
    # masks: (tenants, ways); insertions, footprints: (tenants,)
    widths = np.maximum(masks.sum(axis=1, keepdims=True), 1.0)
    pressure = masks * (insertions[:, None] + 1e-9) / widths
    total = pressure.sum(axis=0)
    share = way_mib * pressure / np.where(total > 0, total, 1.0)
    for _ in range(3):
        held = share.sum(axis=1)
        over = held > footprints
        if not over.any():
            break
        share[over] *= (footprints[over] / held[over])[:, None]
        free = np.maximum(way_mib * (total > 0) - share.sum(axis=0), 0.0)
        takers = pressure * ~over[:, None]
        claim = takers.sum(axis=0)
        share += takers * (free / np.where(claim > 0, claim, 1.0))
    return share


def warmed(
    occupancy: FloatArray,
    target: FloatArray,
    fill_mib_per_s: FloatArray,
    way_mib: float,
    warmup_s: float,
    dt: float,
) -> FloatArray:
    """Occupancy after `dt` seconds: each way moves towards its target at the speed at which lines are replaced.

    A way is renewed by the misses of all that may allocate in it (`fill_mib_per_s`, one value a way), at best within
    `warmup_s`: programs come back to their data only so often. A way that nobody may fill keeps what it has.
    """
    renewal_s = np.maximum(way_mib / np.maximum(fill_mib_per_s, 1e-12), warmup_s)
    step = np.where(fill_mib_per_s > 0, 1.0 - np.exp(-dt / renewal_s), 0.0)
    return occupancy + (target - occupancy) * step
