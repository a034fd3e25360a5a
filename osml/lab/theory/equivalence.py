"""Resource equivalence and isentropic lines (Ah-Q section V-C and figure 12).

If p2 reaches an E_S with R cores and p1 needs R + dR for it, dR is the resource equivalence of p2 relative to p1:
E_S(p1, R + dR) = E_S(p2, R). An isentropic line joins the pairs (ways, cores) with the same E_S. Between whole cores
E_S counts as linear, as in the paper's 7.61 cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class EntropyCurve:
    """E_S of one policy over the number of cores of the node: `cores` ascending, `e_s` in [0, 1]."""

    cores: tuple[int, ...]
    e_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.cores or len(self.cores) != len(self.e_s):
            raise InputError(f"{len(self.cores)} numbers of cores and {len(self.e_s)} E_S, expected one for each")
        if list(self.cores) != sorted(set(self.cores)):
            raise InputError(f"cores are {list(self.cores)}, expected ascending numbers")
        wrong = [value for value in self.e_s if not 0.0 <= value <= 1.0]
        if wrong:
            raise InputError(f"E_S is {wrong[0]}, expected a number from 0 to 1")

    def at(self, cores: float) -> float:
        """E_S with so many cores, linear between those measured. InputError outside of them."""
        if not self.cores[0] <= cores <= self.cores[-1]:
            raise InputError(f"cores are {cores:g}, measured are {self.cores[0]} to {self.cores[-1]}")
        return float(np.interp(cores, self.cores, self.e_s))

    @property
    def rises(self) -> list[tuple[int, float]]:
        """Where more cores make E_S worse, against section V-A's second property: (cores, by how much)."""
        steps = zip(self.cores[1:], np.diff(self.e_s), strict=True)
        return [(cores, float(step)) for cores, step in steps if step > 0.0]


@dataclass(frozen=True)
class Need:
    """Cores for an E_S. `cores` is None where the measured range does not tell: `beyond` says on which side.

    "fewer": the smallest node measured is good enough already. "more": the largest is not.
    """

    cores: float | None
    beyond: str | None = None

    def __str__(self) -> str:
        if self.cores is not None:
            return f"{self.cores:.2f}"
        return "fewer than measured" if self.beyond == "fewer" else "more than measured"


def cores_needed(curve: EntropyCurve, level: float) -> Need:
    """The fewest cores from which on E_S stays at or below `level`.

    "From which on": where measurements are not monotone, a lucky dip on the way does not count.
    """
    if not 0.0 < level < 1.0:
        raise InputError(f"level is {level}, expected an E_S between 0 and 1, such as 0.25")
    above = [k for k, value in enumerate(curve.e_s) if value > level]
    if not above:
        return Need(None, "fewer")
    last = above[-1]
    if last == len(curve.cores) - 1:
        return Need(None, "more")
    (x0, x1), (y0, y1) = curve.cores[last : last + 2], curve.e_s[last : last + 2]
    return Need(x0 + (x1 - x0) * (y0 - level) / (y0 - y1))


def equivalence(better: EntropyCurve, worse: EntropyCurve, level: float) -> float | None:
    """Cores that `better` saves against `worse` at an E_S: the resource equivalence of `better` relative to `worse`.

    Negative where it needs more. None where the measured range of either does not reach the level.
    """
    saved, spent = cores_needed(better, level).cores, cores_needed(worse, level).cores
    return None if saved is None or spent is None else spent - saved


def cores_worth(better: EntropyCurve, worse: EntropyCurve, cores: int) -> Need:
    """Cores that `worse` needs for the E_S that `better` has with `cores`."""
    level = better.at(cores)
    if not 0.0 < level < 1.0:
        return Need(None, "more" if level <= 0.0 else "fewer")
    return cores_needed(worse, level)


def isentropic_line(cores: Sequence[int], e_s: FloatArray, level: float) -> list[Need]:
    """Cores needed for an E_S at each number of ways. `e_s` has the shape (cores, ways), and no cell is NaN."""
    if e_s.ndim != 2 or e_s.shape[0] != len(cores):
        raise InputError(f"E_S has the shape {e_s.shape}, expected ({len(cores)}, ways)")
    curves = [EntropyCurve(tuple(cores), tuple(float(x) for x in column)) for column in e_s.T]
    return [cores_needed(curve, level) for curve in curves]
