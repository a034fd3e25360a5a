"""What Model-C sees of one service, the same vector from an observation, an environment and a row of traces.

From an observation it is `osml.predictors.feature_row(observation, service, STATE)`. Raw units, float32, NaN where
something was not measured; scaling is in the network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.simulator.colocation import features as e

Floats32 = NDArray[np.float32]

PAPER = (
    "ipc",
    "llc_misses_per_s",
    "bandwidth_gbps",
    "cpu_usage_cores",
    "cores",
    "cache_mib",
    "frequency_ghz",
    "mean_ms",
)
"""Inputs of OSML's Model-C (table 3); its response latency is the mean."""

STATE = (
    *PAPER,
    "latency_ms",
    "target_ms",
    "latency_over_target",
    "requests_per_s",
    "ways",
    "llc_occupancy_mib",
    "neighbour_cores",
    "neighbour_ways",
    "neighbour_bandwidth_gbps",
)
"""Inputs of the shipped Model-C, names of `osml.predictors.features.FEATURES`. No memory use: it names the service."""

LATENCIES = ("latency_ms", "mean_ms", "latency_over_target", "requests_per_s")
"""Known only where a request was answered."""

_SAME = {
    "ipc": e.O_IPC, "llc_misses_per_s": e.O_MISSES, "bandwidth_gbps": e.O_BANDWIDTH, "cpu_usage_cores": e.O_CPUS,
    "cores": e.O_CORES, "cache_mib": e.O_CACHE, "frequency_ghz": e.O_CLOCK, "mean_ms": e.O_MEAN,
    "latency_ms": e.O_LATENCY, "target_ms": e.O_TARGET, "requests_per_s": e.O_REQUESTS, "ways": e.O_WAYS,
    "llc_occupancy_mib": e.O_OCCUPANCY, "neighbour_bandwidth_gbps": e.O_OTHER_BANDWIDTH,
}  # fmt: skip


def environment_state(features: Floats32, names: tuple[str, ...] = STATE) -> Floats32:
    """(..., N_FEATURES) of `osml/Colocation-v0` -> (..., names), NaN where it says that nothing was measured.

    The environment counts the best-effort jobs' share as free, everybody else as a neighbour's.
    """
    measured, jobs = features[..., e.O_MEASURED] > 0, features[..., e.O_JOBS] > 0
    out = np.empty((*features.shape[:-1], len(names)), np.float32)
    for k, name in enumerate(names):
        if name in _SAME:
            out[..., k] = features[..., _SAME[name]]
        elif name == "latency_over_target":
            target = np.maximum(features[..., e.O_TARGET], 1e-9)
            out[..., k] = features[..., e.O_LATENCY] / target
        else:
            theirs, free = _BESIDE[name]
            out[..., k] = features[..., theirs] + np.where(jobs, features[..., free] + 1, 0)
        if name in LATENCIES:
            out[..., k] = np.where(measured, out[..., k], np.nan)
        elif name == "ipc":
            out[..., k] = np.where(out[..., k] > 0, out[..., k], np.nan)
    return out


_BESIDE = {"neighbour_cores": (e.O_OTHER_CORES, e.O_FREE_CORES), "neighbour_ways": (e.O_OTHER_WAYS, e.O_FREE_WAYS)}


def trace_state(column: Callable[[str], Floats32], latency_ms: Floats32, names: tuple[str, ...] = STATE) -> Floats32:
    """(rows, names) of trace rows: `column` gives one by its name, `latency_ms` is that of the target's percentile."""
    answered = ~np.isnan(latency_ms)
    special: dict[str, Any] = {"latency_ms": latency_ms, "latency_over_target": latency_ms / column("target_ms")}
    out = np.empty((len(latency_ms), len(names)), np.float32)
    for k, name in enumerate(names):
        out[:, k] = special[name] if name in special else column(name)
        if name in LATENCIES:
            out[:, k] = np.where(answered, out[:, k], np.nan)
    return out
