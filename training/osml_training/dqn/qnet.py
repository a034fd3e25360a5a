"""The Q-function of Model-C (OSML section 4.3): three layers of 30 ReLU neurons, 49 actions; one plain torch module.

Everything that learns uses this one: fitted Q offline, the loop online, RLlib around it. Scaling is inside.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

import torch
from torch import Tensor, nn

from osml.predictors.actions import N_ACTIONS
from osml_training.networks import Scaler, Scaling

HIDDEN = (30, 30, 30)
"""Neurons of the hidden layers in the paper."""


class QNet(nn.Module):
    """Raw features (rows, inputs), NaN where missing -> Q (rows, 49). `masked`: what was measured is an input, too."""

    def __init__(
        self,
        scaling: Scaling,
        *,
        hidden: tuple[int, ...] = HIDDEN,
        masked: bool = True,
        seed: int = 0,
    ):
        super().__init__()
        self.masked, self.hidden = masked, hidden
        self.scaler = Scaler(scaling)
        width = len(scaling.low) * (2 if masked else 1)
        layers: list[nn.Module] = []
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            width = size
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, N_ACTIONS)
        generator = torch.Generator().manual_seed(seed)
        for layer in self.linears():
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(layer.bias)
        with torch.no_grad():
            self.head.weight.mul_(0.1)

    def scale(self, raw: Tensor) -> Tensor:
        """What goes into the first layer, (rows, inputs) or, masked, (rows, 2 x inputs)."""
        scaled, measured = self.scaler(raw)
        return torch.cat([scaled, measured], 1) if self.masked else scaled

    def answer(self, scaled: Tensor) -> Tensor:
        """Q (rows, 49) from scaled inputs."""
        return self.head(self.body(scaled))

    def forward(self, raw: Tensor, legal: Tensor | None = None) -> Tensor:
        """Q (rows, 49) from raw features; -inf where `legal` (rows, 49) is 0."""
        q = self.answer(self.scale(raw))
        return q if legal is None else q.masked_fill(legal == 0, -torch.inf)

    def linears(self) -> list[nn.Linear]:
        """Hidden layers, then the head."""
        return [layer for layer in self.body if isinstance(layer, nn.Linear)] + [self.head]
