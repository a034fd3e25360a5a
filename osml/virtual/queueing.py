"""How long requests wait: n servers, general service times, bursty arrivals.

The distribution of the whole response time is in queueing_distribution, its fast percentiles in queueing_tables; their
names are here too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from osml.virtual.jit import compiled
from osml.virtual.queueing_distribution import (
    DISTRIBUTION,
    LEVELS,
    FloatArray,
    mean_ms,
    normal_tail,
    quantile,
    spectrum,
)
from osml.virtual.queueing_tables import PERCENTILES, TABLE_SHAPE, percentile_table, percentiles

__all__ = [
    "DISTRIBUTION", "LEVELS", "MAX_UTILISATION", "PERCENTILES", "TABLE_SHAPE", "FloatArray", "Response", "erlang_c",
    "mean_ms", "normal_tail", "percentile_table", "percentiles", "quantile", "quantiles", "queue_response", "spectrum",
]  # fmt: skip

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
def queue_response(
    service_ms: float, cv2: float, burstiness: float, arrivals_per_s: float, servers: int
) -> tuple[float, float]:
    """(probability of waiting, mean wait in ms of those who wait) of n servers: Erlang-C times (ca2 + cs2)/2.

    The utilisation counts as no more than MAX_UTILISATION.
    """
    utilisation = min(arrivals_per_s * service_ms / 1000.0 / servers, MAX_UTILISATION)
    wait = service_ms / (servers * (1.0 - utilisation)) * (burstiness + cv2) / 2.0
    return erlang_c(servers, utilisation * servers), wait


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
