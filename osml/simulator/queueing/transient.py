"""How a queue gets from one load to another, and how much chance moves it: the reflected Brownian motion.

In heavy traffic the number of waiting requests is a Brownian motion with the drift `arrivals - completions`, reflected
at zero (Whitt, Stochastic-Process Limits, 2002, chapter 9). Its clock is the relaxation time
(ca2 + cs2) x service time/(servers x (1 - utilisation)^2): so long it takes to build up, to forget, and to average out.
"""

from __future__ import annotations

import math

from osml.base.jit import compiled
from osml.simulator.queueing.distribution import normal_tail

_BUILT = 0.999
_LONG = 40.0
_HALVINGS = 30
_COMMON = 0.87
"""0.5 would keep the variance of all waits together; this one keeps the p99 of windows of a second within 5 % of those
of single requests (osml/lab/studies/queue_noise.py)."""


@compiled
def relaxation_s(service_s: float, variability: float, servers: float, gap: float) -> float:
    """Relaxation time in s; `variability` is ca2 + cs2, `gap` the distance of the utilisation from 1."""
    return service_s * (1.0 + variability / (servers * gap * gap))


@compiled
def built_share(time: float) -> float:
    """Share of the stationary mean wait that is there so many relaxation times after an empty queue.

    The first-moment function of reflected Brownian motion (Abate and Whitt, Adv. Appl. Prob. 19, 1987, corollary
    1.3.4). Below and above saturation alike: what chance adds to the fluid backlog builds up in the same way.
    """
    if time <= 0.0:
        return 0.0
    if time > _LONG:
        return 1.0
    root = math.sqrt(time)
    density = math.exp(-0.5 * time) / math.sqrt(2.0 * math.pi)
    return 1.0 - 2.0 * (1.0 + time) * normal_tail(root) + 2.0 * root * density


@compiled
def build_up(share: float, time: float) -> tuple[float, float]:
    """(share half-way, share at the end) of a step of `time` relaxation times that begins with `share`."""
    if share >= _BUILT:
        return 1.0, 1.0
    begun = 0.0
    if share > 0.0:
        low, high = 1e-8, _LONG
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            if built_share(middle) < share:
                low = middle
            else:
                high = middle
        begun = low
    return built_share(begun + 0.5 * time), built_share(begun + time)


@compiled
def spread_between(time: float) -> float:
    """Variance of the mean over a window of `time` relaxation times, as a share of the variance at one time.

    Of a process whose correlation decays exponentially; 1 for a window that is short beside the memory of the queue.
    """
    if time < 1e-3:
        return 1.0 - time / 3.0
    return 2.0 / time * (1.0 - (1.0 - math.exp(-time)) / time)


@compiled
def chance_factor(spread: float, score: float) -> float:
    """What a window's mean wait is beside the mean of all windows: a gamma number of mean 1 and variance `spread`.

    `score` is its standard normal score (Wilson and Hilferty 1931).
    """
    third = spread / 9.0
    root = max(1.0 - third + math.sqrt(third) * score, 0.0)
    return root * root * root


@compiled
def ramp(level: float, first: float, last: float, share: float) -> float:
    """What is not exceeded with probability `level`: from `first` to `last` in a share of the time, else `first`."""
    return first + (last - first) * max(0.0, 1.0 - (1.0 - level) / max(share, 1e-9))


@compiled
def common_share(spread: float) -> float:
    """Share of a window's mean wait that all its requests have: what varies between windows hardly does within."""
    return 1.0 - ((1.0 - spread) / (1.0 + spread)) ** _COMMON
