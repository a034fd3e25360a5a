"""Two independent delays as one: what everybody waits for a little, and what few wait for long.

One with the mean of both would hide a long wait of few behind a short one of all; one with both moments would lengthen
the tail by waits that are rarer than it shows (a service of 1 ms that waits 1 ms, and 30 ms in 0.5 % of requests: p99
6 times too high). So it keeps the mean and the 99th percentile of the sum.
"""

from __future__ import annotations

import math

from osml.base.jit import compiled
from osml.simulator.queueing.distribution import delays_tail

_TAIL = 0.01
_ALL = math.log(1.0 / _TAIL)
"""99th percentile of an exponential delay of all, in means."""

_ROUNDS, _PRECISION = 12, 1e-3
_NEWTON = 2


@compiled
def _beyond(probability: float, mean_ms: float, tail: float) -> float:
    """What a delay that is 0 or exponential exceeds with probability `tail`."""
    return mean_ms * math.log(probability / tail) if probability > tail else 0.0


@compiled
def _sum_p99(p: float, a: float, q: float, b: float) -> float:
    """99th percentile of two delays that are 0 or exponential, by Illinois between bounds that share out the tail."""
    low = max(_beyond(p, a, _TAIL), _beyond(q, b, _TAIL))
    high = _beyond(p, a, 0.5 * _TAIL) + _beyond(q, b, 0.5 * _TAIL)
    if p + q - p * q <= _TAIL:
        return 0.0
    at_low = math.log(delays_tail(low, p, a, q, b) / _TAIL)
    at_high = math.log(delays_tail(high, p, a, q, b) / _TAIL)
    if at_low <= 0.0:
        return low
    if at_high >= 0.0:
        return high
    x, kept = low, 0
    for _ in range(_ROUNDS):
        x = (low * at_high - high * at_low) / (at_high - at_low)
        now = math.log(delays_tail(x, p, a, q, b) / _TAIL)
        if abs(now) < _PRECISION:
            break
        if now > 0.0:
            low, at_low = x, now
            at_high *= 0.5 if kept == 1 else 1.0
            kept = 1
        else:
            high, at_high = x, now
            at_low *= 0.5 if kept == -1 else 1.0
            kept = -1
    return x


@compiled
def _log_share(over: float) -> float:
    """The v >= 1 with v - ln v = 1 + `over`: Lambert's W, from its bounds (Chatzigeorgiou 2013) by Newton's method."""
    v = 1.0 + math.sqrt(2.0 * over) + over * 5.0 / 6.0
    if over > 1e-6:
        for _ in range(_NEWTON):
            v -= (v - math.log(v) - 1.0 - over) / (1.0 - 1.0 / v)
    return v


@compiled
def together(p: float, a: float, q: float, b: float) -> tuple[float, float, float]:
    """(ms that all wait, probability of a delay, its mean in ms) of two delays with those probabilities and means.

    Mean and 99th percentile are those of the sum. With the share P and the mean m of the delay, P m is the mean and
    m ln(100 P) the percentile. Where even a delay of all is too long for that, a part of it is what all wait.
    """
    if q * b <= 0.0:
        return 0.0, p, a
    if p * a <= 0.0:
        return 0.0, q, b
    mean = p * a + q * b
    p99 = _sum_p99(p, a, q, b)
    if p99 <= _ALL * mean:
        varying = max((p99 - mean) / (_ALL - 1.0), 0.0)
        return mean - varying, 1.0, varying
    share = min(_TAIL * math.exp(_log_share(max(math.log(mean / (_TAIL * p99)) - 1.0, 0.0))), 1.0)
    return 0.0, share, mean / share
