"""Losses; labels that are missing (NaN) have no weight."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from osml_training.train.config import Config

SPREAD_QUANTILE = 0.9
"""The spread of the masked variant is this quantile of the absolute error."""

_NEAR = 0.05  # standard deviations below which an error counts by its square: smooth at the median

Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def loss_of(config: Config) -> Loss:
    """(points, spread, y, weight) -> loss, all (rows, outputs), in standard deviations of the labels."""
    return squared if config.variant == "paper" else median_and_spread


def squared(points: Tensor, spread: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Mean squared error; with the weight of `label_weight` it is OSML's loss of Model-B, too."""
    del spread
    return (weight * (points - y).square()).sum() / weight.sum().clamp(min=1)


def median_and_spread(points: Tensor, spread: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Absolute error for the points (their best answer is the median), pinball loss for the spread."""
    error = (points - y).abs()
    smooth = torch.where(error < _NEAR, error.square() / (2 * _NEAR), error - _NEAR / 2)
    beyond = error.detach() - spread
    pinball = torch.maximum(SPREAD_QUANTILE * beyond, (SPREAD_QUANTILE - 1) * beyond)
    return (weight * (smooth + pinball)).sum() / weight.sum().clamp(min=1)


def label_weight(y: Tensor, config: Config) -> Tensor:
    """1 where there is a label; 0 where it is missing, and for the paper's Model-B where it is 0.

    OSML section 4.2 weighs with y/(y + c), c near 0: cases without a B-point don't move the weights. The masked variant
    learns them: that nothing can be taken is what keeps a neighbour on its feet.
    """
    weight = (~torch.isnan(y)).float()
    if config.model == "b" and config.variant == "paper":
        weight = weight * (y != 0).float()
    return weight
