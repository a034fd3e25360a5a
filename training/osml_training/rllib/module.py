"""RLlib's view of Model-C: a shell around the same QNet, and RMSProp. Importing it imports Ray."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# Ray's and torch's own annotations have gaps.
from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.dqn.torch.default_dqn_torch_rl_module import DefaultDQNTorchRLModule
from ray.rllib.algorithms.dqn.torch.dqn_torch_learner import DQNTorchLearner
from ray.rllib.core.learner.utils import make_target_network
from ray.rllib.utils.schedules.scheduler import Scheduler

from osml_training.dqn.qnet import QNet
from osml_training.networks import Scaling
from osml_training.online_dqn.bound import Bound
from osml_training.online_dqn.config import OnlineConfig


def settings_of(net: QNet, config: OnlineConfig) -> dict[str, Any]:
    """What a module is made of, in plain numbers: it travels to other processes."""
    scaler = net.scaler
    points: list[Any] = [list(point) for point in config.epsilon]
    bound = config.bound()
    return {
        "log": scaler.log.tolist(),
        "low": scaler.low.double().tolist(),
        "span": scaler.span.double().tolist(),
        "hidden": list(net.hidden),
        "masked": net.masked,
        "double_q": config.double_q,
        "epsilon": points if len(points) > 1 else points[0][1],
        "bound": None if bound is None else [bound.price, bound.cpus, bound.ways],
    }


class MaskedQModule(DefaultDQNTorchRLModule):
    """Observations are a Dict of `observations`, raw with MISSING, and `action_mask`; what is illegal is worth -inf.

    RLlib explores only where a value is finite, and its learner never chooses what is -inf.
    """

    def setup(self) -> None:
        """The policy network; RLlib calls it."""
        told: Any = self.model_config
        self.uses_dueling, self.uses_double_q, self.num_atoms = False, told["double_q"], 1
        self.epsilon_schedule = Scheduler(fixed_value_or_schedule=told["epsilon"], framework="torch")
        scaling = Scaling(np.array(told["log"], np.bool_), np.array(told["low"]), np.array(told["span"]))
        self.bound = None if told["bound"] is None else Bound(*told["bound"])
        self.q = QNet(scaling, hidden=tuple(told["hidden"]), masked=told["masked"])

    def get_non_inference_attributes(self) -> list[str]:
        """What only the learner has."""
        return ["_target_q"]

    def make_target_networks(self) -> None:
        """A copy of the policy network."""
        self._target_q = make_target_network(self.q)

    def get_target_network_pairs(self) -> list[Any]:
        """Which network follows which."""
        return [(self.q, self._target_q)]

    def get_initial_state(self) -> dict[str, Any]:
        """There is none: the network has no memory."""
        return {}

    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Q of the policy network, (rows, 49)."""
        return self._q_values(self.q, batch)

    def forward_target(self, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        """Q of the target network, (rows, 49), and not above what is left to gain."""
        found = self._q_values(self._target_q, batch)
        if self.bound is not None:
            found["qf_preds"] = torch.minimum(found["qf_preds"], self.bound(_states(batch)))
        return found

    def _q_values(self, net: Any, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        return {"qf_preds": net(_states(batch), batch["obs"]["action_mask"])}


def _states(batch: dict[str, Any]) -> torch.Tensor:
    """As the network takes them, NaN where something was not measured."""
    found = batch["obs"]["observations"]
    return torch.where(found < 0, torch.nan, found)


class RmsPropLearner(DQNTorchLearner):
    """RLlib's DQN learner with the paper's optimiser instead of Adam."""

    def configure_optimizers_for_module(self, module_id: str, config: Any = None) -> None:
        """RLlib calls it; the learning rate is the config's."""
        params: Any = self.get_parameters(self.module[module_id])
        self.register_optimizer(
            module_id=module_id, optimizer=torch.optim.RMSprop(params), params=params, lr_or_lr_schedule=config.lr
        )
