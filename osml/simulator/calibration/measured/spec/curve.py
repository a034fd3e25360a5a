"""Cycles per instruction of a program over the MiB of last-level cache that it holds, from a few measured sizes.

The law (what a node evaluates): m(c) = m_min + (1 - m_min)/(1 + (c/w)^h), misses per 1000 instructions = apki m(c),
CPI = cpi0 + ghz x ns x apki m(c)/1000. Four to seven sizes hardly tell w and h. So a grid of them is kept; each point
weighs as much as the measurements and a population of programs make it likely. Given w and h all else is linear.
What the law misses is a smooth remainder over log c, and one size may be an outlier. A prediction is the median of the
weighted answers. Source of the machinery: Gaussian process regression with a linear mean (Rasmussen and Williams 2006,
section 2.7) and empirical Bayes for the population.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import special

from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.physics.cache import miss_ratio

GHZ = 3.2
"""Clock where none is measured, and the one that costs of misses refer to."""

_W, _H = (axis.ravel() for axis in np.meshgrid(np.geomspace(0.15, 60.0, 30), np.geomspace(0.5, 8.0, 13), indexing="ij"))
"""Half-miss sizes in MiB and steepnesses of the grid."""

_log_ndtr: Callable[[FloatArray], FloatArray] = cast(Any, special).log_ndtr


@dataclass(frozen=True)
class CurveConstants:
    """How far measurements and the law may be apart. Tuned by hand on the half of the programs that is marked `fit`."""

    noise: float = 0.002
    """Of the CPI, of a whole run: two runs differ by 0.18 % in the median."""
    copies_noise: float = 0.02
    """Further noise of the CPI where copies share a way."""
    rounded: float = 0.0029
    """CPI of two decimals: 0.01/sqrt(12)."""
    misfit: float = 0.03
    """Of the range of the CPI, on each size on its own."""
    smooth: float = 0.1
    """The smooth remainder, of the range of the CPI or the misses."""
    length: float = 0.7
    """Over which the remainder changes, in log of the size."""
    miss_noise: float = 0.01
    """Of the misses, and miss_misfit of their range."""
    miss_floor: float = 0.005
    """Misses per 1000 instructions that no counter resolves."""
    miss_misfit: float = 0.01
    """Of the range of the misses, on each size on its own."""
    outlier: float = 0.05
    """Probability that a given size is an outlier."""
    outlier_sd: float = 0.12
    """How far outliers are off, of the CPI."""
    measured: float = 0.75
    """Weight of the measured misses against those of the law, where the CPI is set against misses."""
    contention: float = 0.015
    """How much longer a miss takes for each further copy on the same way."""
    copies_size: float = 0.8
    """Effective size of an equal share of a way."""
    ns: float = 20.0
    """Prior of what a miss costs, in ns, with a standard deviation of the same size."""
    miss_weight: float = 1.0
    """Of the likelihood of misses beside that of the CPI."""


MEDIAN = CurveConstants()
"""For the median over the grid, with a remainder."""

LAW_ALONE = CurveConstants(smooth=0.0, misfit=0.02, miss_misfit=0.06, miss_noise=0.05, miss_weight=0.3, measured=0.0)
"""For the law of the best point alone, without a remainder: what a node can use."""


class Sizes(NamedTuple):
    """Measured sizes of one program: equally long arrays. `misses` is None where they were not counted."""

    mib: FloatArray
    cpi: FloatArray
    misses: FloatArray | None  # per 1000 instructions
    ghz: FloatArray
    copies: FloatArray
    rounded: bool

    def at(self, rows: IntArray) -> Sizes:
        """Some of the sizes."""
        misses = None if self.misses is None else self.misses[rows]
        return Sizes(self.mib[rows], self.cpi[rows], misses, self.ghz[rows], self.copies[rows], self.rounded)


class Law(NamedTuple):
    """What a node needs of a program."""

    miss_min: float
    working_set_mib: float
    steepness: float
    apki: float
    cpi0: float
    ns_per_miss: float

    def misses(self, mib: float) -> float:
        """Per 1000 instructions, while the program holds so much cache."""
        return self.apki * miss_ratio(self.miss_min, self.working_set_mib, self.steepness, mib)

    def cpi(self, mib: float, ghz: float) -> float:
        """Cycles per instruction."""
        return self.cpi0 + ghz * self.ns_per_miss * self.misses(mib) / 1000.0


class Fitted(NamedTuple):
    """All of the grid, weighted. Shapes: hypotheses (none or one outlier) x grid x sizes."""

    sizes: FloatArray  # MiB, effective
    constants: CurveConstants
    log_weight: FloatArray  # (hypotheses, grid)
    a: FloatArray  # (hypotheses, grid): cpi0
    b: FloatArray  # (hypotheses, grid): CPI for misses of `top`
    rest: FloatArray  # (hypotheses, grid, sizes): times the kernel it is the remainder of the CPI
    spread: FloatArray  # (hypotheses,): variance of the remainder
    misses: tuple[FloatArray, FloatArray, FloatArray, float] | None  # constant, amplitude, remainder, its variance
    top: FloatArray  # (grid,): misses are taken in units of this
    law: Law


class _Linear(NamedTuple):
    a: FloatArray
    b: FloatArray
    log_evidence: FloatArray
    rest: FloatArray  # inverse(cov) (y - a - b shapes)


def _effective(mib: FloatArray, copies: FloatArray, c: CurveConstants) -> FloatArray:
    return np.where(copies > 1.0, mib * c.copies_size, mib)


def _shapes(sizes: FloatArray) -> FloatArray:
    return 1.0 / (1.0 + (sizes[None, :] / _W[:, None]) ** _H[:, None])


def _kernel(a: FloatArray, b: FloatArray, length: float) -> FloatArray:
    return np.exp(-0.5 * ((np.log(a)[:, None] - np.log(b)[None, :]) / length) ** 2)


def _linear(
    shapes: FloatArray, y: FloatArray, cov: FloatArray, mean: tuple[float, float], sd: tuple[float, float]
) -> _Linear:
    """Solve y = a + b shapes + N(0, cov), a and b >= 0 with a normal prior; for each row of `shapes`."""
    root = np.linalg.cholesky(cov)
    white = np.linalg.inv(root)  # at most ten sizes; scipy's triangular solver starts threads for them
    x1, yw, x2 = white.sum(axis=1), white @ y, shapes @ white.T
    a11, a12, a22 = x1 @ x1 + 1 / sd[0] ** 2, x2 @ x1, (x2**2).sum(1) + 1 / sd[1] ** 2
    r1, r2 = x1 @ yw + mean[0] / sd[0] ** 2, x2 @ yw + mean[1] / sd[1] ** 2
    det: FloatArray = a11 * a22 - a12**2
    a: FloatArray = (a22 * r1 - a12 * r2) / det
    b: FloatArray = (a11 * r2 - a12 * r1) / det
    log_ev = 0.5 * (a * r1 + b * r2) - 0.5 * np.log(det) - np.log(sd[0] * sd[1])
    log_ev -= 0.5 * (mean[0] ** 2 / sd[0] ** 2 + mean[1] ** 2 / sd[1] ** 2 + yw @ yw) + np.log(np.diag(root)).sum()
    log_ev += _log_ndtr(b / np.sqrt(a11 / det)) + _log_ndtr(a / np.sqrt(a22 / det))
    b, a = np.where(b < 0.0, 0.0, b), np.where(b < 0.0, r1 / a11, a)
    a, b = np.where(a < 0.0, 0.0, a), np.where(a < 0.0, np.maximum(r2 / a22, 0.0), b)
    rest = yw[None, :] - a[:, None] * x1[None, :] - b[:, None] * x2
    return _Linear(a, b, log_ev, rest @ white)


def fit(given: Sizes, log_prior: FloatArray, c: CurveConstants = MEDIAN) -> Fitted:
    """The weighted grid from at least two sizes. Leave out copies that may have run on sibling threads."""
    y, level = given.cpi, float(np.median(given.cpi))
    sizes = _effective(given.mib, given.copies, c)
    shapes, kernel = _shapes(sizes), _kernel(sizes, sizes, c.length)
    misses, log_m, curve, top = None, 0.0, shapes, np.ones(len(shapes))
    slope, slope_sd = 0.0, 0.4 * level
    if given.misses is not None:
        m = given.misses
        span, most = float(np.ptp(m)), max(float(m.max()), 0.02)
        own = (c.miss_noise * m) ** 2 + c.miss_floor**2 + (c.miss_misfit * span) ** 2
        found = _linear(
            shapes, m, kernel * (c.smooth * span) ** 2 + np.diag(own), (0.5 * most, 0.7 * most), (most, most)
        )
        misses = (found.a, found.b, found.rest, (c.smooth * span) ** 2)
        of_law = np.maximum(found.a[:, None] + found.b[:, None] * shapes, 0.0)
        curve = c.measured * m[None, :] + (1.0 - c.measured) * of_law
        top = np.maximum(curve.max(1), 1e-12)
        curve = curve / top[:, None]
        slope = c.ns * GHZ / 1000.0 * most
        slope_sd = float(np.hypot(slope, 0.02 * level))
        log_m = c.miss_weight * found.log_evidence
    x = curve * (given.ghz / GHZ * (1.0 + c.contention * (given.copies - 1.0)))[None, :]
    results: list[_Linear] = []
    spread: list[float] = []
    for outlier in range(-1, len(y) if len(y) >= 3 else 0):
        span = float(np.ptp(np.delete(y, outlier) if outlier >= 0 else y))
        own = (c.noise * y) ** 2 + (c.misfit * span) ** 2 + (c.rounded * given.rounded) ** 2
        cov = kernel * (c.smooth * span) ** 2 + np.diag(own + (given.copies > 1.0) * (c.copies_noise * y) ** 2)
        if outlier >= 0:
            cov[outlier, outlier] += (c.outlier_sd * level) ** 2
        found = _linear(x, y, cov, (0.7 * level, slope), (level, slope_sd))
        weight = log_m + found.log_evidence + log_prior + (np.log(c.outlier) if outlier >= 0 else 0.0)
        results.append(found._replace(log_evidence=weight))
        spread.append((c.smooth * span) ** 2)
    a, b, weight, rest = (np.array([own[i] for own in results]) for i in range(4))
    best = np.unravel_index(int(weight.argmax()), weight.shape)
    law = _law(int(best[1]), float(a[best]), float(b[best]), misses, top)
    return Fitted(sizes, c, weight, a, b, rest, np.array(spread, dtype=float), misses, top, law)


def _law(
    point: int,
    cpi0: float,
    slope: float,
    misses: tuple[FloatArray, FloatArray, FloatArray, float] | None,
    top: FloatArray,
) -> Law:
    w, h = float(_W[point]), float(_H[point])
    if misses is None:  # only the shape is known: all of the CPI above cpi0 is taken for misses
        return Law(0.0, w, h, 1.0, cpi0, slope / GHZ * 1000.0)
    least, more = float(misses[0][point]), float(misses[1][point])
    all_of = max(least + more, 1e-9)
    return Law(least / all_of, w, h, all_of, cpi0, slope / float(top[point]) / GHZ * 1000.0)


def predict(p: Fitted, mib: float, ghz: float = GHZ, copies: float = 1.0) -> float:
    """CPI at a size: the median over all that is possible."""
    c = p.constants
    at = _effective(np.array([mib]), np.array([copies]), c)
    shape, near = _shapes(at)[:, 0], _kernel(at, p.sizes, c.length)[0]
    if p.misses is not None:
        least, more, rest, spread = p.misses
        shape: FloatArray = np.maximum(least + more * shape + spread * (rest @ near), 0.0) / p.top
    x: FloatArray = shape * (ghz / GHZ * (1.0 + c.contention * (copies - 1.0)))
    answers: FloatArray = (p.a + p.b * x[None, :] + p.spread[:, None] * (p.rest @ near)).ravel()
    weights: FloatArray = np.exp(p.log_weight - p.log_weight.max()).ravel()
    order = np.argsort(answers, kind="stable")
    total = np.cumsum(weights[order])
    middle = int(np.searchsorted(total, 0.5 * float(total[-1])))
    return float(answers[order][min(middle, len(answers) - 1)])


def predict_law(p: Fitted, mib: float, ghz: float = GHZ, copies: float = 1.0) -> float:
    """CPI at a size by the law of the best point (what a node says); fit with LAW_ALONE."""
    c = p.constants
    at = float(_effective(np.array([mib]), np.array([copies]), c)[0])
    return p.law.cpi(at, ghz * (1.0 + c.contention * (copies - 1.0)))


def flat_prior() -> FloatArray:
    """Every point of the grid is as likely."""
    return np.full(len(_W), -np.log(len(_W)))


def log_evidence(p: Fitted) -> FloatArray:
    """Of each point of the grid; fit with a flat prior to use it in `learn_prior`."""
    return np.logaddexp.reduce(p.log_weight, axis=0)


def learn_prior(evidences: Sequence[FloatArray], flat: float = 0.3, rounds: int = 8) -> FloatArray:
    """Log of how often programs have the (w, h) of the grid (EM); `flat` of it stays evenly spread."""
    if not evidences:
        return flat_prior()
    known, n = np.array(evidences), len(_W)
    share = np.full(n, 1.0 / n)
    for _ in range(rounds):
        weight = known + np.log(share)
        weight = np.exp(weight - weight.max(1, keepdims=True))
        share = (1.0 - flat) * (weight / weight.sum(1, keepdims=True)).mean(0) + flat / n
    return np.log(share)
