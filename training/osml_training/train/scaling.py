"""Ranges that inputs are scaled by, out of training rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from osml_training.networks import LEAST_LOG, LabelRange, Scaling
from osml_training.train.config import Config
from osml_training.train.table import Floats32, Rows

LOGARITHMIC = (
    "llc_misses_per_s", "bandwidth_gbps", "cpu_usage_cores", "vms_mib", "rss_mib", "cores", "cache_mib", "threads",
    "ways", "llc_occupancy_mib", "requests_per_s", "latency_ms", "mean_ms", "p50_ms", "target_ms",
    "latency_over_target", "neighbour_bandwidth_gbps", "expected_cores", "expected_cache_mib",
)  # fmt: skip
"""What spans decades, or is asked for as a ratio: demand over allocation, latency over target."""

_TAILS = (0.5, 99.5)

CENTRED_WIDTH = 3.0
"""Centred inputs go from minus to plus half of this between their tails. Around 0 a network learns faster than in
[0, 1]: a fifth less error after the same passes. What is missing is 0 there, too, and told by the mask."""


def scaling_of(x: Floats32, config: Config) -> Scaling:
    """Minimum and maximum (paper), or percentiles of the logarithm (masked): one wild counter must not set a range.

    Inputs that never move, or are never there, get a range around them that makes them harmless.
    """
    found = scaling_by(x, config.inputs, masked=config.variant == "masked")
    return centred(found) if config.variant == "masked" else found


def centred(scaling: Scaling) -> Scaling:
    """The same around 0, CENTRED_WIDTH wide; with as much room beyond the tails."""
    low, high = ((end - 0.5) * CENTRED_WIDTH for end in scaling.clip)
    return Scaling(scaling.log, scaling.low + scaling.span / 2, scaling.span / CENTRED_WIDTH, (low, high))


def scaling_by(x: Floats32, names: Sequence[str], *, masked: bool) -> Scaling:
    """The same for inputs `names`: percentiles and logarithms where `masked`."""
    log = np.array([masked and name in LOGARITHMIC for name in names])
    low, high = np.zeros(len(names)), np.ones(len(names))
    for k in range(len(names)):
        known = x[:, k][np.isfinite(x[:, k])].astype(np.float64)
        if len(known) == 0:
            continue
        values = np.log(np.maximum(known, LEAST_LOG)) if log[k] else known
        low[k], high[k] = np.percentile(values, _TAILS) if masked else (values.min(), values.max())
    span = np.where(high - low > 1e-9, high - low, np.maximum(np.abs(high), 1.0))
    return Scaling(log, low, span)


def label_range(rows: Rows) -> LabelRange:
    """Mean, standard deviation (never 0), least and most of each label, of those that there are."""
    y = rows.y.astype(np.float64)
    std = np.maximum(np.nanstd(y, axis=0), 1e-6)
    return LabelRange(np.nanmean(y, axis=0), std, np.nanmin(y, axis=0), np.nanmax(y, axis=0))
