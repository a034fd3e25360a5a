"""Request by request: a first-come-first-served queue with k servers, as an independent check of the queueing formulas.

Nothing of those formulas is used here: arrivals and service times are drawn, each request takes the server that gets
free first. Intervals between arrivals are exponential where their squared coefficient of variation is 1, balanced
hyperexponential above (two exponential phases that carry equal loads), gamma below. Service times are lognormal.
A scheduling delay strikes a request with a probability, is exponential, and holds no server. Times are in ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from osml.virtual.jit import compiled

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CHUNK = 1 << 14
"""Requests that are simulated at a time where only a histogram is kept: they stay in the processor's cache."""

_MANTISSA_BITS = 8
_SHIFT = 52 - _MANTISSA_BITS
_LOWEST = 1e-6
_FIRST_BIN = int(np.float64(_LOWEST).view(np.int64)) >> _SHIFT
_BINS = (int(np.float64(1e12).view(np.int64)) >> _SHIFT) - _FIRST_BIN + 2


@dataclass(frozen=True)
class Workload:
    """What comes to the queue and what serves it.

    `burstiness` is the squared coefficient of variation of the intervals between arrivals.
    """

    service_ms: float
    cv2: float
    arrivals_per_s: float
    servers: int
    burstiness: float = 1.0
    delay_probability: float = 0.0
    delay_ms: float = 0.0

    def __post_init__(self) -> None:
        for name in ("service_ms", "arrivals_per_s", "burstiness"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"{name} is {getattr(self, name)}, expected a finite number above 0")
        for name in ("cv2", "delay_ms"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ValueError(f"{name} is {getattr(self, name)}, expected a finite number from 0")
        if self.servers < 1:
            raise ValueError(f"servers is {self.servers}, expected at least 1")
        if not 0 <= self.delay_probability <= 1:
            raise ValueError(f"delay_probability is {self.delay_probability}, expected a number from 0 to 1")

    @property
    def utilisation(self) -> float:
        """Share of the servers' time that is asked for; above 1 a backlog grows."""
        return self.arrivals_per_s * self.service_ms / 1000.0 / self.servers

    def row(self) -> FloatArray:
        """The numbers that the compiled loop wants."""
        sigma = math.sqrt(math.log1p(self.cv2))
        balance = math.sqrt((self.burstiness - 1.0) / (self.burstiness + 1.0)) if self.burstiness > 1.0 else 0.0
        return np.array([
            1000.0 / self.arrivals_per_s, self.burstiness, 0.5 * (1.0 + balance),
            math.log(self.service_ms) - 0.5 * sigma * sigma, sigma, self.delay_probability, self.delay_ms,
        ])  # fmt: skip


@compiled
def _interval(rng: np.random.Generator, row: FloatArray) -> float:
    """Time to the next arrival."""
    mean, burstiness = row[0], row[1]
    if burstiness == 1.0:
        return mean * rng.standard_exponential()
    if burstiness > 1.0:
        p = row[2] if rng.random() < row[2] else 1.0 - row[2]
        return mean * rng.standard_exponential() / (2.0 * p)
    return mean * burstiness * rng.standard_gamma(1.0 / burstiness)


@compiled
def _replace_first(free: FloatArray, value: float) -> None:
    """Replace the smallest of a binary heap and restore its order."""
    n = free.shape[0]
    at = 0
    child = 1
    while child < n:
        if child + 1 < n and free[child + 1] < free[child]:
            child += 1
        if free[child] >= value:
            break
        free[at] = free[child]
        at = child
        child = 2 * at + 1
    free[at] = value


@compiled
def serve(
    rng: np.random.Generator, row: FloatArray, free: FloatArray, clock_ms: float, until_ms: float, out: FloatArray
) -> tuple[int, int, float]:
    """Serve requests until `out` is full of response times or the next one comes after `until_ms`.

    `free` is the heap of the times when the servers get free; it is carried on from call to call, as is the clock (the
    time of the last arrival). Returns (requests served, those of them that had not started at `until_ms`, clock).
    """
    served = 0
    waiting = 0
    clock = clock_ms
    fixed, delayed = row[4] == 0.0, row[5] > 0.0
    service = math.exp(row[3])
    while served < out.shape[0]:
        clock += _interval(rng, row)
        if clock > until_ms:
            break
        if not fixed:
            service = math.exp(row[3] + row[4] * rng.standard_normal())
        start = max(clock, free[0])
        if start > until_ms:
            waiting += 1
        _replace_first(free, start + service)
        latency = start + service - clock
        if delayed and rng.random() < row[5]:
            latency += row[6] * rng.standard_exponential()
        out[served] = latency
        served += 1
    return served, waiting, clock


@compiled
def _serve_backlog(rng: np.random.Generator, row: FloatArray, free: FloatArray, requests: int, until_ms: float) -> int:
    """Serve what was there before; returns how many of them have not started at `until_ms`."""
    waiting = 0
    for _ in range(requests):
        start = free[0]
        if start > until_ms:
            waiting += 1
        _replace_first(free, start + math.exp(row[3] + row[4] * rng.standard_normal()))
    return waiting


@compiled
def _count(latencies: FloatArray, bits: IntArray, used: int, histogram: IntArray) -> float:
    """Count latencies into bins; returns their sum. `bits` is the same memory as integers."""
    total = 0.0
    for i in range(used):
        total += latencies[i]
        at = (bits[i] >> _SHIFT) - _FIRST_BIN
        histogram[min(max(at, 0), histogram.shape[0] - 1)] += 1
    return total


@dataclass(frozen=True)
class Histogram:
    """Response times counted in bins that are 0.2 to 0.4 % wide: the upper bits of the number itself."""

    counts: IntArray
    requests: int
    sum_ms: float

    @property
    def mean_ms(self) -> float:
        """Mean response time."""
        return self.sum_ms / self.requests

    def quantile(self, level: float) -> float:
        """Response time in ms at a level, evenly spread within its bin."""
        below = np.cumsum(self.counts)
        wanted = level * self.requests
        at = int(np.searchsorted(below, wanted))
        low, high = (float(np.int64((at + _FIRST_BIN + k) << _SHIFT).view(np.float64)) for k in (0, 1))
        inside = (wanted - (int(below[at]) - int(self.counts[at]))) / max(int(self.counts[at]), 1)
        return low + (high - low) * float(min(max(inside, 0.0), 1.0))
