"""Who moves the weights: AdamW, or Muon for those of the hidden layers; and no subnormal numbers meanwhile."""

# pyright: reportUnknownMemberType=false
# torch's own annotations have gaps.
from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from osml_training.networks import Network
from osml_training.train.config import Config


class Optimiser:
    """Steps of a training, with rates that fall along half a cosine over `steps` of them.

    The weights of hidden layers are Muon's where the config says so (Jordan et al., 2024: momentum made orthogonal):
    every direction of a layer learns alike, so the same errors take a tenth of the passes, and no few large weights
    have to cancel each other. All else is AdamW's; the last layer has a weight decay of its own.
    """

    def __init__(self, network: Network, config: Config, steps: int):
        head, hidden = network.linears()[-1], network.linears()[:-1]
        matrices = [layer.weight for layer in hidden if layer.weight.requires_grad and config.hidden_learning_rate]
        elsewhere = {id(parameter) for parameter in (*matrices, *head.parameters())}
        others = [one for one in network.parameters() if one.requires_grad and id(one) not in elsewhere]
        last = [parameter for parameter in head.parameters() if parameter.requires_grad]
        decay = config.weight_decay if config.head_weight_decay is None else config.head_weight_decay
        groups: list[dict[str, Any]] = [{"params": others}, {"params": last, "weight_decay": decay}]
        self._parts: list[torch.optim.Optimizer] = [
            torch.optim.AdamW(groups, config.learning_rate, weight_decay=config.weight_decay, fused=True)
        ]
        if matrices and config.hidden_learning_rate:
            self._parts.append(
                torch.optim.Muon(matrices, config.hidden_learning_rate, weight_decay=config.weight_decay)
            )

        def half_cosine(step: int) -> float:
            return 0.5 * (1 + np.cos(np.pi * min(step / max(1, steps), 1.0)))

        self._schedules = [torch.optim.lr_scheduler.LambdaLR(part, half_cosine) for part in self._parts]

    def forget_gradients(self) -> None:
        """Before the next ones are summed up."""
        for part in self._parts:
            part.zero_grad()

    def step(self) -> None:
        """Along the gradients, and on along the cosine."""
        for part, schedule in zip(self._parts, self._schedules, strict=True):
            part.step()
            schedule.step()


@contextmanager
def subnormals_are_zero() -> Generator[None]:
    """Weights of inputs that never move decay to 1e-40, where processors are slow: it took four times as long."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
