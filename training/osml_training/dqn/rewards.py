"""The rewards of Model-C on arrays of statuses: the paper's, and the fall of E_S less a price. No torch.

One service of a trace stands for its node: then E_S is its own Q_i (Ah-Q, equation 14), since the mean of equation 15
has one term and no best-effort job counts. `osml.simulator.colocation.rewards` has both for whole nodes.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from osml.predictors.actions import N_ACTIONS, action_of

Floats32 = NDArray[np.float32]

MOVES: NDArray[np.int64] = np.array([action_of(k) for k in range(N_ACTIONS)])
"""(49, 2): cores and ways that each action gives."""


class Reward(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which reward, and what things cost."""

    kind: Literal["entropy", "latency"] = "entropy"
    """entropy: E_S(before) - E_S(after) - price x share taken; latency: OSML section 4.3."""
    price: float = 0.1
    """What the whole node costs in units of E_S; only for entropy."""
    cliff: float = 0.0
    """What a fall beyond the target costs besides E_S; coming back earns nothing but E_S. Only for entropy."""
    move: float = 0.0
    """What an action costs that changes anything, in units of E_S. Only for entropy."""


def intolerable(latency_over_target: Floats32) -> Floats32:
    """Q_i of each (Ah-Q, equation 14), NaN where the latency is not known."""
    over = np.maximum(latency_over_target, 1.0)
    return np.asarray(np.where(np.isnan(latency_over_target), np.nan, 1.0 - 1.0 / over), np.float32)


def costs_of(cores: float, ways: float, reward: Reward) -> Floats32:
    """(49,) what each action costs on a platform of so many `cores` and `ways`.

    Price x share of the node that is taken, and `move` for any change; for the reward `latency` the cores and ways.
    """
    if reward.kind == "latency":
        return MOVES.sum(axis=1).astype(np.float32)
    share = 0.5 * (MOVES[:, 0] / cores + MOVES[:, 1] / ways)
    return np.asarray(reward.price * share + reward.move * MOVES.any(axis=1), np.float32)


def entropy_gain(before: Floats32, after: Floats32, cliff: float) -> Floats32:
    """Fall of Q_i, less `cliff` where the target was met before and is not any more. NaN where one is not known."""
    return np.asarray(before - after - cliff * ((before == 0) & (after > 0)), np.float32)


def latency_gain(before_ms: Floats32, after_ms: Floats32) -> Floats32:
    """OSML section 4.3 with the natural logarithm, on mean latencies, without what was taken. NaN: not known."""
    change = before_ms - after_ms
    return np.asarray(np.sign(change) * np.log1p(np.abs(change)), np.float32)
