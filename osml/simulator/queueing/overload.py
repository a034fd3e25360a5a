"""How long requests wait beyond saturation: the backlog of the mean, and how far chance takes a queue from it.

What came less what could be served is in heavy traffic a Brownian motion, and the queue is that motion reflected at
zero (Whitt, Stochastic-Process Limits, 2002, chapter 9). Every second adds the variance of what comes and of what is
served. So the mean and the variance since the queue was empty say how it is distributed, whatever the loads were.
"""

from __future__ import annotations

import math

from osml.base.jit import compiled
from osml.simulator.queueing.distribution import normal_quantile, normal_tail

_P99 = 2.3263
"""Standard normal score of a 99th percentile."""

_FADES = 0.7
_LEAST = 1e-12


@compiled
def positive_mean(backlog: float) -> float:
    """Mean of the positive part of a normal number around `backlog`, in standard deviations."""
    density = math.exp(-0.5 * backlog * backlog) / math.sqrt(2.0 * math.pi)
    return max(density + backlog * normal_tail(-backlog), 0.0)


@compiled
def reflected_mean(backlog: float) -> float:
    """Mean of a queue that began empty, in standard deviations of what came less what could be served.

    `backlog` is the mean of that difference: the queue without chance. Servers that chance left without work cannot
    make up for it: so the queue is longer than the positive part, most of all at saturation.
    """
    added = (0.5 - normal_tail(backlog)) / backlog if backlog > 1e-3 else 1.0 / math.sqrt(2.0 * math.pi)
    return positive_mean(backlog) + added


@compiled
def reflected_quantile(backlog: float, score: float) -> float:
    """What that queue exceeds as often as a standard normal number exceeds `score`.

    At saturation it is the absolute value of a normal number, behind a long backlog a normal number. In between this is
    within 3 % at the median and 1 % in the tail.
    """
    absolute = -normal_quantile(0.5 * max(normal_tail(score), 1e-300))
    return max(backlog + score + (absolute - score) / (1.0 + _FADES * backlog), 0.0)


@compiled
def longest_wait(variance: float) -> float:
    """99th percentile of a queue that has been at saturation since it was empty."""
    return reflected_quantile(0.0, _P99) * math.sqrt(variance)


@compiled
def spread_wait(
    middle: float, own: float, share: float, growing: bool, spread: float, growth: float, dt: float, score: float
) -> tuple[float, float]:
    """(mean, 99th percentile) of the requests before one that arrives in a step of `dt` seconds.

    In the mean there are `middle` of them, and `own` more at the 99th percentile as the backlog grows or drains in a
    share of the step. `spread` is the variance at the start, `growth` what a second adds. While the backlog is
    `growing`, it is reflected at zero. While it drains, it is gone where it would be negative. A `score` says where
    chance has taken this one queue (NaN: all that could be); it varies only by what the step itself adds.
    """
    deviation = math.sqrt(max(spread + 0.5 * growth * dt * share, _LEAST))
    if not math.isnan(score):
        within = math.sqrt(max(growth * dt * share / 6.0, _LEAST))  # of a Brownian motion around its mean in the step
        if growing:
            mean = deviation * reflected_quantile(middle / deviation, score)
            over = _P99 * within
        else:
            at = middle + deviation * score
            mean = within * positive_mean(at / within)
            over = max(at + _P99 * within, 0.0) - mean
    elif growing:
        mean = deviation * reflected_mean(middle / deviation)
        over = deviation * reflected_quantile(middle / deviation, _P99) - mean
    else:
        mean = deviation * positive_mean(middle / deviation)
        over = middle + _P99 * deviation - mean
    if share < 1.0:
        mean = middle + (mean - middle) * share
    over = max(over, 0.0)
    return mean, mean + math.sqrt(over * over + own * own)
