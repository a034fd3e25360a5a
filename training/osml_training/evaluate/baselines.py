"""What simpler predictors make of the same rows: a line, boosted trees, a table lookup (k nearest neighbours)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's and scikit-learn's own annotations have gaps.
from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from threadpoolctl import threadpool_limits

from osml_training.evaluate.errors import table_rows
from osml_training.train.config import Config
from osml_training.train.network import new_network
from osml_training.train.scaling import scaling_of
from osml_training.train.table import Floats32, Rows

NEIGHBOURS = 5
Predict = Callable[[Floats32], Floats32]


def _by_output(make: Callable[[], Any], x: Floats32, y: Floats32) -> Predict:
    models: list[Any] = []
    for k in range(y.shape[1]):
        known = ~np.isnan(y[:, k])
        models.append(make().fit(x[known], y[known, k]))
    return lambda rows: np.stack([model.predict(rows) for model in models], 1).astype(np.float32)


def _memory(predict_x: Floats32, y: Floats32) -> int:
    return int(predict_x.nbytes + y.nbytes)


def baselines(
    config: Config, train: Rows, tests: dict[str, Rows], *, trees: int = 60, neighbour_rows: int = 100_000
) -> dict[str, Any]:
    """Rows of table 5 for each baseline, by name; `tests` by split (seen, unseen).

    All see the scaled inputs of the config's own network and its mask. `bytes` is what the table lookup keeps.
    """
    network = new_network(config, scaling_of(train.x, config), train)

    def scaled(x: Floats32) -> Floats32:
        with torch.no_grad():
            return network.scale(torch.from_numpy(x)).numpy()

    x = scaled(train.x)
    rng = np.random.default_rng(config.seed)
    few = np.sort(rng.permutation(len(x))[:neighbour_rows])
    whole = ~np.isnan(train.y[few]).any(1)
    table_x, table_y = x[few][whole], train.y[few][whole]

    def nearest() -> Predict:
        model: Any = KNeighborsRegressor(NEIGHBOURS, weights="distance").fit(table_x, table_y)
        return lambda rows: np.asarray(model.predict(rows), np.float32).reshape(len(rows), -1)

    def boosted() -> Any:
        return HistGradientBoostingRegressor(
            loss="absolute_error", max_iter=trees, learning_rate=0.2, random_state=config.seed
        )

    fits: dict[str, Callable[[], Predict]] = {
        "linear": lambda: _by_output(LinearRegression, x, train.y),
        "boosted_trees": lambda: _by_output(boosted, x, train.y),
        "nearest_neighbours": nearest,
    }
    out: dict[str, Any] = {}
    for name, fit in fits.items():
        started = time.monotonic()
        with threadpool_limits(1):  # threads that wait for each other on a busy machine took ten times as long
            predict = fit()
        rows: list[dict[str, Any]] = []
        for split, test in tests.items():
            rows += table_rows(config.model, split, predict(scaled(test.x)), test, config.inputs)
        out[name] = {"rows": rows, "seconds": round(time.monotonic() - started, 2)}
    out["nearest_neighbours"] |= {"bytes": _memory(table_x, table_y), "table_rows": len(table_x)}
    return out
