"""The shared last-level cache: miss ratio, who holds which way, and how slowly that changes."""

from __future__ import annotations

import math

from osml.base.jit import lean
from osml.simulator.columns import FloatArray, IntArray

_NODES = (0.0469100770, 0.2307653449, 0.5, 0.7692346551, 0.9530899230)
_WEIGHTS = (0.1184634425, 0.2393143352, 0.2844444444, 0.2393143352, 0.1184634425)


@lean
def miss_ratio(miss_min: float, working_set_mib: float, steepness: float, cache_mib: float) -> float:
    """Share of last-level-cache accesses that miss while the program holds `cache_mib` MiB; from 1 down to miss_min."""
    if cache_mib <= 0.0:
        return 1.0
    return miss_min + (1.0 - miss_min) / (1.0 + (cache_mib / working_set_mib) ** steepness)


@lean
def insertion_ratio(miss_min: float, working_set_mib: float, steepness: float, cache_mib: float) -> float:
    """Insertions per access that let a sharer of a cache hold `cache_mib` MiB: the harmonic mean of its miss ratio.

    Under LRU everybody holds what it touched within one time T that all sharers have in common. The distinct data that
    a program touches grow by its misses at that size, dc/dT = accesses x m(c) (Denning and Schwartz 1972; composition
    of programs as in Xiang et al., HOTL, ASPLOS 2013), so T = c/(accesses x harmonic mean of m over 0..c): in
    proportion to accesses x this mean all have the same T. Five Gauss-Legendre points.
    """
    if cache_mib <= 0.0:
        return 1.0
    total = 0.0
    for k in range(len(_NODES)):
        total += _WEIGHTS[k] / miss_ratio(miss_min, working_set_mib, steepness, cache_mib * _NODES[k])
    return 1.0 / total


@lean
def target_occupancy(
    masks: IntArray, insertions: FloatArray, footprints: FloatArray, ways: int, way_mib: float, share: FloatArray
) -> None:
    """MiB that each tenant ends up with in each way, if everything stays as it is; written to `share` (tenants, ways).

    Sharers of a way hold it in proportion to what they insert there per second (`insertions`, any positive rate).
    Nobody holds more than its footprint: what it can't fill goes to the other sharers.
    """
    n = len(masks)
    full = 0  # tenants whose footprint is full, as bits
    for _ in range(4):
        for way in range(ways):
            total, kept = 0.0, 0.0
            for i in range(n):
                if not masks[i] >> way & 1:
                    share[i, way] = 0.0
                elif full >> i & 1:
                    kept += share[i, way]
                else:
                    total += insertions[i]
            for i in range(n):
                if masks[i] >> way & 1 and not full >> i & 1:
                    share[i, way] = max(way_mib - kept, 0.0) * insertions[i] / total
        before = full
        for i in range(n):
            if full >> i & 1:
                continue
            held = 0.0
            for way in range(ways):
                held += share[i, way]
            if held > footprints[i]:
                full |= 1 << i
                for way in range(ways):
                    share[i, way] *= footprints[i] / held
        if full == before:
            break


@lean
def warm(
    occupancy: FloatArray, share: FloatArray, masks: IntArray, fills: FloatArray, ways: int, way_mib: float,
    warmup_s: float, dt: float,
) -> None:  # fmt: skip
    """Move `occupancy` (tenants, ways) towards `share`, at the speed at which lines are replaced.

    A way is renewed by the misses of all that may allocate in it (`fills`: MiB/s of each tenant into each of its ways),
    at best within `warmup_s`: programs come back to their data only so often. Lines in a way that their tenant may not
    fill any more go at the speed at which it renews its own ways, if nobody else's misses are faster: what it reads
    there again comes back into its own ways. That speed is assumed; CAT itself evicts nothing.
    """
    n = len(masks)
    users_before, step = -1, 0.0
    for way in range(ways):
        users, fill = 0, 0.0
        for i in range(n):
            if masks[i] >> way & 1:
                users |= 1 << i
                fill += fills[i]
        if users != users_before:  # neighbouring ways mostly have the same users
            step = renewed(fill, way_mib, warmup_s, dt)
            users_before = users
        for i in range(n):
            if users >> i & 1:
                occupancy[i, way] += (share[i, way] - occupancy[i, way]) * step
            elif occupancy[i, way] > 0.0:
                occupancy[i, way] *= 1.0 - max(step, renewed(fills[i], way_mib, warmup_s, dt))


@lean
def renewed(fill: float, way_mib: float, warmup_s: float, dt: float) -> float:
    """Part of a way that is renewed in `dt` seconds by `fill` MiB/s."""
    return 0.0 if fill <= 0.0 else 1.0 - math.exp(-dt / max(way_mib / fill, warmup_s))
