"""Split-conformal margins: how many spreads hold the truth in 90 or 95 % of runs that nobody trained on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from osml.predictors import Margin
from osml_training.train.table import Floats32

COVERAGES = (0.9, 0.95)


def _quantile(score: NDArray[np.float64], run: NDArray[np.int64], coverage: float) -> float:
    """The conformal quantile with each run weighing the same.

    Rows of one run share their label, so what is exchangeable is runs: with n runs the level is
    ceil((n + 1) coverage)/n (Vovk; Lei et al. 2018), here of the weighted scores of their rows.
    """
    runs, place, rows = np.unique(run, return_inverse=True, return_counts=True)
    level = min(1.0, np.ceil((len(runs) + 1) * coverage) / len(runs))
    weight = 1.0 / rows[place]
    order = np.argsort(score)
    reached = np.cumsum(weight[order]) / len(runs)
    return float(score[order][min(int(np.searchsorted(reached, level - 1e-12)), len(score) - 1)])


def runs_needed(coverage: float) -> int:
    """The fewest runs whose largest error holds the next one in the share `coverage`: 9 for 0.9, 19 for 0.95."""
    return int(np.ceil(coverage / (1.0 - coverage) - 1e-9))


def too_few_runs(y: Floats32, run: NDArray[np.int64], coverages: tuple[float, ...] = COVERAGES) -> list[str]:
    """A sentence for each coverage that the margins of so few runs do not hold, for the output with the fewest.

    The margin is the largest error there was, as no other one would be smaller and hold: a policy needs one.
    """
    counts = [len(np.unique(run[~np.isnan(y[:, k])])) for k in range(y.shape[1])]
    runs = min((count for count in counts if count), default=0)
    return [
        f"the margins for {coverage:g} are made of {runs} runs, expected at least {runs_needed(coverage)}: "
        f"they hold {runs / (runs + 1):.2f} of new runs only; measure more loads or neighbours"
        for coverage in coverages
        if 0 < runs < runs_needed(coverage)
    ]


def margins_of(
    points: Floats32,
    spread: Floats32,
    y: Floats32,
    run: NDArray[np.int64],
    coverages: tuple[float, ...] = COVERAGES,
    *,
    band: NDArray[np.int64] | None = None,
) -> dict[str, Margin]:
    """Factors of the spread by coverage, one an output, from rows of runs that were held out for this.

    With a `band` a row they hold in every band and not only over all: the largest of the factors that each band by
    itself would have (Mondrian conformal prediction, Vovk et al. 2005, section 4.5).
    NaN for an output that no row has.
    """
    bands = [np.ones(len(y), bool)] if band is None else [band == one for one in np.unique(band)]
    out: dict[str, Margin] = {}
    for coverage in coverages:
        two_sided: list[float] = []
        upper: list[float] = []
        for k in range(y.shape[1]):
            known = ~np.isnan(y[:, k])
            score = ((y[:, k] - points[:, k]) / spread[:, k]).astype(np.float64)
            asked = [one & known for one in bands if (one & known).any()]
            two_sided.append(max((_quantile(np.abs(score[one]), run[one], coverage) for one in asked), default=np.nan))
            upper.append(max((_quantile(score[one], run[one], coverage) for one in asked), default=np.nan))
        out[f"{coverage:g}"] = Margin(two_sided, upper)
    return out


def covered(margin: Floats32, points: Floats32, y: Floats32, run: NDArray[np.int64]) -> list[float]:
    """Share of runs' rows within the margin, each run weighing the same; one an output, NaN where no row has it."""
    out: list[float] = []
    for k in range(y.shape[1]):
        known = ~np.isnan(y[:, k])
        if not known.any():
            out.append(float("nan"))
            continue
        inside = np.abs(y[known, k] - points[known, k]) <= margin[known, k]
        _, place, rows = np.unique(run[known], return_inverse=True, return_counts=True)
        weight = 1.0 / rows[place]
        out.append(float((inside * weight).sum() / weight.sum()))
    return out


def with_parents(margins: dict[str, Margin], parents: dict[str, Margin]) -> dict[str, Margin]:
    """Factors that are NaN are the parent's: of those outputs the traces say nothing."""

    def known(own: list[float], parent: list[float]) -> list[float]:
        return [b if np.isnan(a) else a for a, b in zip(own, parent, strict=True)]

    return {
        coverage: Margin(known(one.two_sided, parents[coverage].two_sided), known(one.upper, parents[coverage].upper))
        for coverage, one in margins.items()
    }


def no_narrower(margins: dict[str, Margin], least: dict[str, Margin]) -> dict[str, Margin]:
    """Each factor, or that of `least` where it is larger; no coverage that both do not have."""
    return {
        coverage: Margin(
            [max(pair) for pair in zip(one.two_sided, least[coverage].two_sided, strict=True)],
            [max(pair) for pair in zip(one.upper, least[coverage].upper, strict=True)],
        )
        for coverage, one in margins.items()
        if coverage in least
    }
