"""PPO of Stable-Baselines3 on the virtual node: `python stable_baselines3_ppo.py --steps 50000`. Simulated."""

from __future__ import annotations

import argparse

from node import compare, make, told
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env


def train(steps: int, seed: int, envs: int = 8) -> PPO:
    """A policy after so many steps; the same seed gives the same policy."""
    nodes = make_vec_env(make, n_envs=envs, seed=seed)
    model = PPO("MlpPolicy", nodes, n_steps=64, batch_size=128, gamma=0.9, seed=seed, device="cpu")
    return model.learn(steps)


def main() -> None:
    """Train, and print what it is worth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=20)
    given = parser.parse_args()
    model = train(given.steps, given.seed)
    found = compare(lambda seen: int(model.predict(seen, deterministic=True)[0]), given.episodes)
    print(told(found))


if __name__ == "__main__":
    main()
