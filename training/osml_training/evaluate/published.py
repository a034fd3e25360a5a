"""Table 5 of OSML (FAST'23): errors of the authors' models in cores and ways; B' in percent points."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """(cores, ways) of one row: services of the training set, unseen ones, transferred to new platforms."""

    seen: tuple[float, float | None]
    unseen: tuple[float, float | None]
    transfer: tuple[float, float | None]


TABLE_5: dict[tuple[str, str], Published] = {
    ("a", "rcliff"): Published((0.589, 0.288), (1.266, 0.198), (2.142, 0.542)),
    ("a", "oaa"): Published((0.580, 0.360), (1.276, 0.191), (2.004, 0.865)),
    ("a2", "rcliff"): Published((1.072, 0.815), (3.403, 1.835), (0.772, 0.411)),
    ("a2", "oaa"): Published((1.072, 0.814), (3.404, 1.835), (0.790, 0.413)),
    ("b", "balanced"): Published((0.612, 0.053), (4.012, 0.167), (2.320, 0.969)),
    ("b", "core_dominated"): Published((0.314, 0.048), (3.434, 0.937), (2.250, 0.815)),
    ("b", "way_dominated"): Published((0.093, 0.462), (0.789, 0.783), (1.868, 1.519)),
    ("b2", "qos_reduction"): Published((7.87, None), (8.33, None), (11.28, None)),
}
"""(model, output) -> errors."""

PAIRS: dict[str, tuple[tuple[str, str, str | None], ...]] = {
    "a": (("rcliff", "rcliff_cores", "rcliff_ways"), ("oaa", "oaa_cores", "oaa_ways")),
    "a2": (("rcliff", "rcliff_cores", "rcliff_ways"), ("oaa", "oaa_cores", "oaa_ways")),
    "b": tuple((name, f"{name}_cores", f"{name}_ways") for name in ("balanced", "core_dominated", "way_dominated")),
    "b2": (("qos_reduction", "qos_reduction_pct", None),),
}
"""Rows of our table: their name, and the outputs of the model that are their cores and ways."""

SPEARMAN = {"llc_misses_per_s": 0.571, "bandwidth_gbps": 0.499, "ipc": -0.457}
"""Rank correlation of the OAA with counters (section 4.4)."""
