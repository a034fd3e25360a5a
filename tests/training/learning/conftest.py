"""A store of experiences, a champion that knows nothing, jobs that learn. All skipped where a package is missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NEEDED = ("osml_training", "torch", "onnx", "onnxruntime", "sqlalchemy", "osml_serving")
if any(importlib.util.find_spec(name) is None for name in NEEDED):
    collect_ignore_glob = ["test_*.py"]

PLATFORM = "e5-2697v4"
CHAMPION = "c-test"


@pytest.fixture(scope="session")
def experiences() -> list[Any]:
    """40 minutes of three nodes."""
    from osml_training.learning.trial import explore

    mixes = ("moses=0.4,img-dnn=0.5,be:stream", "xapian=0.5,moses=0.3,be:stream", "masstree=0.4,sphinx=0.4,be:stream")
    nodes = [explore(mix, PLATFORM, 800, seed, f"node-{seed}") for seed, mix in enumerate(mixes)]
    return [experience for together in zip(*nodes, strict=True) for experience in together]  # as they come in


@pytest.fixture(scope="session")
def champion_net(experiences: list[Any]) -> Any:
    """A network that knows the scales of the inputs and nothing else."""
    from osml_training.dqn.qnet import QNet
    from osml_training.dqn.rewards import Reward
    from osml_training.dqn.state import STATE
    from osml_training.learning.recorded import recorded
    from osml_training.train.scaling import scaling_by

    states = recorded(experiences, STATE, Reward()).tuples.before
    return QNet(scaling_by(states, STATE, masked=True), seed=1).eval()


@pytest.fixture
def models(tmp_path: Path, champion_net: Any) -> Path:
    """A folder of models with that champion."""
    from osml_training.dqn.export import write_q_bundle
    from osml_training.dqn.state import STATE
    from osml_training.export.bundle import entry_of
    from osml_training.export.publish import add_to_manifest

    from osml.predictors import FeatureSpec, ModelMetadata, OutputSpec
    from osml.predictors.actions import ACTION_NAMES

    folder = tmp_path / "models"
    metadata = ModelMetadata(
        name=CHAMPION,
        version="1",
        kind="c",
        variant="masked",
        platforms=[PLATFORM],
        services=["moses"],
        features=[FeatureSpec(name, None, 0.0, 10.0) for name in STATE],
        outputs=[OutputSpec(action, None) for action in ACTION_NAMES],
        margins={},
        simulated=True,
        dataset_fingerprint="f" * 64,
        commit="c" * 40,
        seed=1,
        command="osml train c",
        licence="Apache-2.0",
        training={"reward": {"kind": "entropy", "price": 0.1, "cliff": 0.2}, "gamma": 0.9},
        metrics={"rows": []},
    )
    write_q_bundle(champion_net, metadata, folder / CHAMPION)
    add_to_manifest(folder, entry_of(folder / CHAMPION, metadata))
    return folder


@pytest.fixture
def fill(tmp_path: Path) -> Callable[..., str]:
    """Put experiences into a store; returns its address."""
    from osml.experiences.address import open_engine, store_url
    from osml.experiences.store import Store

    def put(experiences: list[Any]) -> str:
        url = f"sqlite:///{tmp_path}/experiences.db"
        store = Store(open_engine(store_url(url), writes=True))
        for first in range(0, len(experiences), 200):
            store.add(experiences[first : first + 200])
        store.close()
        return url

    return put


@pytest.fixture
def config() -> Any:
    """Learns much in seconds, from less than an hour."""
    from osml_training.learning.config import LearningConfig

    return LearningConfig(least_blocks=6, episodes=48, horizon=40, passes=10, learning_rates=(1e-3,), blends=(1.0,))


@pytest.fixture
def job_of(config: Any) -> Callable[..., Any]:
    """Makes the job of a store and a folder of models; keywords change it."""
    from osml_training.learning.promotion import LearnJob

    def make(store: str, models: Path, **more: Any) -> LearnJob:
        return LearnJob(store=store, models=models, **({"config": config, "platform": PLATFORM} | more))

    return make


@pytest.fixture
def trained(
    experiences: list[Any], models: Path, fill: Callable[..., str], job_of: Callable[..., Any]
) -> tuple[str, Path]:
    """A store, and models whose champion has learned from it."""
    from osml_training.learning.job import learn

    store = fill(experiences)
    assert learn(job_of(store, models))["promoted"]
    return store, models
