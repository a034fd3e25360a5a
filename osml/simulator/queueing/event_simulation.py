"""Request by request: a first-come-first-served queue with k servers, as an independent check of the queueing formulas.

Nothing of those formulas is used here: arrivals and service times are drawn, each request takes the server that gets
free first. Intervals between arrivals are exponential where their squared coefficient of variation is 1, balanced
hyperexponential above (two exponential phases that carry equal loads), gamma below. Service times are lognormal.
A scheduling delay strikes a request with a probability, is exponential, and holds no server. Times are in ms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from osml.base.jit import compiled
from osml.simulator.columns import FloatArray, IntArray

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

    `burstiness` is the squared coefficient of variation of the intervals between arrivals. A request keeps its server
    for `hold` times its service time: above 1 where servers can't be used all the time (locks, throttling).
    """

    service_ms: float
    cv2: float
    arrivals_per_s: float
    servers: int
    burstiness: float = 1.0
    delay_probability: float = 0.0
    delay_ms: float = 0.0
    hold: float = 1.0

    def __post_init__(self) -> None:
        for name in ("service_ms", "arrivals_per_s", "burstiness", "hold"):
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
        return self.arrivals_per_s * self.service_ms * self.hold / 1000.0 / self.servers

    def row(self) -> FloatArray:
        """The numbers that the compiled loop wants."""
        sigma = math.sqrt(math.log1p(self.cv2))
        balance = math.sqrt((self.burstiness - 1.0) / (self.burstiness + 1.0)) if self.burstiness > 1.0 else 0.0
        numbers: tuple[float, ...] = (
            1000.0 / self.arrivals_per_s, self.burstiness, 0.5 * (1.0 + balance),
            math.log(self.service_ms) - 0.5 * sigma * sigma, sigma, self.delay_probability, self.delay_ms, self.hold,
        )  # fmt: skip
        return np.array(numbers, dtype=np.float64)


@compiled
def _interval(rng: np.random.Generator, row: FloatArray) -> float:
    """Time to the next arrival."""
    mean, burstiness = float(row[0]), float(row[1])
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
    rng: np.random.Generator, row: FloatArray, free: FloatArray, next_ms: float, until_ms: float, end_ms: float,
    out: FloatArray,
) -> tuple[int, int, float]:  # fmt: skip
    """Serve requests until `out` is full of response times or the next one arrives after `until_ms`.

    `free` is the heap of the times when the servers get free; it is carried on from call to call, as is the time of the
    next arrival. Returns (requests served, those of them that have not started at `end_ms`, time of the next arrival).
    """
    served = 0
    waiting = 0
    clock = next_ms
    fixed, delayed, hold = row[4] == 0.0, row[5] > 0.0, row[7]
    service = math.exp(row[3])
    while served < out.shape[0] and clock <= until_ms:
        if not fixed:
            service = math.exp(row[3] + row[4] * rng.standard_normal())
        start = max(clock, free[0])
        if start > end_ms:
            waiting += 1
        _replace_first(free, start + hold * service)
        latency = start + service - clock
        if delayed and rng.random() < row[5]:
            latency += row[6] * rng.standard_exponential()
        out[served] = latency
        served += 1
        clock += _interval(rng, row)
    return served, waiting, clock


@compiled
def _serve_backlog(rng: np.random.Generator, row: FloatArray, free: FloatArray, requests: int, end_ms: float) -> int:
    """Serve what was there before; returns how many of them have not started at `end_ms`."""
    waiting = 0
    for _ in range(requests):
        start = free[0]
        if start > end_ms:
            waiting += 1
        _replace_first(free, start + row[7] * math.exp(row[3] + row[4] * rng.standard_normal()))
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


@compiled
def _serve_counted(
    rng: np.random.Generator, row: FloatArray, free: FloatArray, clock_ms: float, requests: int,
    room: FloatArray, bits: IntArray, histogram: IntArray,
) -> tuple[float, float]:  # fmt: skip
    """Serve so many requests and count their response times; returns (sum of response times, clock)."""
    total, clock, left = 0.0, clock_ms, requests
    while left > 0:
        served, _, clock = serve(rng, row, free, clock, math.inf, math.inf, room[: min(left, room.shape[0])])
        total += _count(room, bits, served, histogram)
        left -= served
    return total, clock


@dataclass(frozen=True)
class Histogram:
    """Response times counted in bins that are 0.2 to 0.4 % wide: the upper bits of the number itself."""

    counts: IntArray
    sum_ms: float

    @property
    def requests(self) -> int:
        """How many were counted."""
        return int(self.counts.sum())

    @property
    def mean_ms(self) -> float:
        """Mean response time."""
        return self.sum_ms / self.requests

    def quantile(self, level: float) -> float:
        """Response time in ms at a level; within a bin they count as evenly spread."""
        below = np.cumsum(self.counts)
        wanted = level * float(below[-1])
        at = int(np.searchsorted(below, wanted))
        low, high = (float(np.int64((at + _FIRST_BIN + k) << _SHIFT).view(np.float64)) for k in (0, 1))
        inside = (wanted - float(below[at] - self.counts[at])) / max(float(self.counts[at]), 1.0)
        return low + (high - low) * min(max(inside, 0.0), 1.0)


@dataclass(frozen=True)
class LongRun:
    """A stationary queue: all response times, and how far off the p99 may be.

    `p99_error` is half the 95 % confidence interval of the p99, relative to it, from the spread among batches.
    """

    all: Histogram
    p99_error: float

    @property
    def percentiles(self) -> tuple[float, float, float, float]:
        """(mean, p50, p95, p99) in ms."""
        return self.all.mean_ms, self.all.quantile(0.50), self.all.quantile(0.95), self.all.quantile(0.99)


def long_run(workload: Workload, requests: int, seed: int, batches: int = 20) -> LongRun:
    """Serve `requests` after a start that is not counted: 20 times as long as the queue remembers, if that is known.

    Raises ValueError for a utilisation of 1 or more, where there is no stationary queue.
    """
    gap = 1.0 - workload.utilisation
    if gap <= 0:
        raise ValueError(f"utilisation is {workload.utilisation:.3g}, expected less than 1; use `window` for overload")
    if requests < batches or batches < 2:
        raise ValueError(f"requests is {requests}, expected at least {max(batches, 2)}, one for each batch")
    rng, row = np.random.default_rng(seed), workload.row()
    free, room = np.zeros(workload.servers), np.empty(CHUNK)
    bits = room.view(np.int64)
    memory = (workload.burstiness + workload.cv2) / (gap * gap) + workload.servers
    start = int(min(20.0 * memory, 0.2 * requests))
    _, clock = _serve_counted(rng, row, free, 0.0, start, room, bits, np.zeros(_BINS, np.int64))
    counts, total = np.zeros(_BINS, np.int64), 0.0
    tails: list[float] = []
    for batch in range(batches):
        size = requests * (batch + 1) // batches - requests * batch // batches
        part = np.zeros(_BINS, np.int64)
        sum_ms, clock = _serve_counted(rng, row, free, clock, size, room, bits, part)
        tails.append(Histogram(part, sum_ms).quantile(0.99))
        counts += part
        total += sum_ms
    spread = float(np.std(tails, ddof=1)) / math.sqrt(batches)
    return LongRun(Histogram(counts, total), 2.1 * spread / float(np.mean(tails)))


@dataclass(frozen=True)
class Window:
    """What happened in a while: response times of those who arrived in it, and who had not started at its end."""

    latencies_ms: FloatArray
    backlog: int


def window(workload: Workload, seconds: float, seed: int, backlog: int = 0, lead_s: float = 0.0) -> Window:
    """Requests that arrive within `seconds`, after `lead_s` seconds of the same that are not shown.

    At the very start `backlog` requests wait and all servers are idle. Whoever arrives is served to the end; the
    backlog of the result are those who had arrived but not started.
    """
    if not (math.isfinite(seconds) and seconds > 0 and math.isfinite(lead_s) and lead_s >= 0):
        raise ValueError(f"seconds is {seconds} and lead_s {lead_s}, expected finite numbers, seconds above 0")
    if backlog < 0:
        raise ValueError(f"backlog is {backlog}, expected at least 0")
    rng, row, free = np.random.default_rng(seed), workload.row(), np.zeros(workload.servers)
    lead_ms, end_ms = 1000.0 * lead_s, 1000.0 * (lead_s + seconds)
    waiting = _serve_backlog(rng, row, free, backlog, end_ms)
    clock = _interval(rng, row)
    parts: list[FloatArray] = []
    for until in (lead_ms, end_ms):
        while clock <= until:
            room = np.empty(CHUNK)
            served, late, clock = serve(rng, row, free, clock, until, end_ms, room)
            waiting += late
            if until == end_ms:
                parts.append(room[:served])
    return Window(np.concatenate(parts) if parts else np.empty(0), waiting)
