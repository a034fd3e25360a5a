"""Several processes train one network: each has its own runs, gradients are averaged (on a cluster: by Ray)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from osml_training.networks import Network
from osml_training.tables.runs import RunKey, fold_of

distributed: Any = torch.distributed


class Together:
    """The processes of a training, or this one alone."""

    def __init__(self) -> None:
        here = distributed.is_available() and distributed.is_initialized()
        self.size: int = distributed.get_world_size() if here else 1
        self.rank: int = distributed.get_rank() if here else 0

    def mine(self, key: RunKey) -> bool:
        """Whether this process trains on a run."""
        return self.size == 1 or fold_of(key.run, self.size, 11) == self.rank

    def mean(self, values: Tensor) -> Tensor:
        """The mean over the processes, the same in all of them."""
        if self.size == 1:
            return values
        summed = values.clone()
        distributed.all_reduce(summed)
        return summed / self.size

    def fewest(self, count: int) -> int:
        """The least of the processes' counts: all take as many steps."""
        if self.size == 1:
            return count
        found = torch.tensor([count])
        distributed.all_reduce(found, op=distributed.ReduceOp.MIN)
        return int(found.item())

    def same(self, network: Network) -> None:
        """Everybody starts with the network of the first: weights and ranges."""
        if self.size > 1:
            for value in network.state_dict().values():
                sent = value.float()  # gloo has no flags
                distributed.broadcast(sent, 0)
                value.copy_(sent)

    def average_gradients(self, network: Network) -> None:
        """Before a step."""
        if self.size == 1:
            return
        learning = [p for p in network.parameters() if p.grad is not None]
        flat = self.mean(torch.cat([p.grad.reshape(-1) for p in learning if p.grad is not None]))
        at = 0
        for parameter in learning:
            count = parameter.numel()
            parameter.grad = flat[at : at + count].reshape(parameter.shape)
            at += count
