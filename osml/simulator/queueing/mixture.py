"""Requests that are slow because the sibling hyperthread is busy, among others that are not: what that does to a tail.

Both kinds have lognormal service times of one shape; the slow ones are longer by a factor. The mean hardly shows a few
slow requests in a hundred, a p99 shows nothing else.
"""

from __future__ import annotations

import math

from osml.base.jit import compiled
from osml.simulator.queueing.distribution import normal_quantile, normal_tail

_FEW = 1e-3
_STEPS = 6


@compiled
def _score(tail: float, slow: float, fast_by: float, slow_by: float, usual: float) -> float:
    """Where the mixture exceeds with probability `tail`, in standard deviations; illinois between both kinds' own."""
    low, high = usual - fast_by, usual + slow_by
    at_low = math.log(((1.0 - slow) * tail + slow * normal_tail(low - slow_by)) / tail)
    at_high = math.log(((1.0 - slow) * normal_tail(high + fast_by) + slow * tail) / tail)
    z, kept = usual, 0
    for _ in range(_STEPS):
        z = (low * at_high - high * at_low) / (at_high - at_low)
        now = math.log(((1.0 - slow) * normal_tail(z + fast_by) + slow * normal_tail(z - slow_by)) / tail)
        if abs(now) < 1e-3:
            break
        if now > 0.0:
            low, at_low = z, now
            at_high *= 0.5 if kept == 1 else 1.0
            kept = 1
        else:
            high, at_high = z, now
            at_low *= 0.5 if kept == -1 else 1.0
            kept = -1
    return z


@compiled
def slow_share_extra(level: float, cv2: float, slow: float, ratio: float) -> float:
    """What the mixture adds to the quantile of a service time at `level`, in means of it.

    A share `slow` of the requests takes `ratio` times as long as the others, at the same mean of all. Negative below
    the median. Add it to the quantile of a response that was computed with the mean.
    """
    if slow < _FEW or slow > 1.0 - _FEW or ratio <= 1.0 + _FEW:
        return 0.0
    sigma = max(math.sqrt(math.log1p(cv2)), 1e-3)
    fast = 1.0 / (1.0 - slow + slow * ratio)
    usual = normal_quantile(level)
    z = _score(1.0 - level, slow, -math.log(fast) / sigma, math.log(ratio * fast) / sigma, usual)
    return math.exp(-0.5 * sigma * sigma) * (math.exp(sigma * z) - math.exp(sigma * usual))
