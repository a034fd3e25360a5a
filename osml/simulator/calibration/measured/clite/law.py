"""Which parts of a small node meet the tail target of a service: worker threads on hyperthreads.

A service is T worker threads. On n physical cores the kernel fills idle cores first, so j busy threads make
max(0, j - n) pairs. A thread beside a busy sibling runs at `smt_speed`. The number of busy threads is a birth-death
process (M/M/k with these rates). A request is slow with the share of running time that is spent in pairs; the tail is
that of the mixture plus the wait for a thread. Rates are in requests/s, times in s.

Curves that jump more than threefold within one step after the knee are not resolved below it. There a part is good
while its threads are not saturated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import special

from osml.base.jit import compiled
from osml.simulator.columns import FloatArray
from osml.simulator.physics.cache import miss_ratio

TAIL = 0.05
"""Beyond the 95th percentile."""

_QUANTILES = np.concatenate([np.linspace(0.0, 0.9, 19)[:-1] + 0.025, 0.9 + (np.arange(20) + 0.5) * 0.005])
_WEIGHTS: FloatArray = np.concatenate([np.full(18, 0.05), np.full(20, 0.005)])
_NORMAL: FloatArray = cast(Any, special).ndtri(_QUANTILES)


@dataclass(frozen=True)
class NodeConstants:
    """CLITE's machine, a Xeon Silver 4114, and what was chosen to fit its figures."""

    cores: int = 10
    """Physical cores, two hyperthreads each (table 2)."""
    ways: int = 11
    """Of the last-level cache (table 2)."""
    way_mib: float = 1.25
    """13.75 MiB over 11 ways."""
    smt_speed: float = 0.64
    """Speed of a thread beside a busy sibling: that of the catalog of platforms."""
    ghz: float = 2.5
    """Turbo with all cores busy (Intel)."""
    memory_ns: float = 85.0
    """Idle latency of the memory of a Skylake-SP."""
    llc_ns: float = 18.0
    """Latency of its last-level cache."""
    tolerance: float = 0.10
    """Of the target: the knee is read in steps of 10 % of load. Fitted on the regions and maps."""
    sharp: float = 3.0
    """Rise within one step after the knee from which on a curve is not resolved."""
    half_step: float = 1.05
    """Saturation over max load of such a curve: half a step."""


NODE = NodeConstants()


class Cache(NamedTuple):
    """How a program's time depends on the cache that it holds; `scale` shrinks the stalls of the catalog."""

    cpi: float
    apki: float
    miss_min: float
    working_set_mib: float
    steepness: float
    mlp: float
    scale: float

    def slowdown(self, ways: int) -> float:
        """Service time on so many ways, over that on all of them."""
        return self._ns(ways * NODE.way_mib) / self._ns(NODE.ways * NODE.way_mib)

    def _ns(self, mib: float) -> float:
        miss = miss_ratio(self.miss_min, self.working_set_mib, self.steepness, mib)
        stall = self.apki / 1000.0 * (miss * NODE.memory_ns + NODE.llc_ns) / self.mlp
        return self.cpi / NODE.ghz + self.scale * stall


class Curve(NamedTuple):
    """A service alone on the machine: p95 in s over requests/s, and its published knee."""

    rates: FloatArray
    p95_s: FloatArray
    max_load: float
    target_s: float


class Service(NamedTuple):
    """A calibrated service. `base_s` passes outside of the CPUs; `limit_s` is what its tail may be."""

    threads: int
    work_s: float
    cv2: float
    base_s: float
    limit_s: float
    sharp: bool
    cache: Cache
    curve: Curve


@compiled
def _threads(rate: float, work_s: float, cores: int, threads: int, smt: float) -> tuple[float, float, float]:
    """(Probability of waiting, requests/s when all run, share of running time beside a busy sibling)."""
    k = min(threads, 2 * cores)
    term, total, mean, paired, served = 1.0, 1.0, 0.0, 0.0, 0.0
    for j in range(1, k + 1):
        pairs = max(0, j - cores)
        served = (j - 2 * pairs * (1.0 - smt)) / work_s
        term *= rate / served
        if j < k:
            total += term
            mean += term * j
            paired += term * 2 * pairs
    pairs = max(0, k - cores)
    if rate >= served:
        return 1.0, served, 2.0 * pairs / k
    queue = term / (1.0 - rate / served)
    return queue / (total + queue), served, (paired + queue * 2 * pairs) / (mean + queue * k)


@compiled
def _beyond(
    limit_s: float,
    rate: float,
    work_s: float,
    cv2: float,
    base_s: float,
    cores: int,
    threads: int,
    smt: float,
    normal: FloatArray,
    weights: FloatArray,
) -> float:
    """Share of requests whose response takes longer than `limit_s`."""
    waiting, served, slow = _threads(rate, work_s, cores, threads, smt)
    if rate >= 0.995 * served:
        return 1.0
    wait_s = (1.0 + cv2) / 2.0 / (served - rate)
    variance = math.log(1.0 + cv2)
    share = 0.0
    for q in range(len(normal)):
        fast_s = work_s * math.exp(math.sqrt(variance) * normal[q] - variance / 2.0)
        for paired in range(2):
            weight = weights[q] * (slow if paired else 1.0 - slow)
            left = limit_s - base_s - (fast_s / smt if paired else fast_s)
            if left <= 0.0:
                share += weight
            else:
                share += weight * waiting * math.exp(-left / wait_s)
    return share


def capacity(threads: int, cores: int) -> float:
    """Threads' worth of work done at once when all run."""
    k = min(threads, 2 * cores)
    return k - 2.0 * max(0, k - cores) * (1.0 - NODE.smt_speed)


def late_share(p: Service, limit_s: float, cores: int, ways: int, rate: float) -> float:
    """Share of requests that take longer than `limit_s` on so many physical cores and ways."""
    work_s = p.work_s * p.cache.slowdown(ways)
    return float(_beyond(limit_s, rate, work_s, p.cv2, p.base_s, cores, p.threads, NODE.smt_speed, _NORMAL, _WEIGHTS))


def p95(p: Service, cores: int, ways: int, rate: float) -> float:
    """Seconds at the 95th percentile of a curve that is resolved; infinite where the threads are saturated."""
    low, high = p.base_s, p.base_s + 2.0 * p.work_s
    while late_share(p, high, cores, ways, rate) > TAIL:
        high = p.base_s + 2.0 * (high - p.base_s)
        if high > 1e3:
            return math.inf
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if late_share(p, middle, cores, ways, rate) > TAIL else (low, middle)
    return high


def meets_target(p: Service, cores: int, ways: int, load: float) -> bool:
    """Whether the target holds on so many physical cores and ways at a fraction of the max load.

    A service never runs on fewer hyperthreads than it has threads: its tail would be that of time slices.
    """
    if p.threads > 2 * cores:
        return False
    rate = load * p.curve.max_load
    if p.sharp:
        return rate * p.work_s * p.cache.slowdown(ways) < 0.9999 * capacity(p.threads, cores)
    return late_share(p, p.limit_s, cores, ways, rate) <= TAIL
