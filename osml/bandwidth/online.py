"""OMBM's online predictor, algorithm 2: from the current rate and the SLO to a bandwidth.

The line of a rate (tail latency over bandwidth) is made once and kept: the second prediction graph (figure 6). A
classic profile connects latencies at the same rate by straight lines, as the paper does. An adaptive one connects rates
at the same latency, because the cliff moves along the rates as the bandwidth grows: between two lines the rate at which
a latency is reached is taken as linear in the bandwidth. That rate saturates, so a straight line is on the safe side.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import pairwise
from typing import NamedTuple

from msgspec import Struct

from osml.bandwidth.curve import Curve, tightened
from osml.bandwidth.profile import Profile
from osml.base.failure import InputError

_MAX_LINES = 4096
_PARTS = 16  # bandwidths between two lines of an adaptive profile
_SEARCHES = 48
_LASTING = 0.01  # of the length of a run: a capacity that is missed by so much at most
_NOISE = 1.1  # times a latency: no rise yet


class Prediction(Struct, frozen=True, gc=False):
    """The least bandwidth that meets the SLO, and the tail predicted with it.

    Where none meets it `bandwidth_gbps` is None and `predicted_ms` is the tail with the most. `qps` is the rate of the
    line used, `line` that line as (GB/s, ms). `clamped` says that the rate asked for is outside of the profile: below
    it the line of its lowest rate counts, beyond it all bandwidth is named.
    """

    bandwidth_gbps: float | None
    predicted_ms: float
    qps: float
    clamped: bool
    line: tuple[tuple[float, float], ...]


class _SecondLine(NamedTuple):
    """Tail over bandwidth at one rate as (GB/s, ms), never rising, and the tails negated, which ascend."""

    points: tuple[tuple[float, float], ...]
    falling: list[float]


class Predictor:
    """Predictions from one profile.

    With `rate_steps`, rates are rounded up to that many steps of the range, so that a rate that wavers finds its line
    again; 0 makes a line for each rate.
    """

    def __init__(self, profile: Profile, rate_steps: int = 0) -> None:
        self.profile = profile
        self.least_qps, self.most_qps = profile.least_qps, profile.most_qps
        adaptive = profile.method == "adaptive"
        lines = tightened(profile.lines) if adaptive else profile.lines
        self._curves = [Curve(line, profile.run_s if adaptive else None) for line in lines]
        self._step = (self.most_qps - self.least_qps) / rate_steps if rate_steps else 0.0
        self._lines: dict[float, _SecondLine] = {}

    @property
    def notes(self) -> list[str]:
        """What was measured and can't be: latencies that fall with the rate or rise with the bandwidth."""
        found: list[str] = []
        raised = sum(Curve(line).raised for line in self.profile.lines)
        if raised:
            found.append(
                f"in {raised} sample(s) the latency falls as the rate rises: the latency of the lower rate is used"
            )
        worse = 0
        for lower, upper in pairwise(self.profile.lines):
            below = {point.qps: point.latency_ms for point in lower.points}
            worse += sum(point.latency_ms > _NOISE * below.get(point.qps, math.inf) for point in upper.points)
        if worse:
            found.append(
                f"in {worse} sample(s) the latency rises with the bandwidth: the higher latency is used for both"
            )
        return found

    def predict(self, qps: float, slo_ms: float) -> Prediction:
        """The least bandwidth for a rate and an SLO in ms (algorithm 2). InputError unless both are above 0."""
        if not (0.0 < slo_ms < math.inf and 0.0 < qps < math.inf):
            raise InputError(f"rate {qps:g}/s and SLO {slo_ms:g} ms: expected two numbers above 0")
        wanted, clamped = self._within(qps)
        points, falling = self._lines.get(wanted) or self._line(wanted)
        i = bisect_left(falling, -slo_ms)
        if i == len(falling):
            return Prediction(None, points[-1][1], wanted, clamped, points)
        if qps > self.most_qps:  # nothing is known there: all of it, if that is enough at the highest rate
            i = len(falling) - 1
        gbps, tail_ms = points[i]
        if i == 0 or qps > self.most_qps:
            return Prediction(gbps, tail_ms, wanted, clamped, points)
        before_gbps, before_ms = points[i - 1]
        share = (before_ms - slo_ms) / (before_ms - tail_ms)
        return Prediction(before_gbps + (gbps - before_gbps) * share, slo_ms, wanted, clamped, points)

    def predict_lasting(self, qps: float, slo_ms: float) -> Prediction:
        """As `predict`, for a rate that lasts longer than a run of the profile.

        A tail that is a share of the run's length was a backlog, which goes on growing after the run. So the SLO counts
        up to 1 % of that length; the whole of it only where nothing else is possible, or the length is not known.
        """
        run_s = self.profile.run_s
        if run_s is not None and _LASTING * run_s * 1e3 < slo_ms:
            found = self.predict(qps, _LASTING * run_s * 1e3)
            if found.bandwidth_gbps is not None:
                return found
        return self.predict(qps, slo_ms)

    def tail_ms(self, qps: float, bandwidth_gbps: float) -> float:
        """The predicted tail in ms at a rate with so much bandwidth; both are clamped to the profile."""
        points = self._line(self._within(qps)[0]).points
        gbps, tail = points[0]
        for upper_gbps, upper in points[1:]:
            if bandwidth_gbps <= upper_gbps:
                share = (max(bandwidth_gbps, gbps) - gbps) / (upper_gbps - gbps)
                return tail + (upper - tail) * share
            gbps, tail = upper_gbps, upper
        return tail

    def _line(self, qps: float) -> _SecondLine:
        known = self._lines.get(qps)
        if known is None:
            if len(self._lines) >= _MAX_LINES:
                self._lines.clear()
            points = tuple(self._made(qps))
            known = self._lines[qps] = _SecondLine(points, [-tail for _, tail in points])
        return known

    def _within(self, qps: float) -> tuple[float, bool]:
        """The rate whose line is used, and whether the rate asked for is outside of the profile."""
        low, high = self.least_qps, self.most_qps
        if qps < low:
            return low, True
        if qps > high:
            return high, True
        if self._step:
            qps = min(high, low + math.ceil((qps - low) / self._step - 1e-9) * self._step)
        return qps, False

    def _made(self, qps: float) -> list[tuple[float, float]]:
        curves = self._curves
        points = [(curve.gbps, curve.at(qps)) for curve in curves]
        for i in range(len(points) - 2, -1, -1):  # more bandwidth never hurts: the worse measurement holds for both
            points[i] = (points[i][0], max(points[i][1], points[i + 1][1]))
        if self.profile.method == "classic":
            return points
        made: list[tuple[float, float]] = []
        for i in range(len(curves) - 1):
            (low, worst), (high, best) = points[i], points[i + 1]
            made.append(points[i])
            for part in range(1, _PARTS):
                share = part / _PARTS
                along = _between(curves[i], curves[i + 1], share, qps, best, worst)
                made.append((low + (high - low) * share, min(along, worst + (best - worst) * share)))
        made.append(points[-1])
        return made


def _between(lower: Curve, upper: Curve, share: float, qps: float, best_ms: float, worst_ms: float) -> float:
    """The tail at which the rate, linear in the bandwidth between two lines, is the one asked for (in logarithms)."""
    low, high = math.log(best_ms), math.log(worst_ms)
    for _ in range(_SEARCHES):
        if high - low < 1e-6:
            break
        middle = (low + high) / 2.0
        tail = math.exp(middle)
        reached = (1.0 - share) * lower.rate_at(tail) + share * upper.rate_at(tail)
        low, high = (low, middle) if reached >= qps else (middle, high)
    return math.exp(high)
