"""The distribution of a response time: lognormal service, and a wait and a scheduling delay, each zero or exponential.

All three are independent. Times are in ms.

Every function is compiled and takes plain numbers and arrays, so that kernels can call it.
"""

from __future__ import annotations

import math

import numpy as np

from osml.base.jit import compiled
from osml.simulator.columns import FloatArray

DISTRIBUTION = "lognormal"
"""Of the service time: positive, one mode, a right tail, and given by mean and squared coefficient of variation."""

LEVELS: FloatArray = np.concatenate(
    [np.linspace(0.0125, 0.9, 36), [0.925, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.993, 0.996, 0.999, 0.9999]]
)
"""Probabilities at which a response-time distribution is kept."""

_Z_MAX = 7.0
_FAR = 40.0  # exponential tails further out than so many means are nothing
_GRID = 72
_ROOT_STEPS = 40
_PRECISION = 1e-5

# Gauss-Legendre on (0, 1); the weights carry the 1/sqrt(2 pi) of the normal density.
_X, _W = np.polynomial.legendre.leggauss(32)
_NODES: FloatArray = 0.5 * (_X + 1.0)
_WEIGHTS: FloatArray = 0.5 * _W / math.sqrt(2.0 * math.pi)


@compiled
def normal_tail(z: float) -> float:
    """P(Z > z) of the standard normal."""
    return 0.5 * math.erfc(z * 0.7071067811865476)


@compiled
def normal_quantile(level: float) -> float:
    """Where P(Z <= z) = level, 0 < level < 1; Acklam's rational approximation, relative error below 1.2e-9."""
    if level < 0.02425 or level > 0.97575:
        q = math.sqrt(-2.0 * math.log(min(level, 1.0 - level)))
        top = ((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838) * q
               - 2.549732539343734) * q + 4.374664141464968) * q + 2.938163982698783  # fmt: skip
        bottom = (((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996) * q
                  + 3.754408661907416) * q + 1.0  # fmt: skip
        return top / bottom if level < 0.5 else -top / bottom
    q = level - 0.5
    r = q * q
    top = (((((-3.969683028665376e01 * r + 2.209460984245205e02) * r - 2.759285104469687e02) * r
             + 1.383577518672690e02) * r - 3.066479806614716e01) * r + 2.506628277459239) * q  # fmt: skip
    bottom = ((((-5.447609879822406e01 * r + 1.615858368580409e02) * r - 1.556989798598866e02) * r
               + 6.680131188771972e01) * r - 1.328068155288572e01) * r + 1.0  # fmt: skip
    return top / bottom


@compiled
def delays_tail(x: float, wait_probability: float, wait_ms: float, delay_probability: float, delay_ms: float) -> float:
    """P(wait + delay > x) for x >= 0 where at least one of them isn't 0."""
    c = wait_probability if wait_ms > 0.0 else 0.0
    p = delay_probability if delay_ms > 0.0 else 0.0
    wait = math.exp(-x / wait_ms) if c > 0.0 else 0.0
    if p <= 0.0:
        return c * wait
    delay = math.exp(-x / delay_ms)
    if c <= 0.0:
        return p * delay
    if abs(wait_ms - delay_ms) < 1e-4 * wait_ms:
        both = wait * (1.0 + x / wait_ms)
    else:
        both = (wait_ms * wait - delay_ms * delay) / (wait_ms - delay_ms)
    return c * (1.0 - p) * wait + (1.0 - c) * p * delay + c * p * both


@compiled
def response_tail(
    x: float, centre: float, sigma: float,
    wait_probability: float, wait_ms: float, delay_probability: float, delay_ms: float,
) -> float:  # fmt: skip
    """P(response > x) for a service time exp(centre + sigma Z).

    The part that comes from waiting is an integral over service times below x, by Gauss-Legendre over just the range
    that matters: a short wait needs service times close to x.
    """
    if x <= 0.0:
        return 1.0
    z = (math.log(x) - centre) / sigma
    tail = normal_tail(z)
    longest = max(wait_ms if wait_probability > 0.0 else 0.0, delay_ms if delay_probability > 0.0 else 0.0)
    if longest <= 0.0:
        return tail
    high, low = min(z, _Z_MAX), -_Z_MAX
    if x > _FAR * longest:
        low = max(low, (math.log(x - _FAR * longest) - centre) / sigma)
    width = high - low
    if width <= 0.0:
        return tail
    total = 0.0
    for k in range(_NODES.shape[0]):
        at = low + width * _NODES[k]
        left = max(x - math.exp(centre + sigma * at), 0.0)
        waiting = delays_tail(left, wait_probability, wait_ms, delay_probability, delay_ms)
        total += _WEIGHTS[k] * math.exp(-0.5 * at * at) * waiting
    return tail + width * total


@compiled
def lognormal_shape(service_ms: float, cv2: float) -> tuple[float, float]:
    """(centre, sigma) of the logarithm of a service time; a fixed one counts as nearly fixed."""
    sigma = max(math.sqrt(math.log1p(cv2)), 1e-6)
    return math.log(service_ms) - 0.5 * sigma * sigma, sigma


@compiled
def quantile(
    level: float, service_ms: float, cv2: float,
    wait_probability: float, wait_ms: float, delay_probability: float, delay_ms: float,
) -> float:  # fmt: skip
    """Response time in ms at a level in (0, 1), exact to 0.01 % for this model.

    Found between two bounds: the quantile of the service time alone, and the sum of quantiles that share the tail
    among service, wait and delay. The logarithm of the tail is close to a straight line between them.
    """
    centre, sigma = lognormal_shape(service_ms, cv2)
    tail = 1.0 - level
    low = math.exp(centre + sigma * normal_quantile(level))
    c = wait_probability if wait_ms > 0.0 else 0.0
    p = delay_probability if delay_ms > 0.0 else 0.0
    if c <= 0.0 and p <= 0.0:
        return low
    share = tail / 3.0
    high = math.exp(centre - sigma * normal_quantile(share))
    if c > share:
        high += wait_ms * math.log(c / share)
    if p > share:
        high += delay_ms * math.log(p / share)
    at_low = math.log(response_tail(low, centre, sigma, c, wait_ms, p, delay_ms) / tail)
    at_high = math.log(max(response_tail(high, centre, sigma, c, wait_ms, p, delay_ms), 1e-300) / tail)
    if at_low <= 0.0:
        return low
    if at_high >= 0.0:
        return high
    kept = 0
    x = low
    for _ in range(_ROOT_STEPS):  # Illinois: regula falsi that halves an end which stays too long
        x = (low * at_high - high * at_low) / (at_high - at_low)
        now = math.log(response_tail(x, centre, sigma, c, wait_ms, p, delay_ms) / tail)
        if abs(now) < _PRECISION or high - low < _PRECISION * low:
            break
        if now > 0.0:
            low, at_low = x, now
            if kept == 1:
                at_high *= 0.5
            kept = 1
        else:
            high, at_high = x, now
            if kept == -1:
                at_low *= 0.5
            kept = -1
    return x


@compiled
def spectrum(
    service_ms: float, cv2: float,
    wait_probability: float, wait_ms: float, delay_probability: float, delay_ms: float, out: FloatArray,
) -> None:  # fmt: skip
    """Fill `out` with the response time in ms at each of LEVELS (within 0.5 %).

    The tail is computed on a logarithmic grid; between grid points its logarithm is taken as a straight line.
    """
    centre, sigma = lognormal_shape(service_ms, cv2)
    n = LEVELS.shape[0]
    if (wait_probability <= 0.0 or wait_ms <= 0.0) and (delay_probability <= 0.0 or delay_ms <= 0.0):
        for i in range(n):
            out[i] = math.exp(centre + sigma * normal_quantile(LEVELS[i]))
        return
    first = quantile(float(LEVELS[0]), service_ms, cv2, wait_probability, wait_ms, delay_probability, delay_ms)
    last = quantile(float(LEVELS[n - 1]), service_ms, cv2, wait_probability, wait_ms, delay_probability, delay_ms)
    out[0], out[n - 1] = first, last
    factor = math.exp(math.log(last / first) / _GRID)
    x, before = first, -math.log1p(-LEVELS[0])
    i = 1
    for _ in range(_GRID):
        after_x = x * factor
        tail = response_tail(after_x, centre, sigma, wait_probability, wait_ms, delay_probability, delay_ms)
        after = max(-math.log(max(tail, 1e-300)), before)
        while i < n - 1 and -math.log1p(-LEVELS[i]) <= after:
            part = (-math.log1p(-LEVELS[i]) - before) / max(after - before, 1e-12)
            out[i] = x + (after_x - x) * part
            i += 1
        x, before = after_x, after
    while i < n - 1:  # only what rounding has left over
        out[i] = last
        i += 1


@compiled
def mean_ms(
    service_ms: float, wait_probability: float, wait_ms: float, delay_probability: float, delay_ms: float
) -> float:
    """Mean response time in ms."""
    return service_ms + wait_probability * wait_ms + delay_probability * delay_ms
