"""Counters that are there, or missing, together: what a cloud machine hides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

GROUPS: dict[str, tuple[str, ...]] = {
    "pmu": ("ipc", "llc_misses_per_s"),
    "llc": ("bandwidth_gbps", "llc_occupancy_mib", "neighbour_bandwidth_gbps"),
    "memory": ("vms_mib", "rss_mib"),
    "frequency": ("frequency_ghz", "turbo_ghz", "base_ghz"),
    "latency": ("latency_ms", "latency_over_target"),
    "latencies": ("mean_ms", "p50_ms"),
    "rate": ("requests_per_s",),
    "threads": ("threads",),
    "platform": ("platform_bandwidth_gbps", "smt"),
}
"""pmu: performance events; llc: resctrl monitoring. Allocations, CPU time and the target are always known."""

HIDDEN_IN_CLOUDS = ("pmu", "llc")


def membership(inputs: Sequence[str]) -> NDArray[np.float32]:
    """(groups, inputs): 1 where the input belongs to the group."""
    table = np.zeros((len(GROUPS), len(inputs)), np.float32)
    for row, names in enumerate(GROUPS.values()):
        for name in names:
            if name in inputs:
                table[row, list(inputs).index(name)] = 1
    return table


def hidden(x: NDArray[np.float32], inputs: Sequence[str], groups: Sequence[str]) -> NDArray[np.float32]:
    """A copy of rows with the counters of these groups missing."""
    out = x.copy()
    for group in groups:
        for name in GROUPS[group]:
            if name in inputs:
                out[:, list(inputs).index(name)] = np.nan
    return out
