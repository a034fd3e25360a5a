"""Virtual nodes as learners of one agent want them: every place of every node is an environment of its own.

All services of a node act in every interval, each sees Model-C's state, its own legal actions and its own reward, and
what comes next is the next state of the same service. RLlib and the plain loop learn from this one.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.predictors.actions import N_ACTIONS
from osml.simulator import catalogs
from osml.simulator.environment import ColocationVectorEnv
from osml_training.dqn.rewards import Reward
from osml_training.dqn.state import STATE, environment_state
from osml_training.online_dqn.credit import Credit, OwnEntropy

SERVICE_STEPS_ID = "osml/ServiceSteps-v0"

MISSING = -1.0
"""In observations: not measured. No state is negative."""

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


def states_of(observations: NDArray[np.float32]) -> NDArray[np.float32]:
    """States as Model-C takes them, NaN where something was not measured."""
    return np.where(observations < 0, np.float32("nan"), observations)


class ServiceSteps(VectorEnv[Any, Any, Any]):
    """`num_envs` places of num_envs / max_services nodes; place k of node i is environment `max_services i + k`.

    Observations: `observations` (num_envs, len(STATE)) raw, MISSING where something was not measured, as spaces hold no
    NaN (`states_of` turns it back), and `action_mask` (num_envs, 49). `info` is empty: who is where is in `present`.
    All services of a node end and begin their episodes together (`AutoresetMode.NEXT_STEP`); an empty place sees zeros
    and MISSING, can only do nothing, and is paid nothing.

    `settings` are those of `osml/Colocation-v0` but for `turns` and `mask_in_observation`. With the reward `entropy`
    and `credit="own"` a service is paid the fall of its own entropy, not of the node's (`OwnEntropy`, where `cliff`
    and `move` count, too).
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        num_envs: int = 4,
        render_mode: str | None = None,
        credit: Credit = "node",
        cliff: float = 0.0,
        move: float = 0.0,
        **settings: Any,
    ):
        for name in ("turns", "mask_in_observation"):
            if name in settings:
                raise InputError(f"{name} is not supported here: all services act in each step and see their masks")
        n = int(settings.get("max_services", 4))
        if num_envs < n or num_envs % n:
            raise InputError(f"num_envs is {num_envs}, expected a multiple of max_services ({n})")
        if credit not in ("node", "own"):
            raise InputError(f"credit is '{credit}', expected node or own")
        self.nodes = ColocationVectorEnv(num_envs // n, **settings)
        self.num_envs, self.render_mode = num_envs, render_mode
        config = self.nodes.config
        reward = Reward(config.reward, config.price, cliff, move)
        own = credit == "own" and config.reward == "entropy"
        self._own = OwnEntropy(catalogs.platform(config.platform), reward) if own else None
        low, high = np.full(len(STATE), MISSING, np.float32), np.full(len(STATE), 1e12, np.float32)
        seen: dict[str, spaces.Space[Any]] = {
            "observations": spaces.Box(low, high, dtype=np.float32),
            "action_mask": spaces.Box(0, 1, (N_ACTIONS,), np.int8),
        }
        self.single_observation_space = spaces.Dict(seen)
        self.single_action_space: spaces.Space[Any] = spaces.Discrete(N_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.present: Bools = np.zeros(num_envs, np.bool_)
        self.e_s: Floats = np.zeros(num_envs // n)
        self._over: Bools = np.zeros(num_envs // n, np.bool_)

    @property
    def services(self) -> int:
        """Places of a node."""
        return self.nodes.config.max_services

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode on all nodes."""
        found, info = self.nodes.reset(seed=seed, options=options)
        seen = cast("NDArray[np.float32]", found)
        self._over = np.zeros(len(seen), np.bool_)
        if self._own is not None:
            self._own.begin(seen)
        return self._shown(seen, info), {}

    def step(self, actions: Any) -> tuple[Any, Floats, Bools, Bools, dict[str, Any]]:
        """One interval on all nodes, but for those whose episode was over: they begin a new one."""
        n = self.services
        joint = np.asarray(actions).reshape(-1, n)
        begun = self._over
        found, _, terminated, truncated, info = self.nodes.step(joint)
        seen = cast("NDArray[np.float32]", found)
        rewards: Floats = info["service_rewards"]
        if self._own is not None:
            rewards = np.where(info["services"] >= 0, self._own.pay(seen, info["taken"], begun), 0.0)
        rewards = np.where(begun[:, None], 0.0, rewards)
        self._over = truncated
        return self._shown(seen, info), rewards.ravel(), np.repeat(terminated, n), np.repeat(truncated, n), {}

    def _shown(self, seen: NDArray[np.float32], info: dict[str, Any]) -> dict[str, NDArray[Any]]:
        self.present, self.e_s = (info["services"] >= 0).ravel(), info["e_s"]
        states = np.nan_to_num(environment_state(seen), copy=False, nan=MISSING).reshape(self.num_envs, -1)
        return {"observations": states, "action_mask": info["action_mask"].reshape(self.num_envs, N_ACTIONS)}


if SERVICE_STEPS_ID not in gymnasium.registry:
    gymnasium.register(  # pyright: ignore[reportUnknownMemberType]
        SERVICE_STEPS_ID,
        vector_entry_point="osml_training.online_dqn.environment:ServiceSteps",
    )
