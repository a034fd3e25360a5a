"""Response times: Erlang-C with general service times, as whole distributions."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

MAX_UTILISATION = 0.985
"""Above this the stationary queue takes longer to build up than an interval lasts; the fluid backlog takes over."""

LEVELS: FloatArray = np.concatenate(
    [np.linspace(0.0125, 0.9, 36), [0.925, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.993, 0.996, 0.999, 0.9999]]
)
"""Probabilities at which a response-time distribution is kept."""

_NODES = 48
_Z: FloatArray = np.array([NormalDist().inv_cdf((k + 0.5) / _NODES) for k in range(_NODES)])
_STEPS: FloatArray = np.linspace(0.0, 1.0, 144)


def erlang_c(servers: int, offered: float) -> float:
    """Probability that a request has to wait, M/M/n with `offered` = arrival rate x service time < servers.

    Through the recursion of Erlang's B formula, which neither over- nor underflows.
    """
    if offered <= 0:
        return 0.0
    if offered >= servers:
        return 1.0
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    return servers * blocked / (servers - offered * (1.0 - blocked))


def normal_tail(z: FloatArray) -> FloatArray:
    """P(Z > z) of the standard normal; Abramowitz and Stegun 26.2.17, absolute error below 1e-7."""
    magnitude = np.abs(z)
    t = 1.0 / (1.0 + 0.2316419 * magnitude)
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    upper = 0.3989422804014327 * np.exp(-0.5 * magnitude * magnitude) * series
    return np.where(z >= 0, upper, 1.0 - upper)


@dataclass(frozen=True)
class Response:
    """What one request goes through.

    A service of `service_ms` (lognormal with `cv2`), a wait of mean `wait_ms` with probability `wait_probability`, a
    scheduling delay of mean `delay_ms` with probability `delay_probability`.
    """

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


def queue_response(
    service_ms: float, cv2: float, burstiness: float, arrivals_per_s: float, servers: int
) -> tuple[float, float]:
    """(probability of waiting, mean wait in ms of those who wait) of n servers: Erlang-C times (ca2 + cs2)/2.

    The utilisation counts as no more than MAX_UTILISATION.
    """
    utilisation = min(arrivals_per_s * service_ms / 1000.0 / servers, MAX_UTILISATION)
    wait = service_ms / (servers * (1.0 - utilisation)) * (burstiness + cv2) / 2.0
    return erlang_c(servers, utilisation * servers), wait


def _positive_wait_tail(response: Response, x: FloatArray) -> FloatArray:
    """P(wait + delay > x and wait + delay > 0): both are zero or exponential, and independent."""
    c, p = response.wait_probability, response.delay_probability
    a, b = max(response.wait_ms, 1e-9), max(response.delay_ms, 1e-9)
    if abs(a - b) < 1e-6 * a:
        b = a * (1.0 + 1e-5)
    later = np.maximum(x, 0.0)
    wait, delay = np.exp(-later / a), np.exp(-later / b)
    return c * (1 - p) * wait + (1 - c) * p * delay + c * p * (a * wait - b * delay) / (a - b)


def quantiles(response: Response) -> FloatArray:
    """Response time in ms at each of LEVELS.

    The tail P(R > x) is computed on a logarithmic grid: the part without any wait exactly, the part with a wait by
    adding up over equally likely service times. Between grid points the logarithm of the tail is a straight line.
    """
    sigma = float(np.sqrt(np.log1p(response.cv2)))
    low, high = 0.05 * response.service_ms, 60.0 * response.mean_ms
    grid: FloatArray = low * np.exp(_STEPS * float(np.log(high / low)))
    centre = np.log(response.service_ms) - sigma * sigma / 2.0
    at_once = (1.0 - response.wait_probability) * (1.0 - response.delay_probability)
    tail = at_once * normal_tail((np.log(grid) - centre) / max(sigma, 1e-6))
    if at_once < 1.0:
        services = np.exp(centre + sigma * _Z)
        tail = tail + _positive_wait_tail(response, grid[:, None] - services[None, :]).mean(axis=1)  # (grid, services)
    log_tail = np.log(np.clip(tail, 1e-12, 1.0))
    return np.interp(-np.log1p(-LEVELS), -log_tail, grid)
