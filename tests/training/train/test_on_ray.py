"""The same training by two workers of a Ray cluster on this machine."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")

from osml_training.train import on_ray
from osml_training.train.config import Split, shipped_config
from osml_training.train.loop import predict
from osml_training.train.train import load_part


def test_what_a_worker_died_of_is_one_sentence() -> None:
    cause = "osml.base.failure.InputError: no examples for a"
    told = f"Training failed:\nTraceback (most recent call last):\n  File x\n{cause}\n\n"
    assert on_ray._reason(told, 2) == "no examples for a; each of 2 workers needs its own runs"
    assert on_ray._reason("the controller is gone", 2) == "the controller is gone"
    assert on_ray._reason("", 2) == "no reason given"


@pytest.mark.slow
def test_two_workers_train_one_network(sweep: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    config = msgspec.structs.replace(
        shipped_config("a2", "masked"), epochs=12, hidden=(16,), rows=20_000, service_folds=0, batch=512, split=Split()
    )
    found = on_ray.train_on_ray(sweep, config, platforms=None, workers=2, address="local", storage=tmp_path)
    assert len(found.epochs) == 12
    losses = [epoch.loss for epoch in found.epochs]
    assert min(losses) < 0.9 * losses[0], losses
    assert found.epochs[0].rows < len(load_part(sweep, config, "train").y)  # a worker's own share
    points, spread = predict(found.network, load_part(sweep, config, "test").x)
    assert np.isfinite(points).all()
    assert (spread > 0).all()
    assert "0.95" in found.margins
