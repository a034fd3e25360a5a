"""How far one could get with these inputs: a table lookup that grows without end, a network eight times as large."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's, scipy's and scikit-learn's own annotations have gaps.
from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from scipy.optimize import nnls
from sklearn.neighbors import KNeighborsRegressor
from threadpoolctl import threadpool_limits

from osml_training.collect.variants import is_variant
from osml_training.evaluate.baselines import NEIGHBOURS
from osml_training.evaluate.errors import table_rows
from osml_training.train import loop
from osml_training.train.config import Config
from osml_training.train.network import new_network
from osml_training.train.scaling import scaling_of
from osml_training.train.table import Floats32, Rows
from osml_training.train.train import load_part

SHARES = (0.0625, 0.125, 0.25, 0.5, 1.0)
"""Of the runs of the training that the table holds."""

_EXPONENTS = np.round(np.arange(0.1, 1.01, 0.05), 2)
_WIDER = 8**0.5  # a layer so many times as wide has eight times the weights


def limit_of(amounts: list[float], errors: list[float]) -> float:
    """Where errors go as amounts grow without end: a of the best a + b amount^-c, a and b >= 0, c from 0.1 to 1."""
    best, limit = np.inf, float("nan")
    for exponent in _EXPONENTS:
        design = np.stack([np.ones(len(amounts)), np.array(amounts) ** -exponent], axis=1)
        found, rest = nnls(design, np.array(errors))
        if rest < best - 1e-12:
            best, limit = rest, float(found[0])
    return limit


def nearest_curve(config: Config, train: Rows, test: Rows, split: str) -> dict[str, Any]:
    """Errors of the nearest neighbours by number of runs in the table, and where they go with ever more of them.

    More rows of the same runs would not do: all rows of a run share one label. `rows` are those of table 5 with the
    errors in the limit; `curve` has them as measured.
    """
    scaler = new_network(config, scaling_of(train.x, config), train)

    def scaled(x: Floats32) -> Floats32:
        with torch.no_grad():
            return scaler.scale(torch.from_numpy(x)).numpy()

    whole = train.taken(np.nonzero(~np.isnan(train.y).any(1))[0])
    table_x, asked = scaled(whole.x), scaled(test.x)
    runs = np.random.default_rng(config.seed).permutation(np.unique(whole.run))
    curve: list[dict[str, Any]] = []
    for share in SHARES:
        count = max(1, round(share * len(runs)))
        mine = np.isin(whole.run, runs[:count])
        with threadpool_limits(1):
            model: Any = KNeighborsRegressor(NEIGHBOURS, weights="distance", algorithm="brute")
            points = np.asarray(model.fit(table_x[mine], whole.y[mine]).predict(asked), np.float32)
        rows = table_rows(config.model, split, points.reshape(len(test.y), -1), test, config.inputs)
        curve.append({"runs": count, "rows": rows})
    amounts = [float(point["runs"]) for point in curve]
    ends: list[dict[str, Any]] = []
    for k, last in enumerate(curve[-1]["rows"]):
        found = {"output": last["output"], "split": split}
        for key in ("core_mae", "way_mae"):
            errors = [point["rows"][k][key] for point in curve]
            found[key] = None if None in errors else limit_of(amounts, errors)
        ends.append(found)
    return {"curve": curve, "rows": ends}


def larger(config: Config) -> Config:
    """The config of a network with eight times the weights, which learns at half the rate."""
    wide = tuple(round(size * _WIDER) for size in config.hidden)
    return msgspec.structs.replace(config, hidden=wide, learning_rate=config.learning_rate / 2)


def network_errors(config: Config, train: Rows, validation: Rows, test: Rows, split: str) -> dict[str, Any]:
    """Errors of a network that never misses a counter."""
    config = msgspec.structs.replace(config, drop_counters=0.0)
    loop.deterministic()
    network = new_network(config, scaling_of(train.x, config), train)
    loop.fit(network, loop.from_memory(network, train, config), validation, config, -(-len(train.y) // config.batch))
    points, _ = loop.predict(network, test.x)
    return {"hidden": list(config.hidden), "rows": table_rows(config.model, split, points, test, config.inputs)}


def reachable(
    config: Config, dataset: Path, platform: str, split: str, rows: int, epochs: int | None = None
) -> dict[str, Any]:
    """Both on the seen services of a data set, with `rows` to learn from: `nearest` (3,000 rows tested), `larger`.

    Beside the larger network stands one of the model's own size that learned from the same rows, `same_size`. The table
    of the nearest neighbours holds no variants of services: whom it is asked about is none.
    """
    if epochs is not None:
        config = msgspec.structs.replace(config, epochs=epochs)
    where = (platform,)
    real = load_part(dataset, config, "train", rows=rows, platforms=where, keep=lambda run: not is_variant(run.service))
    train = load_part(dataset, config, "train", rows=rows, platforms=where)
    validation = load_part(dataset, config, "validation", rows=20_000, platforms=where)
    test = load_part(dataset, config, "test", rows=20_000, platforms=where)
    few = test.taken(np.sort(np.random.default_rng(config.seed).permutation(len(test.y))[:3000]))
    return {
        "train_rows": len(train.y),
        "nearest": nearest_curve(config, real, few, split),
        "same_size": network_errors(config, train, validation, test, split),
        "larger": network_errors(larger(config), train, validation, test, split),
    }
