"""The numbers of the paper's figures 3 to 10 (section V), and what it says about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from osml.dispatch.mdp.parameters import Epochs, FarmParameters
from osml.dispatch.mdp.thresholds import FarmSolution, solve

ARRIVALS = tuple(range(1, 51))
ALPHAS = (0.3, 3.0, 30.0)
EXPONENTS = tuple(i / 10 for i in range(41))
RATIOS = tuple(round(0.01 * i, 2) for i in range(1, 101))
SETS = {1: (0.25, 2.0, 0.01), 2: (0.1, 1.0, 1.0), 3: (0.1, 1.0, 10.0), 4: (0.75, 1.0, 10.0)}
"""Environment 4: load rho, mu_L, alpha_L of each parameter set (mu_H = 100)."""
LOADS = tuple(round(0.02 * i, 2) for i in range(1, 50))
FARM_SIZES = (2, 3, 5)
SLOW_RATES = (1.0, 2.0, 10.0, 20.0)
MU_LOWS = tuple(float(i) for i in range(1, 50))


@dataclass(frozen=True)
class Point:
    """One solved farm of a figure, at its place on the x axis."""

    x: float
    sizes: tuple[int | None, ...]
    mean_optimal: float
    mean_non_idling: float
    improvement_pct: float


@dataclass(frozen=True)
class Claim:
    """What the paper says, what comes out here, and whether that is the same."""

    figure: str
    paper: str
    ours: str
    holds: bool


def _point(x: float, solved: FarmSolution) -> Point:
    found = solved.solution
    sizes = tuple(solved.table.named().values())
    return Point(x, sizes, found.mean_optimal, found.mean_non_idling, found.improvement_pct)


@lru_cache
def environment_1_and_2(alpha: float, epochs: Epochs = "literal") -> tuple[Point, ...]:
    """Figures 3 to 5: two servers, mu 50 and 1, over the arrival rate. sizes: N_i, N_ib, N_ii."""
    return tuple(_point(a, solve(FarmParameters(2, a, 50.0, 1.0, alpha, alpha, epochs))) for a in ARRIVALS)


@lru_cache
def environment_3(epochs: Epochs = "literal") -> tuple[Point, ...]:
    """Figures 6 to 8: arrival rate 10, alpha = 0.03 x 10^x."""
    alphas = {x: 0.03 * 10**x for x in EXPONENTS}
    return tuple(_point(x, solve(FarmParameters(2, 10.0, 50.0, 1.0, a, a, epochs))) for x, a in alphas.items())


@lru_cache
def environment_4(number: int, epochs: Epochs = "literal") -> tuple[Point, ...]:
    """Figure 9: over alpha_H / alpha_L at a fixed load."""
    load, mu_low, alpha_low = SETS[number]
    points: list[Point] = []
    for ratio in RATIOS:
        farm = FarmParameters(2, 1.0, 100.0, mu_low, ratio * alpha_low, alpha_low, epochs)
        points.append(_point(ratio, solve(_at_load(farm, load))))
    return tuple(points)


@lru_cache
def figure_10(servers: int, mu_low: float, swapped: bool = False, epochs: Epochs = "literal") -> tuple[Point, ...]:
    """Over the load, with the rates as printed (interference 10/11 of the time) or alpha_H and alpha_L swapped."""
    high, low = (0.1, 1.0) if swapped else (1.0, 0.1)
    farm = FarmParameters(servers, 1.0, 100.0, mu_low, high, low, epochs)
    return tuple(_point(load, solve(_at_load(farm, load))) for load in LOADS)


@lru_cache
def over_mu_low(load: float | None, epochs: Epochs = "literal") -> tuple[Point, ...]:
    """Environment 1 over mu_L, at a fixed load or (None) at arrival rate 10."""
    points: list[Point] = []
    for mu_low in MU_LOWS:
        farm = FarmParameters(2, 10.0, 50.0, mu_low, 0.3, 0.3, epochs)
        points.append(_point(mu_low, solve(farm if load is None else _at_load(farm, load))))
    return tuple(points)


def claims(epochs: Epochs = "literal") -> list[Claim]:
    """Every claim of section V that has a number or an order in it."""
    return [
        *_claims_1(epochs),
        *_claims_2(epochs),
        *_claims_3(epochs),
        *_claims_4(epochs),
        *_claims_trends(epochs),
        *_claims_10(epochs),
    ]


def _at_load(farm: FarmParameters, load: float) -> FarmParameters:
    return FarmParameters(
        farm.servers, load * farm.capacity, farm.mu_high, farm.mu_low, farm.alpha_high, farm.alpha_low, farm.epochs
    )


def _size(point: Point, index: int = 0) -> int:
    """A threshold as a number; the optimum of a stable farm always has one."""
    return point.sizes[index] or 0


def _claims_1(epochs: Epochs) -> Iterable[Claim]:
    points = environment_1_and_2(0.3, epochs)
    highest = max(_size(p) for p in points)
    at = [int(p.x) for p in points if _size(p) == highest]
    where = f"{at[0]}" if len(at) == 1 else f"{at[0]} to {at[-1]}"
    yield Claim(
        "3",
        "N_i peaks at 31, at lambda 4 and 5",
        f"peaks at {highest}, at lambda {where}",
        highest == 31 and at == [4, 5],
    )
    lows = {(_size(p, 1), _size(p, 2)) for p in points}
    yield Claim("3", "N_ib = 1, N_ii = 0 throughout", f"(N_ib, N_ii): {sorted(lows)}", lows == {(1, 0)})
    first, fifth, last = (points[i].improvement_pct for i in (0, 4, 49))
    yield Claim("4", "improvement about 3 % at lambda 1", f"{first:.3f} %", round(first) == 3)
    best = max(points, key=lambda p: p.improvement_pct)
    yield Claim(
        "4",
        "peak of over 6 % at lambda 5",
        f"{fifth:.3f} % there; peak {best.improvement_pct:.3f} % at lambda {best.x:g}",
        fifth > 6 and best.x == 5,
    )
    yield Claim("4", "about 1 % at lambda 50", f"{last:.3f} %", 0.5 <= last < 1.5)


def _claims_2(epochs: Epochs) -> Iterable[Claim]:
    slow, middle, fast = ([p.improvement_pct for p in environment_1_and_2(alpha, epochs)] for alpha in ALPHAS)
    above = all(m > max(s, f) for s, m, f in zip(slow, middle, fast, strict=True))
    yield Claim(
        "5",
        "alpha = 3 is above the other two at every lambda",
        f"at lambda 1: {slow[0]:.2f} / {middle[0]:.2f} / {fast[0]:.2f} %; above at "
        f"{sum(m > max(s, f) for s, m, f in zip(slow, middle, fast, strict=True))} of 50",
        above,
    )
    vanish = slow[0] < middle[0] / 2 and slow[0] < fast[0]
    yield Claim(
        "5",
        "only alpha = 0.3 falls off in light traffic",
        f"{slow[0]:.2f} % at lambda 1, peak {max(slow):.2f} %",
        vanish and max(middle) == middle[0] and max(fast) == fast[0],
    )


def _claims_3(epochs: Epochs) -> Iterable[Claim]:
    points = environment_3(epochs)
    best = max(points, key=lambda p: p.improvement_pct)
    yield Claim(
        "6",
        "peak of around 14 % at x = 2.2",
        f"{best.improvement_pct:.2f} % at x = {best.x:g}, thresholds {best.sizes}",
        round(best.improvement_pct) == 14 and best.x == 2.2,
    )
    low = points[0]
    yield Claim(
        "7",
        "slow switching: N_ib = 1, N_ii = 0, N_i high",
        f"x = 0: {low.sizes}",
        low.sizes[1:] == (1, 0) and _size(low) > 10,
    )
    nontrivial = [p.x for p in points if _size(p, 1) > 1]
    yield Claim(
        "7",
        "N_ib, N_ii nontrivial at higher alpha",
        f"N_ib > 1 from x = {nontrivial[0]:g} on",
        bool(nontrivial) and nontrivial[0] > 0,
    )
    falls = all(b.mean_optimal < a.mean_optimal for a, b in pairwise(points))
    yield Claim(
        "8",
        "system size very large at low alpha",
        f"{points[0].mean_optimal:.2f} at x = 0, {points[-1].mean_optimal:.3f} at x = 4, falling throughout: {falls}",
        falls,
    )


def _trend(values: Sequence[int]) -> str:
    pairs = list(pairwise(values))
    if all(b >= a for a, b in pairs) and values[-1] > values[0]:
        return "rises"
    if all(b <= a for a, b in pairs) and values[-1] < values[0]:
        return "falls"
    return "stays" if len(set(values)) == 1 else "mixed"


def _claims_4(epochs: Epochs) -> Iterable[Claim]:
    trends = {n: _trend([_size(p) for p in environment_4(n, epochs)]) for n in SETS}
    ends = {n: (_size(environment_4(n, epochs)[0]), _size(environment_4(n, epochs)[-1])) for n in SETS}
    text = ", ".join(f"set {n} {trends[n]} ({ends[n][0]} to {ends[n][1]})" for n in SETS)
    counts = list(trends.values())
    holds = counts.count("rises") == 2 and counts.count("falls") == 2
    yield Claim("9", "thresholds rise with alpha_H in two sets, fall in two", f"N_i: {text}", holds)
    every = [p for n in SETS for p in environment_4(n, epochs)] + list(environment_3(epochs))
    every += [p for alpha in ALPHAS for p in environment_1_and_2(alpha, epochs)]
    order = all(_size(p) >= _size(p, 1) >= _size(p, 2) >= _size(p, 1) - 1 for p in every)
    yield Claim("3 to 9", "N_i >= N_ib >= N_ii, N_ib - N_ii at most 1", f"in all {len(every)} farms: {order}", order)


def _claims_trends(epochs: Epochs) -> Iterable[Claim]:
    """Section V-E, on environment 1."""
    points = environment_1_and_2(0.3, epochs)
    sizes, gains = [_size(p) for p in points], [p.improvement_pct for p in points]
    rises = sum(b > a for a, b in pairwise(sizes)), sum(b > a for a, b in pairwise(gains))
    text = f"environment 1: N_i rises {rises[0]} times, the improvement {rises[1]} times"
    yield Claim("V-E", "more load never raises thresholds or improvement", text, rises == (0, 0))
    for fixed, load in (("rho", 0.2), ("lambda", None)):
        sizes = [_size(p) for p in over_mu_low(load, epochs)]
        yield Claim(
            "V-E",
            f"a higher mu_L never raises thresholds, {fixed} fixed",
            f"N_i {sizes[0]} to {sizes[-1]}, {_trend(sizes)}",
            _trend(sizes) == "falls",
        )


def _claims_10(epochs: Epochs) -> Iterable[Claim]:
    for swapped, label in ((False, "as printed"), (True, "alpha_H and alpha_L swapped")):
        peaks = [
            max(p.improvement_pct for m in SLOW_RATES for p in figure_10(k, m, swapped, epochs)) for k in FARM_SIZES
        ]
        text = " / ".join(f"{peak:.2f}" for peak in peaks)
        yield Claim(
            "10", "more servers, more improvement (k = 2 / 3 / 5)", f"{label}: peaks {text} %", peaks == sorted(peaks)
        )
