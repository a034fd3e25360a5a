"""Fast percentiles: mean, p50, p95 and p99 of a response time by one look into a table per service.

For a given cv2 the quantile of (1 - r) x service + r x (zero or exponential wait), with r = wait/(service + wait), is a
smooth function of r and of the wait probability, on a finite square: no logarithm is needed, and no wait or an endless
one is just an edge. Steps are even in r and in the square root of the wait probability, where it bends at 1 - level.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from osml.virtual.jit import compiled
from osml.virtual.queueing_distribution import mean_ms, quantile

FloatArray = NDArray[np.float64]

PERCENTILES: FloatArray = np.array([0.50, 0.95, 0.99])
_STEPS_PROBABILITY = 99
_STEPS_SHARE = 40
TABLE_SHAPE = (_STEPS_PROBABILITY + 1, _STEPS_SHARE + 1, 3)
"""Shape of the table of one service."""


@compiled
def _fill(cv2: float, table: FloatArray) -> None:
    for i in range(_STEPS_PROBABILITY + 1):
        probability = (i / _STEPS_PROBABILITY) ** 2
        for j in range(_STEPS_SHARE + 1):
            share = min(j / _STEPS_SHARE, 1.0 - 1e-6)
            for k in range(3):
                table[i, j, k] = quantile(PERCENTILES[k], 1.0 - share, cv2, probability, share, 0.0, 0.0)


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
def percentiles(
    table: FloatArray, service_ms: float, cv2: float,
    wait_probability: float, wait_ms: float, delay_probability: float, delay_ms: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """(mean, p50, p95, p99) of the response time in ms; `table` is percentile_table(cv2).

    Without a scheduling delay by bilinear interpolation, within 1 % of `quantile`. With one by `quantile` itself.
    """
    mean = mean_ms(service_ms, wait_probability, wait_ms, delay_probability, delay_ms)
    if delay_probability > 0.0 and delay_ms > 0.0:
        p50 = quantile(0.50, service_ms, cv2, wait_probability, wait_ms, delay_probability, delay_ms)
        p95 = quantile(0.95, service_ms, cv2, wait_probability, wait_ms, delay_probability, delay_ms)
        p99 = quantile(0.99, service_ms, cv2, wait_probability, wait_ms, delay_probability, delay_ms)
        return mean, p50, p95, p99
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
    return mean, scale * p50, scale * p95, scale * p99
