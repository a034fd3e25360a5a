"""Medians with confidence intervals, and paired differences between policies; by the bootstrap, seeded.

Seeds of one mix are alike, so mixes are resampled with all their seeds; only where there is one mix, its seeds.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

RESAMPLES = 1000
LEVEL = 0.95
Statistic = Callable[..., Any]


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


def _bootstrap(values: dict[Hashable, list[float]], statistic: Statistic, seed: int) -> Estimate:
    """The statistic over all values; its interval from resampling the clusters, which stay together."""
    finite = {key: [x for x in found if math.isfinite(x)] for key, found in values.items()}
    clusters = [np.array(found) for found in finite.values() if found]
    if not clusters:
        return Estimate(math.nan, math.nan, math.nan, 0)
    if len(clusters) == 1:  # one mix: only its seeds are left to resample
        clusters = [np.array([x]) for x in clusters[0]]
    data = np.concatenate(clusters)
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(clusters), (RESAMPLES, len(clusters)))
    if len({len(cluster) for cluster in clusters}) == 1:
        resampled = np.stack(clusters)[chosen].reshape(RESAMPLES, -1)  # (resamples, clusters * seeds)
        found = statistic(resampled, axis=1)
    else:
        found = np.array([statistic(np.concatenate([clusters[int(k)] for k in row])) for row in chosen.tolist()])
    low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(statistic(data)), float(low), float(high), len(data))


Values = Sequence[float] | dict[Hashable, list[float]]


def _clusters(values: Values) -> dict[Hashable, list[float]]:
    return values if isinstance(values, dict) else {k: [float(x)] for k, x in enumerate(values)}


def median(values: Values, seed: int = 0) -> Estimate:
    """The median of the finite values; with a mapping its values are clusters, the seeds of a mix."""
    return _bootstrap(_clusters(values), np.median, seed)


def mean(values: Values, seed: int = 0) -> Estimate:
    """The mean of the finite values; with a mapping its values are clusters, the seeds of a mix."""
    return _bootstrap(_clusters(values), np.mean, seed)


def paired(ours: Mapping[tuple[int, int], float], other: Mapping[tuple[int, int], float], seed: int = 0) -> Estimate:
    """Mean of the differences ours - other over the (case, seed) that both have: the same mix, arrivals and noise."""
    found: dict[Hashable, list[float]] = defaultdict(list)
    for key, value in ours.items():
        if key in other:
            found[key[0]].append(value - other[key])
    return mean(found, seed)
