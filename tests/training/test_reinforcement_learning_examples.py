"""The examples of docs/how-to/reinforcement-learning.md with few steps: they run, and the same seed learns the same."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("gymnasium")
EXAMPLES = Path(__file__).parents[2] / "docs/examples/reinforcement-learning"
NAMES = ("node", "stable_baselines3_ppo", "rllib_ppo")


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module("node")
    for name in NAMES:
        sys.modules.pop(name, None)


def test_observations_are_in_their_space_and_a_seed_is_the_same_node(node: ModuleType) -> None:
    env = node.make(horizon=20)
    first, _ = env.reset(seed=3)
    again, _ = node.make(horizon=20).reset(seed=3)
    assert env.observation_space.contains(first)
    np.testing.assert_array_equal(first, again)
    for _ in range(20):
        seen, _, _, truncated, _ = env.step(node.NOTHING)
        assert env.observation_space.contains(seen)
    assert truncated


def test_doing_nothing_and_chance_are_worth_something_else(node: ModuleType) -> None:
    found = node.compare(lambda _: node.NOTHING, episodes=2)
    assert found["learned"] == found["nothing"]
    assert found["chance"] != found["nothing"]
    assert all(0 <= value <= 1 for value in found.values())
    assert re.fullmatch(r"E_S .*: learned \d\.\d+, nothing \d\.\d+, chance \d\.\d+", node.told(found))


@pytest.mark.slow
def test_stable_baselines3_learns_the_same_from_the_same_seed(node: ModuleType) -> None:
    pytest.importorskip("stable_baselines3")
    ppo = importlib.import_module("stable_baselines3_ppo")
    seen, _ = node.make().reset(seed=1)
    one, two = (ppo.train(256, 0, envs=2) for _ in range(2))
    for first, second in zip(one.policy.parameters(), two.policy.parameters(), strict=True):
        np.testing.assert_array_equal(first.detach().numpy(), second.detach().numpy())
    assert 0 <= int(one.predict(seen, deterministic=True)[0]) < 49


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rllib_learns(node: ModuleType) -> None:
    pytest.importorskip("torch")
    ray = pytest.importorskip("ray")
    rllib = importlib.import_module("rllib_ppo")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        algorithm = rllib.train(1, 0)
        seen, _ = node.make().reset(seed=1)
        assert 0 <= rllib.greedy(algorithm)(seen) < 49
        algorithm.stop()
    finally:
        ray.shutdown()
