"""What is left to gain from a state on: more than that no estimate of its worth may be.

A network that chooses the highest of 49 estimates believes in more with every round of its own estimates; this holds
it down. Offline the data themselves do that (`sweeps` in `offline.py`).
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# torch's own annotations have gaps.
from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from osml_training.dqn.state import STATE

_OVER, _CORES, _WAYS = (STATE.index(name) for name in ("latency_over_target", "cores", "ways"))


@dataclass(frozen=True)
class Bound:
    """Of the reward `entropy` for a service alone, on a platform of so many `cpus` and `ways`."""

    price: float
    cpus: int
    ways: int

    def __call__(self, states: Tensor) -> Tensor:
        """(rows, 1) of states (rows, len(STATE)) raw: their own E_S, and the price of all that they have.

        Infinite where it is not known.
        """
        over = states[:, _OVER]
        q_i = 1.0 - 1.0 / over.clamp(min=1.0)
        share = 0.5 * (states[:, _CORES] / self.cpus + states[:, _WAYS] / self.ways)
        return (q_i + self.price * share).nan_to_num(torch.inf)[:, None]
