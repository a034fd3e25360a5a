"""Quantiles of histograms, and how sure they are."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Histogram = Sequence[tuple[float, int]]
"""Pairs of a latency in ms and how many requests had it, ascending."""


def quantiles_of(histogram: Histogram, levels: Sequence[float]) -> list[float | None]:
    """Nearest-rank quantiles, None without samples."""
    if not histogram:
        return [None] * len(levels)
    values = np.array([value for value, _ in histogram])
    ranks = np.cumsum([count for _, count in histogram])
    return [float(values[np.searchsorted(ranks, np.ceil(level * ranks[-1]) - 1e-9)]) for level in levels]


def spread(histogram: Histogram, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """The quantiles at these levels, interpolated."""
    values = np.array([value for value, _ in histogram])
    counts = np.array([count for _, count in histogram], np.float64)
    middles = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
    return np.interp(levels, middles, values)


def order_interval(histogram: Histogram, level: float, confidence: float) -> tuple[float | None, float | None]:
    """Interval of a quantile from order statistics; the largest sample is its end where samples are few.

    The number of samples below the quantile is binomial. Each end is beyond it in at most half of 1 - confidence.
    """
    total = sum(count for _, count in histogram)
    if total == 0:
        return (None, None)
    tail = 0.5 * (1.0 - confidence)
    law: Any = importlib.import_module("scipy.stats").binom  # it has no type information
    below, above = (float(law.ppf(share, total, level)) for share in (tail, 1.0 - tail))
    ranks = max(below, 1.0), min(above + 1.0, total)
    low, high = quantiles_of(histogram, [(rank - 0.5) / total for rank in ranks])  # nearest rank: rounds up
    return (low, high)
