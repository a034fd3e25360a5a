"""The virtual node as libraries for reinforcement learning want it, and what a learned policy is worth. Simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from osml.simulator.environment import ENVIRONMENT_ID

Act = Callable[[NDArray[np.float32]], int]
NOTHING = 24
"""The action that moves nothing."""


class Scaled(gymnasium.ObservationWrapper[Any, Any, Any]):
    """One row of numbers near 1: networks can't learn from raw units, which range from 0.001 to 1e11."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        shape = (int(np.prod(env.observation_space.shape or ())),)
        self.observation_space = gymnasium.spaces.Box(-30.0, 30.0, shape, np.float32)

    def observation(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """Sign times log(1 + size) of each number."""
        flat = observation.reshape(-1).astype(np.float64)
        return (np.sign(flat) * np.log1p(np.abs(flat))).astype(np.float32)


def make(horizon: int = 60) -> gymnasium.Env[Any, Any]:
    """A node of up to three services, which act in turn: 49 actions. An episode has `horizon` steps of one second."""
    return Scaled(gymnasium.make(ENVIRONMENT_ID, max_services=3, turns=True, horizon=horizon))


def worth(act: Act, episodes: int, seed: int) -> float:
    """Mean system entropy E_S over episodes with the seeds `seed`, `seed` + 1, ...; lower is better."""
    env, found = make(), []
    for number in range(episodes):
        observation, info = env.reset(seed=seed + number)
        done = False
        while not done:
            observation, _, terminated, truncated, info = env.step(act(observation))
            found.append(float(info["e_s"]))
            done = terminated or truncated
    return float(np.nanmean(found))


def compare(learned: Act, episodes: int = 20, seed: int = 1_000_000) -> dict[str, float]:
    """What is learned beside doing nothing and beside chance, on episodes that the training did not see."""
    chance = np.random.default_rng(seed)
    return {
        "learned": worth(learned, episodes, seed),
        "nothing": worth(lambda _: NOTHING, episodes, seed),
        "chance": worth(lambda _: int(chance.integers(49)), episodes, seed),
    }


def told(found: dict[str, float]) -> str:
    """The comparison in one line."""
    return "E_S (simulated, lower is better): " + ", ".join(f"{name} {value:.3f}" for name, value in found.items())
