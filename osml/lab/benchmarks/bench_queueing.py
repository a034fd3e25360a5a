"""Responses per second of the queueing formulas: wait and percentiles of one service in one interval."""

from __future__ import annotations

import numpy as np

from osml.base.jit import compiled
from osml.lab.benchmarks.harness import rate, take
from osml.simulator.columns import FloatArray
from osml.simulator.queueing import LEVELS, percentile_table, percentiles, quantile, queue_response, spectrum


@compiled
def _percentiles(count: int, table: FloatArray, burstiness: float, delay_probability: float) -> float:
    total = 0.0
    for i in range(count):
        probability, wait = queue_response(2.0, 0.3, burstiness, 1000.0 + i % 7000, 18)
        total += percentiles(table, 2.0, 0.3, probability, wait, delay_probability, 1.0)[3]
    return total


@compiled
def _quantiles(count: int) -> float:
    total = 0.0
    for i in range(count):
        probability, wait = queue_response(2.0, 0.3, 1.0, 1000.0 + i % 7000, 18)
        total += quantile(0.99, 2.0, 0.3, probability, wait, 0.0, 0.0)
    return total


@compiled
def _spectra(count: int, out: FloatArray) -> None:
    for i in range(count):
        probability, wait = queue_response(2.0, 0.3, 1.0, 1000.0 + i % 7000, 18)
        spectrum(2.0, 0.3, probability, wait, 0.0, 0.0, out)


def run() -> None:
    """The table alone, with bursty arrivals, with a scheduling delay; then the exact ways."""
    table, out = percentile_table(0.3), np.empty(len(LEVELS))
    take("queueing_percentiles", "responses/s", rate(500_000, lambda: _percentiles(500_000, table, 1.0, 0.0)))
    take("queueing_percentiles_bursty", "responses/s", rate(500_000, lambda: _percentiles(500_000, table, 2.5, 0.0)))
    take("queueing_percentiles_delayed", "responses/s", rate(50_000, lambda: _percentiles(50_000, table, 1.0, 0.3)))
    take("queueing_quantile", "quantiles/s", rate(20_000, lambda: _quantiles(20_000)))
    take("queueing_spectrum", "spectra/s", rate(2_000, lambda: _spectra(2_000, out)))
