"""PPO of RLlib on the virtual node: `python rllib_ppo.py --iterations 50`. Simulated."""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")  # workers run in this Python environment
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # on loopback only

import numpy as np
import ray
import torch
from node import Act, compare, make, told
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.core.columns import Columns
from ray.tune.registry import register_env

STEPS = 512
"""Steps of an iteration."""


def train(iterations: int, seed: int) -> PPO:
    """An algorithm after so many iterations."""
    register_env("osml", lambda _: make())
    config = (
        PPOConfig()
        .environment("osml")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(train_batch_size=STEPS, minibatch_size=128, num_epochs=4, gamma=0.9, lr=3e-4)
        .debugging(seed=seed)
    )
    algorithm = config.build_algo()
    for _ in range(iterations):
        algorithm.train()
    return algorithm


def greedy(algorithm: PPO) -> Act:
    """The most probable action."""
    module = algorithm.get_module()

    def act(seen: np.ndarray) -> int:
        with torch.no_grad():
            found = module.forward_inference({Columns.OBS: torch.from_numpy(seen[None])})
        return int(found[Columns.ACTION_DIST_INPUTS][0].argmax())

    return act


def main() -> None:
    """Train, and print what it is worth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=20)
    given = parser.parse_args()
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    algorithm = train(given.iterations, given.seed)
    print(told(compare(greedy(algorithm), given.episodes)))
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
