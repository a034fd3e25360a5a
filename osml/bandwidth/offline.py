"""OMBM's offline predictor, algorithm 1: which request rates to profile, by divide and conquer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from osml.bandwidth.profile import Line, Point
from osml.base.failure import InputError

SAMPLES_GBPS = (0.8, 3.2, 6.4, 19.2, 24.8)
"""Bandwidths that the paper profiles (section 3.2)."""

EXIT_SHARE = 0.1
"""Minimum interval as a share of the range (section 3.2). The text says that this is 90 of 9000; it is 900."""

Measure = Callable[[float, float], float]
"""Tail latency in ms with so many GB/s reserved, at so many requests/s, under the worst contention."""


def exit_threshold_qps(least_qps: float, most_qps: float, share: float = EXIT_SHARE) -> float:
    """ETV: the width of an interval of rates below which profiling ends. InputError on a range that is none."""
    if not 0 < least_qps < most_qps < float("inf"):
        raise InputError(f"rates are {least_qps:g} to {most_qps:g} requests/s, expected 0 < lowest < highest")
    if not 0 < share < 1:
        raise InputError(f"exit threshold is {share:g} of the range, expected a share between 0 and 1")
    return (most_qps - least_qps) * share


def classic_line(
    measure: Measure, bandwidth_gbps: float, least_qps: float, most_qps: float, threshold_qps: float
) -> Line:
    """One prediction line (algorithm 1, lines 2 to 18): halve the interval towards where the tail grows faster."""
    found: dict[float, float] = {}

    def tail(qps: float) -> float:
        if qps not in found:
            found[qps] = measure(bandwidth_gbps, qps)
        return found[qps]

    low, high = least_qps, most_qps
    while True:
        middle = (low + high) / 2.0
        upper, lower = tail(high) / tail(middle), tail(middle) / tail(low)
        low, high = (middle, high) if upper > lower else (low, middle)
        if high - low < threshold_qps:
            break
    return Line(bandwidth_gbps, [Point(qps, found[qps]) for qps in sorted(found)])


def classic_lines(
    measure: Measure, samples_gbps: Sequence[float], least_qps: float, most_qps: float, share: float = EXIT_SHARE
) -> list[Line]:
    """The first prediction graph of algorithm 1. Five bandwidths and a share of 0.1 are 30 profilings."""
    threshold = exit_threshold_qps(least_qps, most_qps, share)
    return [classic_line(measure, gbps, least_qps, most_qps, threshold) for gbps in sorted(set(samples_gbps))]
