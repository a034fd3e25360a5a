"""One number, or one order of policies, of a paper beside ours, and the rules by which they agree."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from osml.lab.bench.episode import Row
from osml.lab.bench.results import Results

TIMES, POINTS = 2.0, 10.0
"""A time or a ratio agrees within this factor; a share, in percent, within so many points."""

RunsOf = Mapping[str, Results]
"""Results by suite; only those of suites that were run."""


class Line(NamedTuple):
    """`fact` is an id of `policy_facts.yaml`, `of` says what of it. `holds` is None where ours says nothing."""

    fact: str
    of: str
    published: str
    ours: str
    holds: bool | None
    rule: str


def mean_of(rows: Sequence[Row], column: str) -> float | None:
    """Mean of a column over the rows that have it; None without any."""
    found = [float(row[column]) for row in rows if row[column] is not None]
    return statistics.fmean(found) if found else None


def times(fact: str, of: str, published: float, ours: float | None, *, never: bool = False) -> Line:
    """A time or a ratio: within a factor of TIMES. `never`: it was run, and what the paper timed did not happen."""
    rule, known = f"within x{TIMES:g}", _known(ours)
    if known is None:
        return Line(fact, of, _text(published), "never" if never else "", False if never else None, rule)
    agrees = known > 0 and max(known / published, published / known) <= TIMES
    return Line(fact, of, _text(published), _text(known), agrees, rule)


def points(fact: str, of: str, published: float, ours: float | None) -> Line:
    """A share in percent: within POINTS."""
    known = _known(ours)
    holds = None if known is None else abs(known - published) <= POINTS
    return Line(fact, of, f"{published:.3g} %", "" if known is None else f"{known:.3g} %", holds, "within 10 points")


def near(fact: str, of: str, published: float, ours: float | None, most: float) -> Line:
    """A count or an entropy: at most `most` away."""
    known = _known(ours)
    holds = None if known is None else abs(known - published) <= most
    return Line(fact, of, _text(published), _text(known), holds, f"within {most:g}")


def between(fact: str, of: str, published: tuple[float, float], ours: float | None) -> Line:
    """What the paper gives a range of: inside of it."""
    known = _known(ours)
    holds = None if known is None else published[0] <= known <= published[1]
    return Line(fact, of, f"{_text(published[0])} to {_text(published[1])}", _text(known), holds, "in the range")


def order(fact: str, of: str, better: Iterable[tuple[str, str]], ours: Mapping[str, float | None]) -> Line:
    """Pairs of names, the first of which has the larger value in the paper. A pair with a name that was not run has
    no say.
    """
    pairs = list(better)
    said = "; ".join(f"{more} > {less}" for more, less in pairs)
    known = {name: found for name, number in ours.items() if (found := _known(number)) is not None}
    held = [known[more] > known[less] for more, less in pairs if more in known and less in known]
    shown = ", ".join(f"{name} {_text(known[name])}" for name in sorted(known, key=lambda one: -known[one]))
    return Line(fact, of, said, shown, all(held) if held else None, "same order")


def _known(ours: float | None) -> float | None:
    return None if ours is None or not math.isfinite(ours) else ours


def _text(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"
