"""Fits Model-C': the median of log(latency over target) less its prior, and its spread, by node for node held-out."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from osml.base.failure import InputError
from osml.policies.osml.answers.outlook import SURE
from osml.predictors import Margin
from osml.predictors.outlook import OUTLOOK_INPUTS
from osml_training.networks import LabelRange, Network, Scaling, ignore_unmeasured, initialise
from osml_training.outlook.table import Outlooks
from osml_training.train.conformal import margins_of
from osml_training.train.loop import predict
from osml_training.train.scaling import centred, scaling_by

COVERAGES = (0.9, SURE)
MOST_LEVEL = 2.5
"""log(latency over target) that counts at most: how far beyond a target a queue is does not matter."""

NEAR = 1.0
"""Levels that are further from the target count less: nobody decides by them."""

DECIDED = 0.5
"""Margins are those of cells whose median is so near to the target: there decisions are made.

The median is known when one decides. Where the truth is so near is not: cells that were thought near and are far above
are those that a bound is for.
"""

LEAST_NODES = 10


class OutlookConfig(msgspec.Struct, frozen=True):
    """How the network learns. `test` and `margins`: every so-manieth node is held out for errors and for margins."""

    seed: int = 0
    epochs: int = 12
    batch: int = 2048
    learning_rate: float = 4e-3
    hidden: tuple[int, ...] = (64, 64)
    far_weight: float = 0.3
    test: int = 10
    margins: int = 5


class Trained(NamedTuple):
    """The network, its margins by coverage, and what it does on nodes that were held out."""

    network: Network
    scaling: Scaling
    margins: dict[str, Margin]
    metrics: dict[str, Any]


def train(rows: Outlooks, config: OutlookConfig, on_epoch: Callable[[int, float], None] | None = None) -> Trained:
    """The same rows and config give the same network. Raises InputError for fewer than LEAST_NODES nodes."""
    nodes = np.unique(rows.seed)
    if len(nodes) < LEAST_NODES:
        raise InputError(f"the rows are of {len(nodes)} nodes, expected at least {LEAST_NODES} (--nodes)")
    place = np.searchsorted(nodes, rows.seed)
    test = place % config.test == 0
    margin = (place % config.margins == 1) & ~test
    learned = ~test & ~margin
    y = (np.clip(rows.level, -MOST_LEVEL, MOST_LEVEL) - rows.prior).astype(np.float32)
    known = np.isfinite(y)
    network, scaling = _fitted(rows, y, learned & known, config, on_epoch)
    part = margin & known
    points, spread = predict(network, rows.inputs[part])
    near = np.abs(rows.prior[part] + points[:, 0]) < DECIDED
    margins = margins_of(points[near], spread[near], y[part, None][near], rows.seed[part][near], COVERAGES)
    return Trained(network, scaling, margins, judged(network, margins, rows, y, test & known))


def _fitted(
    rows: Outlooks,
    y: NDArray[np.float32],
    chosen: NDArray[np.bool_],
    config: OutlookConfig,
    on_epoch: Callable[[int, float], None] | None,
) -> tuple[Network, Scaling]:
    x = rows.inputs[chosen]
    scaling = centred(scaling_by(x, OUTLOOK_INPUTS, masked=True))
    label = y[chosen, None]
    low, high = (np.array([float(np.percentile(label, q))]) for q in (0.05, 99.95))
    labels = LabelRange(np.array([float(label.mean())]), np.array([float(label.std())]), low, high)
    torch.manual_seed(config.seed)
    network = Network(scaling, labels, hidden=config.hidden, dropout=0.0, masked=True, spread=True)
    initialise(network, config.seed)
    ignore_unmeasured(network.linears()[0], x)
    inputs = network.scale(torch.from_numpy(x)).detach()
    target = (torch.from_numpy(label) - network.y_mean) / network.y_std
    near = np.abs(np.clip(rows.level[chosen], -MOST_LEVEL, MOST_LEVEL)) < NEAR
    weight = torch.from_numpy(np.where(near, 1.0, config.far_weight).astype(np.float32))[:, None]
    steps = config.epochs * -(-len(x) // config.batch)
    optimiser = torch.optim.Adam(network.parameters(), config.learning_rate)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.learning_rate, total_steps=steps)
    generator = torch.Generator().manual_seed(config.seed)
    network.train()
    for epoch in range(config.epochs):
        order, total = torch.randperm(len(x), generator=generator), 0.0
        for batch in order.split(config.batch):
            points, spread = network.answer(inputs[batch])
            loss = median_and_bound(points, spread, target[batch], weight[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rate.step()
            total += float(loss.detach()) * len(batch)
        if on_epoch is not None:
            on_epoch(epoch + 1, total / len(x))
    network.eval()
    return network, scaling


def median_and_bound(points: Tensor, spread: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Absolute error for the points, and pinball loss by which points + spread is the quantile SURE.

    All (rows, outputs), in standard deviations of the labels. Latencies are skewed: what is above the median goes far
    beyond it, and only that side is asked for.
    """
    error = y - points
    beyond = error.detach() - spread
    pinball = torch.maximum(SURE * beyond, (SURE - 1.0) * beyond)
    return (weight * (error.abs() + 2.0 * pinball)).sum() / weight.sum().clamp(min=1.0)


def judged(
    network: Network,
    margins: dict[str, Margin],
    rows: Outlooks,
    y: NDArray[np.float32],
    chosen: NDArray[np.bool_],
) -> dict[str, Any]:
    """Errors of log(latency over target) on held-out nodes, beside those of the prior alone, by step of the cores.

    `found`: of the cells that miss the target, the share that the median says; `false`: of the others. By coverage:
    `coverage_upper`, the share of truth below the bound where the median is near the target; `missed_of_safe`, of all
    cells whose bound is below the target, the share that misses it.
    """
    points, spread = predict(network, rows.inputs[chosen])
    level, prior, step = np.clip(rows.level[chosen], -MOST_LEVEL, MOST_LEVEL), rows.prior[chosen], rows.step[chosen]
    median = prior + points[:, 0]
    found: list[dict[str, Any]] = []
    for name, part in (("the present cell", step == 0), ("fewer cores", step < 0), ("more cores", step > 0)):
        near = part & (np.abs(level) < NEAR)
        for by, said in (("model", median), ("prior", prior)):
            error = said[near] - level[near]
            row: dict[str, Any] = {
                "cells": name, "by": by, "rows": int(near.sum()), "mae": float(np.abs(error).mean()),
                "bias": float(error.mean()),
                "found": _share(said[part & (level > 0)] > 0), "false": _share(said[part & (level <= 0)] > 0),
            }  # fmt: skip
            found.append(row)
    near = np.abs(median) < DECIDED
    bounds = {key: points[:, 0] + spread[:, 0] * margin.upper[0] for key, margin in margins.items()}
    coverage = {key: _share((y[chosen] <= bound)[near]) for key, bound in bounds.items()}
    missed = {key: _share((level > 0)[prior + bound <= 0]) for key, bound in bounds.items()}
    nodes = len(np.unique(rows.seed[chosen]))
    return {"cells": found, "coverage_upper": coverage, "missed_of_safe": missed, "nodes": nodes}


def _share(yes: NDArray[np.bool_]) -> float | None:
    return float(yes.mean()) if len(yes) else None
