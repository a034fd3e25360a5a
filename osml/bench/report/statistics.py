"""Medians with confidence intervals, and paired differences between policies; by the bootstrap, seeded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95
Key = TypeVar("Key")


class Estimate(NamedTuple):
    """A statistic of `n` values with its 95 % bootstrap interval; NaN where there are no values."""

    value: float
    low: float
    high: float
    n: int

    def text(self, form: str = ".3g") -> str:
        """Value and interval, as in "3.2 [2.9, 3.6]"; "-" where there is nothing."""
        if self.n == 0 or math.isnan(self.value):
            return "-"
        if self.n == 1:
            return f"{self.value:{form}}"
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"


def _bootstrap(values: Iterable[float], mean: bool, seed: int) -> Estimate:
    data = np.array(list(values), np.float64)
    data = data[np.isfinite(data)]
    if not len(data):
        return Estimate(math.nan, math.nan, math.nan, 0)
    rng = np.random.default_rng(seed)
    chosen = data[rng.integers(0, len(data), (RESAMPLES, len(data)))]  # (resamples, values)
    found = chosen.mean(1) if mean else np.median(chosen, axis=1)
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(data.mean() if mean else np.median(data)), float(low), float(high), len(data))


def median(values: Iterable[float], seed: int = 0) -> Estimate:
    """The median of the finite values."""
    return _bootstrap(values, mean=False, seed=seed)


def mean(values: Iterable[float], seed: int = 0) -> Estimate:
    """The mean of the finite values."""
    return _bootstrap(values, mean=True, seed=seed)


def paired(ours: Mapping[Key, float], other: Mapping[Key, float], seed: int = 0) -> Estimate:
    """Mean of the differences ours - other over the cases that both have: the same mix, arrivals and noise."""
    return mean([value - other[key] for key, value in ours.items() if key in other], seed)
