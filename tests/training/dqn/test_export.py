"""A Q-function in a file says what the network says, and comes back as the same network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import torch
from osml_training.dqn.export import largest_difference, load_qnet, q_model, write_q_bundle
from osml_training.dqn.qnet import QNet
from osml_training.dqn.state import STATE
from osml_training.export.parity import probes
from osml_training.networks import Scaling

from osml.base.failure import Failure, InputError
from osml.predictors import FeatureSpec, ModelMetadata, OutputSpec, load_q_function
from osml.predictors.actions import ACTION_NAMES, N_ACTIONS

F = len(STATE)


def net_of(seed: int = 0, *, masked: bool = True, hidden: tuple[int, ...] = (30, 30, 30)) -> QNet:
    rng = np.random.default_rng(seed)
    scaling = Scaling(rng.random(F) < 0.5, rng.normal(0, 3, F), rng.uniform(0.5, 9, F))
    return QNet(scaling, seed=seed, masked=masked, hidden=hidden).eval()


def about(**changes: Any) -> ModelMetadata:
    settings: dict[str, Any] = {
        "name": "c-test", "version": "1", "kind": "c", "variant": "masked", "platforms": ["p"], "services": ["one"],
        "features": [FeatureSpec(name, None, 0.0, 10.0) for name in STATE],
        "outputs": [OutputSpec(name, None) for name in ACTION_NAMES], "margins": {}, "simulated": True,
        "dataset_fingerprint": "f" * 64, "commit": "c" * 40, "seed": 0, "command": "osml train c",
        "licence": "Apache-2.0",
    }  # fmt: skip
    return ModelMetadata(**(settings | changes))


@pytest.mark.parametrize("masked", [True, False])
def test_the_file_answers_as_the_network_on_any_row(tmp_path: Path, masked: bool) -> None:
    net = net_of(1, masked=masked)
    features = [FeatureSpec(name, None, 0.0, 10.0, masked) for name in STATE]
    folder = write_q_bundle(net, about(features=features), tmp_path / "c")
    rows = probes(np.zeros(F), np.full(F, 10.0), 20_000, 2, missing=masked)
    opened = load_q_function(folder)
    assert largest_difference(net, opened, rows) < 1e-5
    ours = net(torch.from_numpy(rows)).detach().numpy()
    two = np.sort(ours, axis=1)[:, -2:]
    sure = two[:, 1] - two[:, 0] > 1e-4 * np.abs(two[:, 1])
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(ours.argmax(1)[sure], opened.q(rows).argmax(1)[sure])


def test_it_comes_back_as_the_same_network_and_learns_on(tmp_path: Path) -> None:
    net = net_of(3, hidden=(12, 8))
    back = load_qnet(write_q_bundle(net, about(), tmp_path / "c"))
    rows = torch.from_numpy(probes(np.zeros(F), np.full(F, 10.0), 500, 4, missing=True))
    assert torch.equal(net(rows), back(rows))
    back(rows).sum().backward()
    assert all(parameter.grad is not None for parameter in back.parameters())


def test_the_same_network_gives_the_same_bytes() -> None:
    first, second = (q_model(net_of(5), {"a": "b"}).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_what_is_illegal_is_minus_infinite() -> None:
    legal = torch.zeros((2, N_ACTIONS), dtype=torch.int8)
    legal[:, 24] = 1
    q = net_of()(torch.ones((2, F)), legal)
    assert torch.isfinite(q).sum() == 2
    assert (q.argmax(1) == 24).all()


def test_a_network_with_nan_weights_is_never_written_as_good(tmp_path: Path) -> None:
    net = net_of()
    with torch.no_grad():
        net.head.bias[3] = torch.nan
    with pytest.raises(Failure, match="the answer to a row of zeros is not finite"):
        write_q_bundle(net, about(), tmp_path / "c")


def test_files_of_other_models_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match="is not an ONNX file"):
        load_qnet(tmp_path)
    folder = write_q_bundle(net_of(), about(), tmp_path / "c")
    card = (folder / "card.md").read_text("utf-8")
    assert "not a real machine" in card
    (folder / "metadata.json").write_bytes(msgspec.json.encode(about(outputs=[OutputSpec("q", None)])))
    with pytest.raises(InputError, match="outputs are not the 49 actions"):
        load_q_function(folder)
