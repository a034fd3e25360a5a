"""Tail latency over the request rate at one bandwidth, between the samples of a profile."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from osml.bandwidth.profile import Line, Point

BACKLOG = 5.0
"""Times the latency of a calm sample: requests queue."""

_OVERLOADED = 0.8  # of the slope of a backlog: between a calm sample just below the cliff and one just above it is less


def tightened(lines: Sequence[Line]) -> list[Line]:
    """Lines with the samples of those with less bandwidth where these are below the straight line.

    With more bandwidth a tail is no longer, nor is it at a lower rate, so they bound it from above as well as the
    straight line does.
    """
    found: list[Line] = []
    below: list[Point] = []
    for line in lines:
        straight, points = Curve(line), {point.qps: point for point in line.points}
        for point in below:
            within = line.points[0].qps < point.qps < line.points[-1].qps
            if within and point.qps not in points and point.latency_ms < straight.at(point.qps):
                points[point.qps] = point
        own, bound_ms = {point.qps for point in line.points}, math.inf
        for qps in sorted(points, reverse=True):
            bound_ms = min(bound_ms, points[qps].latency_ms)
            if qps not in own:
                points[qps] = Point(qps, bound_ms, measured=False)
        found.append(Line(line.bandwidth_gbps, [points[qps] for qps in sorted(points)]))
        below += [point for point in line.points if point.measured]
    return found


class Curve:
    """Tail over rate at one bandwidth: straight lines between the samples, never falling.

    With the length of the runs, `run_s`, cliffs are put in. Over a capacity c a run of R seconds ends with a wait that
    grows by R/c for each request/s more. Where two samples rise so fast, the backlog is taken to grow as straight
    before them: a point is put in where that line, prolonged downwards, meets the latency of the last calm sample. A
    queue that is merely long grows more slowly, and keeps its straight line, which is on the safe side.
    """

    __slots__ = ("gbps", "qps", "raised", "tail_ms")

    def __init__(self, line: Line, run_s: float | None = None) -> None:
        self.gbps = line.bandwidth_gbps
        self.qps = [point.qps for point in line.points]
        self.tail_ms: list[float] = []
        self.raised = 0
        for point in line.points:
            worst = max(point.latency_ms, self.tail_ms[-1] if self.tail_ms else 0.0)
            self.raised += worst > point.latency_ms
            self.tail_ms.append(worst)
        if run_s is not None:
            self._put_in_cliff(run_s * 1e3)

    def _put_in_cliff(self, run_ms: float) -> None:
        rates, tails = self.qps, self.tail_ms
        for i in range(len(rates) - 2):
            slope = (tails[i + 2] - tails[i + 1]) / (rates[i + 2] - rates[i + 1])
            if slope * rates[i + 1] < _OVERLOADED * run_ms:
                continue
            if slope > (tails[i + 1] - tails[i]) / (rates[i + 1] - rates[i]):
                cliff = rates[i + 1] - (tails[i + 1] - tails[i]) / slope
                if cliff < rates[i + 1] * (1.0 - 1e-9):
                    rates.insert(i + 1, cliff)
                    tails.insert(i + 1, tails[i])
            return

    def at(self, qps: float) -> float:
        """Tail in ms at a rate; that of the end of the line beyond it."""
        rates, tails = self.qps, self.tail_ms
        i = bisect_left(rates, qps)
        if i == 0:
            return tails[0]
        if i == len(rates):
            return tails[-1]
        return tails[i - 1] + (tails[i] - tails[i - 1]) * (qps - rates[i - 1]) / (rates[i] - rates[i - 1])

    def rate_at(self, tail_ms: float) -> float:
        """The highest rate with that tail: no more than was profiled, and below the first sample by its slope."""
        rates, tails = self.qps, self.tail_ms
        i = bisect_right(tails, tail_ms)
        if i == len(tails):
            return rates[-1]
        if i == 0:
            rise = tails[1] - tails[0]
            return max(0.0, rates[0] - (tails[0] - tail_ms) * (rates[1] - rates[0]) / rise) if rise > 0 else 0.0
        return rates[i - 1] + (rates[i] - rates[i - 1]) * (tail_ms - tails[i - 1]) / (tails[i] - tails[i - 1])
