"""Whether the exported graph says what the network says, on random and on extreme inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from osml.base.onnx_runtime import load_onnx_runtime
from osml.predictors import Predictor
from osml_training.export.graph import onnx_model
from osml_training.networks import Network
from osml_training.train.loop import GraphLimit, predict

TOLERANCE = 1e-5
"""Largest difference, relative to the larger of the answer and the standard deviation of its label."""

PROBES = 32_768
"""Rows that a model is asked before it is shipped. With fewer it is luck: what differs most is one row in thousands."""


def probes(
    low: NDArray[np.float64], high: NDArray[np.float64], rows: int, seed: int, *, missing: bool
) -> NDArray[np.float32]:
    """Rows in range, far out of range, negative, huge, infinite and (with `missing`) without some or all counters."""
    rng = np.random.default_rng(seed)
    span = np.maximum(high - low, 1e-3)
    x = low + span * rng.uniform(0, 1, (rows, len(low)))
    x[rows // 4 : rows // 2] = low + span * rng.uniform(-3, 10, (rows // 2 - rows // 4, len(low)))
    extremes = np.array([0.0, -1.0, 1e-30, 1e12, 3e38, np.inf, -np.inf])
    wild = rng.random((rows, len(low))) < 0.1
    wild[: rows // 2] = False
    x[wild] = rng.choice(extremes, int(wild.sum()))
    if missing:
        x[rng.random((rows, len(low))) < 0.1] = np.nan
        x[-1] = np.nan
    return x.astype(np.float32)


def largest_difference(network: Network, predictor: Predictor, x: NDArray[np.float32]) -> float:
    """Over all rows and both outputs, relative as TOLERANCE says. Infinite where one is finite and the other is not."""
    found = predictor.predict(x)
    return _difference(network, (found.points, found.spread), x)


def _difference(network: Network, answers: Sequence[NDArray[np.float32]], x: NDArray[np.float32]) -> float:
    scale = network.y_std.numpy()
    worst = 0.0
    for ours, theirs in zip(predict(network, x), answers, strict=True):
        if not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
            return float("inf")
        worst = max(worst, float(np.nanmax(np.abs(ours - theirs) / np.maximum(np.abs(ours), scale))))
    return worst


def graph_limit(low: NDArray[np.float64], high: NDArray[np.float64]) -> GraphLimit:
    """What keeps a training to networks whose graphs answer as they do; `low` and `high` are of the inputs.

    The larger the weights, the more is cancelled between them, and the more the order of sums in float32 matters.
    """
    runtime = load_onnx_runtime()

    def difference(network: Network) -> float:
        graph = onnx_model(network, {}).SerializeToString()
        session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
        x = probes(low, high, PROBES, 0, missing=network.masked)
        return _difference(network, session.run(["points", "spread"], {"features": x}), x)

    return GraphLimit(difference, TOLERANCE)
