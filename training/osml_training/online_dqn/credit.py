"""Whose entropy pays a service online: the node's, or that of the service alone, as offline."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from osml.simulator.colocation.features import O_LATENCY, O_MEASURED, O_TARGET
from osml.simulator.models import PlatformModel
from osml_training.dqn.rewards import Reward, entropy_gain, intolerable

Floats32 = NDArray[np.float32]
Credit = Literal["node", "own"]


class OwnEntropy:
    """Pays every service the fall of its own Q_i (`rewards.entropy_gain`) less what its action costs, by what it got.

    Where nothing was measured Q_i stays what it was, as E_S of the environment does.
    """

    def __init__(self, platform: PlatformModel, reward: Reward):
        self.platform, self.reward = platform, reward
        self._q_i: Floats32 = np.zeros((0, 0), np.float32)

    def begin(self, features: Floats32) -> None:
        """Episodes begin: `features` (nodes, places, 26)."""
        self._q_i = np.nan_to_num(_q_i(features))

    def pay(self, features: Floats32, taken: NDArray[np.int64], begun: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Rewards (nodes, places) of an interval in which so much was `taken` (nodes, places, 2).

        Those of the nodes that `begun` an episode mean nothing.
        """
        now, before = _q_i(features), self._q_i
        now = np.where(np.isnan(now), np.where(begun[:, None], np.float32(0), before), now)
        self._q_i = now
        share = 0.5 * (taken[..., 0] / self.platform.cpus + taken[..., 1] / self.platform.ways)
        costs = self.reward.price * share + self.reward.move * taken.any(axis=-1)
        return entropy_gain(before, now, self.reward.cliff) - costs


def _q_i(features: Floats32) -> Floats32:
    """NaN where nothing was measured."""
    latency = np.where(features[..., O_MEASURED] > 0, features[..., O_LATENCY], np.nan)
    return intolerable((latency / np.maximum(features[..., O_TARGET], 1e-9)).astype(np.float32))
