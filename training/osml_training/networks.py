"""The networks of A, A', B and B': scaling and masking inside, raw features in, raw units out (OSML sections 4.1, 4.2).

`export/graph.py` writes the same arithmetic as ONNX; a test holds the two together.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's and scikit-learn's own annotations have gaps.
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Floats = NDArray[np.float64]

LEAST_LOG = 1e-6
"""What is logarithmic is at least this, in its unit: 0 requests and 0 GB/s have a place."""

LEAST_SPREAD = 0.02
"""Spreads are at least this share of the standard deviation of the label."""


@dataclass(frozen=True)
class Scaling:
    """How raw inputs become numbers of about 1: (value - low)/span, of the logarithm where `log`; an entry each.

    They stay within `clip`: an infinite counter gives a finite answer, a larger machine has room.
    """

    log: NDArray[np.bool_]
    low: Floats
    span: Floats
    clip: tuple[float, float] = (-1.0, 2.0)


class LabelRange(NamedTuple):
    """Of each label in training; answers stay between `low` and `high`."""

    mean: Floats
    std: Floats
    low: Floats
    high: Floats


class Scaler(nn.Module):
    """Raw inputs (rows, inputs), NaN where missing -> (rows, inputs) within the clip, 0 where missing."""

    def __init__(self, scaling: Scaling):
        super().__init__()
        self.clip = scaling.clip
        self.log: Tensor
        self.low: Tensor
        self.span: Tensor
        self.register_buffer("log", torch.from_numpy(scaling.log))
        self.register_buffer("low", torch.tensor(scaling.low, dtype=torch.float32))
        self.register_buffer("span", torch.tensor(scaling.span, dtype=torch.float32))

    def forward(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Scaled inputs, and what was measured (1) or missing (0), both (rows, inputs)."""
        missing = torch.isnan(raw)
        value = torch.where(missing, 1.0, raw)
        value = torch.where(self.log, torch.log(torch.clamp(value, min=LEAST_LOG)), value)
        scaled = torch.clamp((value - self.low) / self.span, *self.clip)
        return torch.where(missing, 0.0, scaled), 1.0 - missing.float()


class ReluDropout(nn.Module):
    """ReLU, and in training dropout with one random byte a neuron, so in steps of 1/256.

    `nn.Dropout` takes half the time of a training. The bytes are numpy's SFC64, seeded by torch: ten times as fast as
    torch's own generator. The product is written over what ReLU gave, and backwards its factor is one number: less
    memory to write and to read than in two layers.
    """

    def __init__(self, share: float):
        super().__init__()
        self.steps = round(share * 256)

    def forward(self, x: Tensor) -> Tensor:
        """In training each value is dropped with probability steps/256, the others grow to keep the mean."""
        if not (self.training and self.steps):
            return torch.relu(x)
        seed = int(torch.randint(2**63 - 1, (1,)))
        drawn = np.random.SFC64(seed).random_raw(x.numel() // 8 + 1).view(np.uint8)[: x.numel()]
        growth = 256 / (256 - self.steps)
        kept = (drawn >= self.steps).astype(np.float32)
        kept *= growth
        found: Tensor = _ReluTimes.apply(x, torch.from_numpy(kept).view_as(x), growth)
        return found


class _ReluTimes(torch.autograd.Function):
    """relu(x) times a factor that is 0 or `growth`: where the product is above 0, the derivative is `growth`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor, growth: float) -> Tensor:
        found = torch.relu(x).mul_(factor)
        ctx.save_for_backward(found)
        ctx.growth = growth
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (found,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradients[0], found, 0).mul_(ctx.growth), None, None


class Network(nn.Module):
    """Three hidden layers of ReLU, a linear head for the points and, where `spread`, one for their spread.

    `masked`: what was measured goes in beside the values. `dropout` is behind each hidden layer (OSML: 0.3).
    """

    def __init__(
        self,
        scaling: Scaling,
        labels: LabelRange,
        *,
        hidden: tuple[int, ...],
        dropout: float,
        masked: bool,
        spread: bool,
    ):
        super().__init__()
        self.masked, self.spread = masked, spread
        self.scaler = Scaler(scaling)
        self.outputs = len(labels.mean)
        self.y_mean: Tensor
        self.y_std: Tensor
        self.y_low: Tensor
        self.y_high: Tensor
        for name, values in zip(("y_mean", "y_std", "y_low", "y_high"), labels, strict=True):
            self.register_buffer(name, torch.tensor(values, dtype=torch.float32))
        width = len(scaling.low) * (2 if masked else 1)
        layers: list[nn.Module] = []
        for size in hidden:
            layers += [nn.Linear(width, size), ReluDropout(dropout)]
            width = size
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, self.outputs * (2 if spread else 1))

    def scale(self, raw: Tensor) -> Tensor:
        """What goes into the first layer, (rows, inputs) or, masked, (rows, 2 x inputs)."""
        scaled, measured = self.scaler(raw)
        return torch.cat([scaled, measured], 1) if self.masked else scaled

    def answer(self, scaled: Tensor) -> tuple[Tensor, Tensor]:
        """Points and spread in standard deviations of the labels, each (rows, outputs), from scaled inputs."""
        out = self.head(self.body(scaled))
        points = out[:, : self.outputs]
        if not self.spread:
            return points, torch.ones_like(points)
        return points, nn.functional.softplus(out[:, self.outputs :]) + LEAST_SPREAD

    def forward(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        """Points and spread in the units of the labels, each (rows, outputs), from raw inputs."""
        points, spread = self.answer(self.scale(raw))
        points = torch.clamp(self.y_mean + self.y_std * points, self.y_low, self.y_high)
        return points, self.y_std * spread

    def linears(self) -> list[nn.Linear]:
        """Hidden layers, then the head."""
        return [layer for layer in self.body if isinstance(layer, nn.Linear)] + [self.head]


def freeze_first(network: Network) -> None:
    """The first hidden layer learns no more (OSML section 6.4)."""
    for parameter in network.linears()[0].parameters():
        parameter.requires_grad_(False)


def ignore_unmeasured(first: nn.Linear, raw: NDArray[np.float32]) -> None:
    """Let the first layer ignore the inputs that are NaN in all rows of `raw`, whatever they will be one day.

    Their weights, of value and mask, get no gradient: at zero they stay there, otherwise at a random start.
    """
    never = np.isnan(raw).all(axis=0)
    with torch.no_grad():
        first.weight[:, torch.from_numpy(np.tile(never, first.in_features // raw.shape[1]))] = 0.0


def initialise(network: Network, seed: int) -> None:
    """He-normal weights and zero biases, the same for the same seed; the head starts at the labels' mean."""
    generator = torch.Generator().manual_seed(seed)
    for layer in network.linears():
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
        nn.init.zeros_(layer.bias)
    with torch.no_grad():
        network.head.weight.mul_(0.1)
