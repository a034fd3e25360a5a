"""How long requests wait: n servers, general service times, bursty arrivals.

The distribution of the whole response time is in `distribution`, its fast percentiles are in `tables`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from osml.base.jit import compiled
from osml.simulator.columns import FloatArray
from osml.simulator.queueing.distribution import LEVELS, spectrum

MAX_UTILISATION = 0.985
"""Above this the stationary queue takes longer to build up than an interval lasts; the fluid backlog takes over."""


@compiled
def erlang_c(servers: int, offered: float) -> float:
    """Probability that a request has to wait, M/M/n with `offered` = arrival rate x service time < servers.

    From Erlang's B formula as 1/B = sum over k of (n/a) ((n-1)/a) ... ((n-k+1)/a), which needs one division.
    """
    if offered <= 0.0:
        return 0.0
    if offered >= servers:
        return 1.0
    inverse = 1.0 / offered
    term = 1.0
    total = 1.0
    for k in range(servers):
        term *= (servers - k) * inverse
        total += term
    return servers / (total * (servers - offered) + offered)


@compiled
def _poisson_wait(utilisation: float, cv2: float, servers: int) -> float:
    """Mean wait of those who wait in M/G/n, relative to M/M/n.

    Below cv2 = 1 between M/D/n and M/M/n (Cosmetatos 1975, Kimura 1994): with many servers and little load, whoever
    waits waits for the first of many to finish, which hardly depends on cv2. Above 1 the same fades out with
    n (1 - utilisation).
    """
    gap = 1.0 - utilisation
    if cv2 > 1.0:
        return 1.0 + 0.5 * (cv2 - 1.0) / (1.0 + (servers - 1) * gap)
    extra = gap * (servers - 1) * (math.sqrt(4.0 + 5.0 * servers) - 2.0) / (16.0 * servers * max(utilisation, 1e-9))
    return cv2 + (1.0 - cv2) * 0.5 * (1.0 + min(extra, 0.24))


@compiled
def _bursty_wait(utilisation: float, cv2: float, burstiness: float, servers: int) -> tuple[float, float]:
    """(probability of waiting, mean wait of those who wait relative to M/M/n) for arrivals that are not Poisson.

    The root y = 1 - sigma of GI/M/n is exact for balanced hyperexponential arrivals: their queue is geometric with
    ratio sigma, and an arrival sees all servers busy sigma/utilisation times as often as time does. Time sees that as
    in M/M/(n/z) with the peakedness z of the arrivals (Hayward's approximation, between whole numbers of servers).
    """
    gap = 1.0 - utilisation
    balance = 2.0 / (burstiness + 1.0)
    half = 0.5 * (1.0 - 2.0 * utilisation)
    y = half + math.sqrt(half * half + balance * utilisation * gap)
    offered = servers * utilisation
    if burstiness > 1.0:
        p = 0.5 * (1.0 + math.sqrt(1.0 - balance))
        a, b = 2.0 * p * offered, 2.0 * (1.0 - p) * offered
        transform = p * a / (a + 1.0) + (1.0 - p) * b / (b + 1.0)
    else:
        transform = math.exp(-1.0 / offered)  # the limit for steady arrivals
        if burstiness >= 1e-3:
            transform = math.pow(1.0 + burstiness / offered, -1.0 / burstiness)
    peakedness = max(1.0 / (1.0 - transform) - offered, 0.1)
    n = max(servers / peakedness, 1.0)
    whole = int(n)
    lower = erlang_c(whole, whole * utilisation)
    upper = erlang_c(whole + 1, (whole + 1) * utilisation)
    busy = lower * math.pow(upper / max(lower, 1e-300), n - whole)
    probability = min(1.0, busy * (1.0 - y) / utilisation)
    heavy = utilisation * utilisation * utilisation
    light = _poisson_wait(utilisation, cv2, servers)
    variability = light + heavy * ((burstiness + cv2) / (burstiness + 1.0) - light)
    return probability, gap / y * variability


@compiled
def queue_response(
    service_ms: float, cv2: float, burstiness: float, arrivals_per_s: float, servers: int
) -> tuple[float, float]:
    """(wait_probability, wait_ms) of n servers; their product is the mean wait.

    The wait counts as zero or exponential. Its real form differs: with regular service times it falls slowly at first
    and then fast. The pair is chosen so that the mean and the far tail are right: `wait_ms` is the decay of the tail,
    from the exact second moment of the wait in M/G/1 (Takacs 1962) with lognormal service, and `wait_probability` is
    what makes the mean right: close to the probability of waiting, not equal to it.

    The formula is the stationary one, for utilisations up to MAX_UTILISATION. In overload it is what random arrivals
    add to the fluid backlog, which depends on the distance from saturation in the same way (a reflected Brownian motion
    with drift either way exceeds its fluid path by variance/(2 |drift|)); see `behind_backlog`.
    """
    if arrivals_per_s <= 0.0:
        return 0.0, 0.0
    load = arrivals_per_s * service_ms / 1000.0 / servers
    utilisation = min(load if load <= 1.0 else max(2.0 - load, 0.5), MAX_UTILISATION)
    gap = 1.0 - utilisation
    if burstiness == 1.0:
        probability, relative = erlang_c(servers, utilisation * servers), _poisson_wait(utilisation, cv2, servers)
    else:
        probability, relative = _bursty_wait(utilisation, cv2, burstiness, servers)
    if load > 1.0:
        probability = 1.0
    wait = service_ms / (servers * gap) * relative
    variation = 2.0 * utilisation - 1.0 + 4.0 / 3.0 * gap * (1.0 + cv2)
    if variation > 1.0:
        variation = 1.0 + (variation - 1.0) / (1.0 + (servers - 1) * gap)
    mean = probability * wait
    decay = max(wait * math.sqrt(variation), mean)
    return (mean / decay if decay > 0.0 else 0.0), decay


@compiled
def behind_backlog(wait_ms: float, backlog_ms: float) -> float:
    """The wait_ms that is left behind a backlog that takes at least `backlog_ms` to serve throughout the interval.

    Servers only idle, and waits only exceed the fluid backlog, where chance empties the queue: with exp(-backlog/wait).
    """
    return wait_ms * math.exp(-backlog_ms / wait_ms) if backlog_ms > 0.0 and wait_ms > 0.0 else wait_ms


@dataclass(frozen=True)
class Response:
    """What one request goes through, as the arguments of `quantile`."""

    service_ms: float
    cv2: float
    wait_probability: float = 0.0
    wait_ms: float = 0.0
    delay_probability: float = 0.0
    delay_ms: float = 0.0

    @property
    def mean_ms(self) -> float:
        """Mean response time."""
        return self.service_ms + self.wait_probability * self.wait_ms + self.delay_probability * self.delay_ms


def quantiles(response: Response) -> FloatArray:
    """Response time in ms at each of LEVELS."""
    out = np.empty(len(LEVELS))
    spectrum(
        response.service_ms, response.cv2, response.wait_probability, response.wait_ms, response.delay_probability,
        response.delay_ms, out,
    )  # fmt: skip
    return out
