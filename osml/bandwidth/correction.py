"""The graphs corrected while the service runs: the second thing that OMBM leaves open (section 6).

A profile assumes STREAM on all other cores; most jobs are milder, and a service may change after it was profiled. So
the predicted bandwidth is multiplied by a factor for each part of the range of rates. The factor falls in small steps
while the tail stays calm, and rises at once when a backlog begins, long before the SLO. A factor that has failed is a
floor: it is not tried again beside the same jobs.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct, field

PARTS = 16
"""Parts of the range of rates, each with a factor of its own."""

CALM_SHARE, ALARM_SHARE = 0.2, 0.5
"""Between the tail with all bandwidth and the SLO: up to the first all is calm, from the second on it is not."""

_LEAST, _MOST = 0.2, 4.0
_DOWN, _UP = 0.96, 1.12
_CALM_INTERVALS = 3


class Correction(Struct, frozen=True):
    """Factors on the predicted bandwidth and the least ones worth trying, by part of the range of rates.

    `calm` counts intervals in a row in the same `part`.
    """

    factors: list[float] = field(default_factory=lambda: [1.0] * PARTS)
    floors: list[float] = field(default_factory=lambda: [_LEAST] * PARTS)
    part: int = -1
    calm: int = 0


class Outlook(NamedTuple):
    """What one interval showed: where in the range of rates (0 to 1), the tail, its goal, and the best there is."""

    position: float
    tail_ms: float
    slo_ms: float
    best_ms: float

    @property
    def calm(self) -> bool:
        """The tail is close to the best there is."""
        return self.tail_ms <= self._between(CALM_SHARE)

    @property
    def alarming(self) -> bool:
        """The tail is on its way to the SLO."""
        return self.tail_ms > self._between(ALARM_SHARE)

    def _between(self, share: float) -> float:
        best = min(self.best_ms, self.slo_ms)
        return best + share * (self.slo_ms - best)


def part_of(position: float) -> int:
    """The part of the range of rates (0 to 1) in which a rate is."""
    return min(PARTS - 1, max(0, int(position * PARTS)))


def corrected(before: Correction, outlook: Outlook) -> Correction:
    """The correction after one more interval with the bandwidth that `before` gave."""
    part = part_of(outlook.position)
    factors, floors = list(before.factors), list(before.floors)
    same = part == before.part
    calm = 0
    if outlook.alarming:
        if same or before.part < 0:
            floors[part] = min(1.0, max(floors[part], factors[part] / _DOWN))
            factors[part] = min(_MOST, factors[part] * _UP)
    elif outlook.calm:
        calm = before.calm + 1 if same else 1
        if calm > _CALM_INTERVALS:
            calm = 0
            factors[part] = max(floors[part], factors[part] * _DOWN)
    return Correction(factors, floors, part, calm)
