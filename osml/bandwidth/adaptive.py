"""Sample points chosen automatically: what OMBM leaves open (section 6), with the same number of profilings.

A line begins at both ends of the range of rates. A backlog at the upper end tells where the cliff is: a run of R
seconds at a rate q above the capacity c ends with a wait of R (q/c - 1), so one sample gives c. The next two go just
above and just below it. Then the neighbours that disagree most (logarithms of their latencies, averaged over the rates,
times the bandwidth between them) get a new line in their middle, until the profilings are spent.

Only where to look comes from this reasoning; predictions rest on what was measured there. What a line inherits costs
nothing: where the line below is still calm at the lowest rate, so is this one, by its latency.
"""

from __future__ import annotations

import math
from itertools import pairwise

from osml.bandwidth.curve import BACKLOG, Curve
from osml.bandwidth.offline import Measure, exit_threshold_qps
from osml.bandwidth.profile import Line, Point
from osml.base.failure import InputError

PROFILINGS = 30
LEAST_GBPS = 0.8
_LEAST_PROFILINGS = 8
_CALM = 2.0  # times the latency of the line above: no backlog yet
_BESIDE_CLIFF = (1.03, 0.98)  # of the capacity: a backlog that has begun, a queue that has not
_GRID = 48


class _Samples:
    """Samples of one line by rate; `inherited` ones were not measured."""

    def __init__(self, gbps: float, run_s: float) -> None:
        self.gbps, self.run_s = gbps, run_s
        self.tails: dict[float, float] = {}
        self.inherited: set[float] = set()

    @property
    def line(self) -> Line:
        """As a line of a profile."""
        points = [Point(qps, self.tails[qps], qps not in self.inherited) for qps in sorted(self.tails)]
        return Line(self.gbps, points)

    @property
    def curve(self) -> Curve:
        """As predictions see it."""
        return Curve(self.line, self.run_s)


class _Sampling:
    """Profilings in progress."""

    def __init__(self, measure: Measure, rates: tuple[float, float], profilings: int, run_s: float) -> None:
        self.measure, self.rates, self.left, self.run_s = measure, rates, profilings, run_s

    def sample(self, line: _Samples, qps: float) -> None:
        """Measure one point, where a profiling is left."""
        if self.left and (qps not in line.tails or qps in line.inherited):
            self.left -= 1
            line.tails[qps] = self.measure(line.gbps, qps)
            line.inherited.discard(qps)

    def finish(self, line: _Samples) -> None:
        """The two samples beside the cliff of a line whose ends are known; a calm line has none."""
        low, high = self.rates
        calm_ms, last_ms = line.tails[low], line.tails[high]
        if last_ms < BACKLOG * calm_ms:
            return
        capacity = self._capacity(high, last_ms)
        for share in _BESIDE_CLIFF:
            qps = capacity * share
            if low < qps < high:
                self.sample(line, qps)
                capacity = min(capacity, self._capacity(qps, line.tails.get(qps, 0.0)))

    def _capacity(self, qps: float, tail_ms: float) -> float:
        """The highest rate without a backlog, from a wait at the end of a run; too high where not all requests waited.

        A service turns requests away where its queue is full: then a sample nearer to the cliff says it better.
        """
        return qps / (1.0 + tail_ms / (self.run_s * 1e3))

    def between(self, lower: _Samples, upper: _Samples) -> _Samples:
        """A line in the middle of two, its ends inherited where the neighbours leave no doubt."""
        line = _Samples((lower.gbps + upper.gbps) / 2.0, self.run_s)
        for qps in self.rates:
            if lower.tails[qps] <= _CALM * upper.tails[qps]:
                line.tails[qps] = lower.tails[qps]
                line.inherited.add(qps)
            else:
                self.sample(line, qps)
        return line


def adaptive_lines(
    measure: Measure,
    peak_gbps: float,
    least_qps: float,
    most_qps: float,
    run_s: float,
    profilings: int = PROFILINGS,
    least_gbps: float = LEAST_GBPS,
) -> list[Line]:
    """The first prediction graph from so many profilings of `run_s` seconds; rates and bandwidths are chosen here.

    Raises InputError on ranges that are none and on fewer profilings than two lines need.
    """
    exit_threshold_qps(least_qps, most_qps)
    if not 0 < least_gbps < peak_gbps < math.inf:
        raise InputError(f"bandwidths are {least_gbps:g} to {peak_gbps:g} GB/s, expected 0 < lowest < highest")
    if not 0 < run_s < math.inf:
        raise InputError(f"run_s is {run_s:g}, expected the seconds of one profiling run, above 0")
    if profilings < _LEAST_PROFILINGS:
        raise InputError(f"profilings is {profilings}, expected at least {_LEAST_PROFILINGS} profiling runs")
    sampling = _Sampling(measure, (least_qps, most_qps), profilings, run_s)
    lines = [_Samples(least_gbps, run_s), _Samples(peak_gbps, run_s)]
    for line in lines:
        for qps in (least_qps, most_qps):
            sampling.sample(line, qps)
        sampling.finish(line)
    while sampling.left:
        curves = [line.curve for line in lines]
        doubts = [  # where nobody disagrees, the widest gap
            (_doubt(a, b, least_qps, most_qps), b.gbps - a.gbps) for a, b in pairwise(curves)
        ]
        at = doubts.index(max(doubts)) + 1
        if sampling.left <= len(_BESIDE_CLIFF):  # not enough for a line
            _spend_rest(sampling, lines)
            break
        left = sampling.left
        lines.insert(at, sampling.between(lines[at - 1], lines[at]))
        sampling.finish(lines[at])
        if sampling.left == left:  # calm at both ends as its neighbours are: then that is measured once
            sampling.sample(lines[at], most_qps)
    return [line.line for line in lines]


def _spend_rest(sampling: _Sampling, lines: list[_Samples]) -> None:
    """The last profilings halve the widest gaps between latencies of a line, or between rates where all are equal."""
    while sampling.left:
        gaps: list[tuple[float, float, float, int]] = []
        for i, line in enumerate(lines):
            for a, b in pairwise(line.line.points):
                rise = math.log(max(b.latency_ms / a.latency_ms, 1.0))
                gaps.append(((b.qps - a.qps) * rise, b.qps - a.qps, (a.qps + b.qps) / 2.0, i))
        _, _, qps, i = max(gaps)
        sampling.sample(lines[i], qps)


def _doubt(lower: Curve, upper: Curve, least_qps: float, most_qps: float) -> float:
    """Logarithms of two neighbouring lines apart, averaged over the rates, times the GB/s between them."""
    total = 0.0
    for k in range(_GRID):
        qps = least_qps + (most_qps - least_qps) * (k + 0.5) / _GRID
        total += max(0.0, math.log(lower.at(qps) / upper.at(qps)))
    return total / _GRID * (upper.gbps - lower.gbps)
