"""What goes into the models and what comes out: names, in order. Units are those of the columns (data/README.md)."""

from __future__ import annotations

from typing import Literal

from osml.frontier import DIRECTIONS

Model = Literal["a", "a2", "b", "b2"]
MODELS: tuple[Model, ...] = ("a", "a2", "b", "b2")
"""OSML's A, A' (a2), B and B' (b2)."""

_OWN = (
    "ipc",
    "llc_misses_per_s",
    "bandwidth_gbps",
    "cpu_usage_cores",
    "vms_mib",
    "rss_mib",
    "cores",
    "cache_mib",
    "frequency_ghz",
)
_BESIDE = ("neighbour_cores", "neighbour_cache_mib", "neighbour_bandwidth_gbps")

INPUTS: dict[Model, tuple[str, ...]] = {
    "a": _OWN,
    "a2": (*_OWN, *_BESIDE),
    "b": (*_OWN, *_BESIDE, "slowdown"),
    "b2": (*_OWN, *_BESIDE, "expected_cores", "expected_cache_mib"),
}
"""The paper's inputs (OSML table 3 and 4): 9, 12, 13 and 14. NaN where not measured.

`slowdown` is a share (0.05 = the latency may rise by 5 %); `expected_*` is what is left after deprivation.
"""

PLATFORM = ("platform_cores", "platform_ways", "way_mib", "platform_bandwidth_gbps", "base_ghz", "turbo_ghz", "smt")
"""Descriptors of the machine, from its fingerprint."""

CONTEXT = (
    "threads",
    "ways",
    "llc_occupancy_mib",
    "requests_per_s",
    "latency_ms",
    "mean_ms",
    "p50_ms",
    "target_ms",
    "latency_over_target",
    "neighbours",
    "neighbour_ways",
    *PLATFORM,
)
"""What a production node knows besides: the same for all models. `latency_ms` is at the percentile of the target."""

_CLIFF = ("rcliff_cores", "rcliff_ways", "oaa_cores", "oaa_ways", "oaa_bandwidth_gbps")
OUTPUTS: dict[Model, tuple[str, ...]] = {
    "a": _CLIFF,
    "a2": _CLIFF,
    "b": tuple(f"{direction}_{resource}" for direction in DIRECTIONS for resource in ("cores", "ways")),
    "b2": ("qos_reduction_pct",),
}
"""Labels, NaN where there is none. B: what can be taken at `slowdown`, 0 where nothing (masked in the paper's loss).

B': 100 (1 - latency before/latency after) in percent points: 0 = no harm, 50 = twice the latency, 100 = it no longer
answers; below 0 it got faster.
"""
