"""The graphs corrected while the service runs: the second thing that OMBM leaves open (section 6).

A profile assumes STREAM on all other cores; most jobs are milder, and a service may change after it was profiled. So
the predicted bandwidth is multiplied by a factor for each part of the range of rates. The factor falls in small steps
while the tail stays calm, and rises at once when a backlog begins, long before the SLO. A factor that has failed is a
floor: it is not tried again beside the same jobs.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from osml.bandwidth.curve import BACKLOG

PARTS = 8
"""Parts of the range of rates, each with a factor of its own."""

ALARM_SHARE = 0.5
"""Between the tail with all bandwidth and the SLO, and of an interval: beyond either there is no time to lose."""

_LEAST, _MOST = 0.2, 4.0
_DOWN, _UP = 0.96, 1.12
_CALM_INTERVALS = 3

_OfParts = Annotated[list[Annotated[float, Meta(gt=0, le=_MOST)]], Meta(min_length=PARTS, max_length=PARTS)]


class Correction(Struct, frozen=True):
    """Factors on the predicted bandwidth and the least ones worth trying, by part of the range of rates.

    `part` is the one of the last rate, `calm` counts calm intervals in a row in it.
    """

    factors: _OfParts = field(default_factory=lambda: [1.0] * PARTS)
    floors: _OfParts = field(default_factory=lambda: [_LEAST] * PARTS)
    part: Annotated[int, Meta(ge=-1, lt=PARTS)] = -1
    calm: int = 0


class Outlook(NamedTuple):
    """What one interval showed: where in the range of rates (0 to 1), the tail, its goal, and the best there is."""

    position: float
    tail_ms: float
    slo_ms: float
    best_ms: float
    interval_ms: float = math.inf

    @property
    def queued(self) -> bool:
        """Requests wait for others: what is completed is not what arrives."""
        return self.tail_ms > BACKLOG * self.best_ms

    @property
    def alarming(self) -> bool:
        """The tail is on its way to the SLO, or so long that the rate is hidden: what is answered came long ago."""
        best = min(self.best_ms, self.slo_ms)
        return self.tail_ms > best + ALARM_SHARE * min(self.slo_ms - best, self.interval_ms)

    @property
    def calm(self) -> bool:
        """The tail is close to the best there is."""
        return not (self.queued or self.alarming)


def part_of(position: float) -> int:
    """The part of the range of rates (0 to 1) in which a rate is."""
    return min(PARTS - 1, max(0, int(position * PARTS)))


def corrected(before: Correction, outlook: Outlook) -> Correction:
    """The correction after one more interval with the bandwidth that `before` gave."""
    part = part_of(outlook.position)
    if outlook.alarming and before.part >= 0:
        return replace(failed(before), part=part)
    calm, factors = 0, before.factors
    if outlook.calm:
        calm = before.calm + 1 if part == before.part else 1
        if calm > _CALM_INTERVALS:
            calm = 0
            factors = list(factors)
            factors[part] = max(before.floors[part], factors[part] * _DOWN)
    return Correction(factors, before.floors, part, calm)


def failed(before: Correction) -> Correction:
    """The correction after a backlog: it hides the rate, so the part that was decided on is the one that failed."""
    given = before.part
    if given < 0:
        return before
    factors, floors = list(before.factors), list(before.floors)
    for near in range(max(given - 1, 0), min(given + 2, PARTS)):
        floors[near] = max(floors[near], min(1.0, factors[given] / _DOWN))
        factors[near] = max(factors[near], floors[near])
    factors[given] = min(_MOST, factors[given] * _UP)
    return Correction(factors, floors, given, 0)
