"""Inputs of Model-C' (kind `c2`): what a service has shown, what is measured now, and the cell that is asked about.

`osml/policies/osml/answers/outlook.py` makes the rows. Logarithms are natural; an offset is log(latency over target)
less `wait`, the logarithm of what a queue of so many CPUs does to a tail, so it is about the same in all cells.
"""

from __future__ import annotations

SHOWN = (
    "offset_fast", "offset", "offset_slow", "offset_last", "mean_fast", "mean_slow", "log_use", "use_trend",
    "rate_trend", "work_trend", "log_samples", "log_intervals", "log_settled", "wait",
)  # fmt: skip
"""Of the past intervals: means that forget fast or slowly, and trends (fast less slow)."""

MEASURED = ("ipc", "log_llc_misses", "log_gbps", "frequency_ghz", "jobs_share", "predicted")
"""Of the last interval: counters, the share of the CPUs that BE jobs have, and whether A' answers for the service."""

ASKED = (
    "log_cpus", "cpus_change", "ways", "ways_change", "utilisation", "wait_there", "wait_change", "oaa_cpus",
    "oaa_upper_cpus", "rcliff_upper_cpus", "oaa_ways", "rcliff_upper_ways",
)  # fmt: skip
"""Of the cell that is asked about, with the predictions of A' over it (CPUs as logarithm)."""

OUTLOOK_INPUTS = (*SHOWN, *MEASURED, *ASKED)
OUTLOOK_OUTPUT = "log_ratio_less_prior"
"""log(latency over target) in the settled state of the cell, less `offset` + `wait_there`."""
