"""What the cells measured so far teach the next prediction: a shift for the service, and how wide the interval is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from osml.lab.validation.cells import KINDS, NEVER_MS, Range, Row

CONFIDENCE = 0.9
FEW = 3.0
"""A service's median error counts as if so many more of its cells had shown no error."""


@dataclass(frozen=True)
class Learned:
    """By KINDS: what is added to the logarithm of a prediction, and the half-widths of intervals in units of their
    spread. A width is infinite where too few cells are known.
    """

    shifts: tuple[float, ...]
    widths: tuple[float, ...]


def learned(rows: Iterable[Row], service: str) -> Learned:
    """From the rows that have a prediction, all of them measured before the cell in question is predicted.

    The shift is the median error of the simulation in cells of the same service, shrunk where these are few. The width
    is that of split conformal prediction, normalized by the spread that the draws of the simulation have (Lei et al.,
    2018, section 5.2): a row's score is the distance of its measurement from its prediction over its spread. A
    half-width is the quantile of the scores at the rank ceil((n + 1) * 0.9). Scores are of the predictions as they
    were made, so no cell is scored with what it taught itself.
    """
    known = [row for row in rows if row.predicted is not None and not row.measured.noisy]
    shifts: list[float] = []
    widths: list[float] = []
    for kind in KINDS:
        fitting = [row for row in known if teaches(kind, saturated=row.cell.saturated)]
        shifts.append(_shift([_error(row, kind) for row in fitting if row.cell.service == service]))
        scores = sorted(_score(row, kind) for row in fitting)
        rank = math.ceil((len(scores) + 1) * CONFIDENCE)
        widths.append(math.inf if rank > len(scores) else scores[rank - 1])
    return Learned(tuple(shifts), tuple(widths))


def teaches(kind: str, *, saturated: bool) -> bool:
    """Whether a cell says something of this figure: at saturation throughput alone means something, else the others."""
    return saturated == (kind == "throughput")


def _shift(errors: Sequence[float | None]) -> float:
    known = [error for error in errors if error is not None]
    return statistics.median(known) * len(known) / (len(known) + FEW) if known else 0.0


def _pair(row: Row, kind: str) -> tuple[Range, float | None]:
    said: Range = getattr(row.predicted, kind)
    seen: float | None = getattr(row.measured, kind)
    return said, seen if seen is not None and seen > 0.0 else None


def _error(row: Row, kind: str) -> float | None:
    """log(measured / simulated); None where one of the two is no number, or never."""
    said, seen = _pair(row, kind)
    simulated = said.value if said.simulated is None else said.simulated
    return math.log(seen / simulated) if seen is not None and 0.0 < simulated < NEVER_MS else None


def _score(row: Row, kind: str) -> float:
    """Distance of a measurement from its prediction; infinite where one of the two only is no number, or never."""
    said, seen = _pair(row, kind)
    told = 0.0 < said.value < NEVER_MS
    if seen is not None and told:
        return abs(math.log(seen / said.value)) / said.spread
    return math.inf if seen is not None or told else 0.0
