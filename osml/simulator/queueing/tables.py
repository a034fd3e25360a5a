"""Fast percentiles: mean, p50, p95 and p99 of a response time by one look into a table per service.

For a given cv2 the quantile of (1 - r) x service + r x (zero or exponential wait), with r = wait/(service + wait), is a
smooth function of r and of the wait probability, on a finite square: no logarithm is needed, and no wait or an endless
one is just an edge. Steps are even in r and in the square root of the wait probability, where it bends at 1 - level.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from osml.base.jit import compiled
from osml.simulator.columns import FloatArray
from osml.simulator.queueing.distribution import lognormal_shape, mean_ms, normal_tail, quantile
from osml.simulator.queueing.mixture import slow_share_extra

PERCENTILES: FloatArray = np.array([0.50, 0.95, 0.99])
_STEPS_PROBABILITY = 99
_STEPS_SHARE = 40
_STEPS_SLOW, _MOST_RATIO = 31, 3.0
TABLE_SHAPE = (_STEPS_PROBABILITY + _STEPS_SLOW + 2, _STEPS_SHARE + 1, 3)
"""Shape of the table of one service: response times first, then what slow requests add (`look_up_slow`)."""

# A short Gauss-Legendre rule on (0, 1): enough for three percentiles.
_X, _W = np.polynomial.legendre.leggauss(10)
_NODES: FloatArray = 0.5 * (_X + 1.0)
_WEIGHTS: FloatArray = 0.5 * _W / math.sqrt(2.0 * math.pi)
_Z_MAX = 4.5
_FAR = 12.0
_ROUNDS = 6
_STEP = 0.03  # Newton steps below this leave an error of about its square
_SHORT = 0.03
"""A wait or delay that is so short beside the service time is taken as a fixed part of it."""


@compiled
def _fill(cv2: float, table: FloatArray) -> None:
    for i in range(_STEPS_PROBABILITY + 1):
        probability = (i / _STEPS_PROBABILITY) ** 2
        for j in range(_STEPS_SHARE + 1):
            share = min(j / _STEPS_SHARE, 1.0 - 1e-6)
            for k in range(3):
                table[i, j, k] = quantile(PERCENTILES[k], 1.0 - share, cv2, probability, share, 0.0, 0.0)
    for i in range(_STEPS_SLOW + 1):
        for j in range(_STEPS_SHARE + 1):
            ratio = 1.0 + (_MOST_RATIO - 1.0) * j / _STEPS_SHARE
            for k in range(3):
                extra = slow_share_extra(PERCENTILES[k], cv2, (i / _STEPS_SLOW) ** 3, ratio)
                table[_STEPS_PROBABILITY + 1 + i, j, k] = extra


@cache
def percentile_table(cv2: float) -> FloatArray:
    """The table of a service with this cv2, shape TABLE_SHAPE; stack them for kernels that know many services."""
    if not (math.isfinite(cv2) and cv2 >= 0):
        raise ValueError(f"cv2 is {cv2}, expected a finite number from 0")
    table = np.empty(TABLE_SHAPE)
    _fill(cv2, table)
    table.setflags(write=False)
    return table


@compiled
def look_up(
    table: FloatArray, service_ms: float, wait_probability: float, wait_ms: float
) -> tuple[float, float, float]:
    """(p50, p95, p99) in ms without a scheduling delay, by bilinear interpolation."""
    scale = service_ms + wait_ms
    x = math.sqrt(wait_probability) * _STEPS_PROBABILITY
    y = wait_ms / scale * _STEPS_SHARE
    i, j = min(int(x), _STEPS_PROBABILITY - 1), min(int(y), _STEPS_SHARE - 1)
    x -= i
    y -= j
    a, b, c, d = (1.0 - x) * (1.0 - y), (1.0 - x) * y, x * (1.0 - y), x * y
    t, j1, i1 = table, j + 1, i + 1
    p50 = a * t[i, j, 0] + b * t[i, j1, 0] + c * t[i1, j, 0] + d * t[i1, j1, 0]
    p95 = a * t[i, j, 1] + b * t[i, j1, 1] + c * t[i1, j, 1] + d * t[i1, j1, 1]
    p99 = a * t[i, j, 2] + b * t[i, j1, 2] + c * t[i1, j, 2] + d * t[i1, j1, 2]
    return scale * p50, scale * p95, scale * p99


@compiled
def look_up_slow(table: FloatArray, slow: float, ratio: float) -> tuple[float, float, float]:
    """What a share `slow` of requests that take `ratio` times as long adds to p50, p95 and p99, in mean service times.

    Steps are even in the third root of the share, since one slow request in a hundred makes a p99.
    """
    x = math.pow(min(max(slow, 0.0), 1.0), 1.0 / 3.0) * _STEPS_SLOW
    y = min(max((ratio - 1.0) / (_MOST_RATIO - 1.0), 0.0), 1.0) * _STEPS_SHARE
    i, j = min(int(x), _STEPS_SLOW - 1), min(int(y), _STEPS_SHARE - 1)
    x -= i
    y -= j
    i += _STEPS_PROBABILITY + 1
    a, b, c, d = (1.0 - x) * (1.0 - y), (1.0 - x) * y, x * (1.0 - y), x * y
    t, j1, i1 = table, j + 1, i + 1
    p50 = a * t[i, j, 0] + b * t[i, j1, 0] + c * t[i1, j, 0] + d * t[i1, j1, 0]
    p95 = a * t[i, j, 1] + b * t[i, j1, 1] + c * t[i1, j, 1] + d * t[i1, j1, 1]
    p99 = a * t[i, j, 2] + b * t[i, j1, 2] + c * t[i1, j, 2] + d * t[i1, j1, 2]
    return p50, p95, p99


@compiled
def _waited(x: float, z: float, centre: float, sigma: float, mean: float, other: float) -> float:
    """E[exp(-(x - service)/mean); service < x]: only service times close to x matter where the mean is short.

    An `other` mean of about the same size gets the same nodes: the difference of both is what is wanted.
    """
    low = -_Z_MAX
    far = x - _FAR * (max(mean, other) if 0.5 * mean < other < 2.0 * mean else mean)
    if far > 0.0:
        low = max(low, (math.log(far) - centre) / sigma)
    width = min(z, _Z_MAX) - low
    if width <= 0.0:
        return 0.0
    total = 0.0
    for k in range(_NODES.shape[0]):
        at = low + width * _NODES[k]
        left = max(x - math.exp(centre + sigma * at), 0.0)
        total += _WEIGHTS[k] * math.exp(-0.5 * at * at - left / mean)
    return width * total


@compiled
def _tail_and_density(
    x: float, centre: float, sigma: float, at_once: float, first: float, a: float, second: float, b: float
) -> tuple[float, float]:
    """P(response > x) and the density at x, where P(wait + delay > y) = first exp(-y/a) + second exp(-y/b)."""
    z = (math.log(x) - centre) / sigma
    one = first * _waited(x, z, centre, sigma, a, b)
    two = second * _waited(x, z, centre, sigma, b, a)
    density = at_once * math.exp(-0.5 * z * z) / (2.5066282746310002 * sigma * x)
    return normal_tail(z) + one + two, density + one / a + two / b


@compiled
def _refined(
    guess: float, tail: float, centre: float, sigma: float, at_once: float,
    first: float, a: float, second: float, b: float,
) -> float:  # fmt: skip
    """The response time that is exceeded with probability `tail`, by Newton's method on the logarithm of the tail."""
    x = guess
    for _ in range(_ROUNDS):
        now, density = _tail_and_density(x, centre, sigma, at_once, first, a, second, b)
        step = now * math.log(max(now, 1e-12) / tail) / max(density, 1e-300)
        step = min(max(step, -0.5 * x), x)
        x += step
        if abs(step) < _STEP * x:
            break
    return x


@compiled
def percentiles(
    table: FloatArray, service_ms: float, cv2: float,
    wait_probability: float, wait_ms: float, delay_probability: float, delay_ms: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """(mean, p50, p95, p99) of the response time in ms, within 1 % of `quantile`; `table` is percentile_table(cv2).

    Without a scheduling delay just by the table. With one, wait and delay as one wait with the same first two moments
    give a first guess by the table, which Newton's method makes exact.
    """
    mean = mean_ms(service_ms, wait_probability, wait_ms, delay_probability, delay_ms)
    c, p, a, b = wait_probability, delay_probability, wait_ms, delay_ms
    if p * b <= 0.0 or b < _SHORT * service_ms * cv2:
        p50, p95, p99 = look_up(table, service_ms, c, a)
        return mean, p50 + p * b, p95 + p * b, p99 + p * b
    if c * a <= 0.0 or a < _SHORT * service_ms * cv2:
        p50, p95, p99 = look_up(table, service_ms, p, b)
        return mean, p50 + c * a, p95 + c * a, p99 + c * a
    both = c * a + p * b
    single = max((c * a * a + p * b * b + c * p * a * b) / both, both)
    p50, p95, p99 = look_up(table, service_ms, both / single, single)
    if abs(a - b) < 1e-3 * a:
        b = a * 1.001
    first = c * (1.0 - p) + c * p * a / (a - b)
    second = p * (1.0 - c) - c * p * b / (a - b)
    centre, sigma = lognormal_shape(service_ms, cv2)
    at_once = (1.0 - c) * (1.0 - p)
    return (
        mean,
        _refined(p50, 0.50, centre, sigma, at_once, first, a, second, b),
        _refined(p95, 0.05, centre, sigma, at_once, first, a, second, b),
        _refined(p99, 0.01, centre, sigma, at_once, first, a, second, b),
    )
