"""What the answers hang on: permutation importance of inputs, rank correlation of the OAA with counters."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# scipy's own annotations have gaps.
from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy.stats import spearmanr

from osml.predictors import Predictor
from osml_training.evaluate.errors import absolute
from osml_training.evaluate.published import SPEARMAN
from osml_training.tables.features import OUTPUTS, Model
from osml_training.train.table import Floats32, Rows


def importance(predictor: Predictor, rows: Rows, *, repeats: int = 2, seed: int = 0) -> dict[str, dict[str, float]]:
    """By input, by how much the mean absolute error of each output grows when the input is shuffled among rows."""
    rng = np.random.default_rng(seed)
    model = cast(Model, predictor.metadata.kind)  # a Q-function is no Predictor

    def errors(x: Floats32) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.asarray(np.nanmean(absolute(predictor.predict(x).points, rows.y, model), axis=0), np.float64)

    plain = errors(rows.x)
    out: dict[str, dict[str, float]] = {}
    for k, name in enumerate(predictor.metadata.inputs):
        grown = np.zeros(len(plain))
        for _ in range(repeats):
            shuffled = rows.x.copy()
            shuffled[:, k] = shuffled[rng.permutation(len(shuffled)), k]
            grown += (errors(shuffled) - plain) / repeats
        out[name] = {output: round(float(value), 4) for output, value in zip(OUTPUTS[model], grown, strict=True)}
    return out


def rank_correlation(rows: Rows, inputs: tuple[str, ...]) -> list[dict[str, Any]]:
    """Spearman's rho of OAA cores and ways with misses, bandwidth and IPC over rows, the paper's values beside it."""
    out: list[dict[str, Any]] = []
    if rows.y.shape[1] != len(OUTPUTS["a"]):
        return out
    names = OUTPUTS["a"]
    for counter, published in SPEARMAN.items():
        if counter not in inputs:
            continue
        x = rows.x[:, inputs.index(counter)]
        line: dict[str, Any] = {"counter": counter, "published": published}
        for output in ("oaa_cores", "oaa_ways"):
            y = rows.y[:, names.index(output)]
            known = ~(np.isnan(x) | np.isnan(y))
            moving = len(np.unique(x[known])) > 1 and len(np.unique(y[known])) > 1  # else there is no order to compare
            found: Any = spearmanr(x[known], y[known]) if moving else None
            line[output] = None if found is None else round(float(found.statistic), 3)
        out.append(line)
    return out
