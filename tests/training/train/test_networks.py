"""Networks: scaling, masks, losses, freezing; and the ONNX graph that says the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from osml_training.export import parity
from osml_training.export.graph import onnx_model
from osml_training.export.load import load_network
from osml_training.export.parity import TOLERANCE, largest_difference, probes
from osml_training.networks import LabelRange, Network, ReluDropout, Scaling, freeze_first, initialise
from osml_training.train.config import shipped_config
from osml_training.train.loop import predict
from osml_training.train.loss import label_weight, median_and_spread, squared
from osml_training.train.scaling import centred

from osml.predictors import load_predictor

LOW, HIGH = np.array([0.0, 1.0, 1.0]), np.array([5.0, 1000.0, 36.0])


def _network(*, masked: bool = True, spread: bool = True, seed: int = 0) -> Network:
    log = np.array([False, True, masked])
    low = np.where(log, np.log(np.maximum(LOW, 1e-6)), LOW)
    high = np.where(log, np.log(HIGH), HIGH)
    scaling = Scaling(log, low, high - low)
    labels = LabelRange(np.array([10.0, 2.0]), np.array([5.0, 1.0]), np.array([1.0, 1.0]), np.array([36.0, 20.0]))
    network = Network(scaling, labels, hidden=(40, 40, 40), dropout=0.3, masked=masked, spread=spread)
    initialise(network, seed)
    return network.eval()


def _folder(network: Network, tmp_path: Path) -> Path:
    """As a bundle, without the words."""
    import msgspec

    from osml.predictors import FeatureSpec, ModelMetadata, OutputSpec

    metadata = ModelMetadata(
        name="t",
        version="1",
        kind="a",
        variant="v",
        platforms=["p"],
        services=[],
        features=[FeatureSpec(n, None, 0, 1) for n in ("x", "y", "z")],
        outputs=[OutputSpec(n, None) for n in ("u", "v")],
        margins={},
        simulated=True,
        dataset_fingerprint="",
        commit="",
        seed=0,
        command="",
        licence="",
    )
    (tmp_path / "metadata.json").write_bytes(msgspec.json.encode(metadata))
    (tmp_path / "model.onnx").write_bytes(onnx_model(network, {"osml.features": "x,y,z"}).SerializeToString())
    return tmp_path


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("spread", [True, False])
def test_onnx_says_what_the_network_says_on_random_and_extreme_inputs(
    masked: bool, spread: bool, tmp_path: Path
) -> None:
    network = _network(masked=masked, spread=spread, seed=3)
    predictor = load_predictor(_folder(network, tmp_path))
    rows = probes(LOW, HIGH, 20_000, 1, missing=masked)
    assert np.isinf(rows).any()
    assert largest_difference(network, predictor, rows) <= TOLERANCE


def test_parity_notices_another_network(tmp_path: Path) -> None:
    predictor = load_predictor(_folder(_network(seed=1), tmp_path))
    assert largest_difference(_network(seed=2), predictor, probes(LOW, HIGH, 100, 1, missing=True)) > 100 * TOLERANCE


def test_a_network_is_held_against_its_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = parity.graph_limit(LOW, HIGH)
    assert limit.most == TOLERANCE
    assert limit.excess(_network(seed=1)) == 0
    monkeypatch.setattr(parity, "onnx_model", lambda _network_asked, keys: onnx_model(_network(seed=2), keys))
    assert limit.excess(_network(seed=1)) > 100 * TOLERANCE


def test_one_row_and_many_rows_agree(tmp_path: Path) -> None:
    predictor = load_predictor(_folder(_network(), tmp_path))
    rows = probes(LOW, HIGH, 64, 2, missing=True)
    together = predictor.predict(rows).points
    alone = np.concatenate([predictor.predict(row[None]).points for row in rows])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)


def test_the_exporter_of_torch_agrees(tmp_path: Path) -> None:
    """An independent way from network to file."""
    import onnxruntime

    network = _network(masked=False)
    with pytest.warns(DeprecationWarning):
        torch.onnx.export(network, (torch.ones(2, 3),), tmp_path / "t.onnx", dynamo=False, input_names=["x"])
    rows = probes(LOW, HIGH, 2, 5, missing=False)
    theirs = onnxruntime.InferenceSession(str(tmp_path / "t.onnx")).run(None, {"x": rows})[0]
    ours = load_predictor(_folder(network, tmp_path)).predict(rows).points
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)


def test_the_same_network_gives_the_same_bytes() -> None:
    first, second = (onnx_model(_network(seed=7), {"a": "b"}).SerializeToString(deterministic=True) for _ in range(2))
    assert first == second


def test_a_network_comes_back_out_of_its_file(tmp_path: Path) -> None:
    network = _network(seed=5)
    back = load_network(_folder(network, tmp_path))
    for name, value in network.state_dict().items():
        assert torch.equal(value, back.state_dict()[name]), name


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(width=32), min_size=3, max_size=3))
def test_any_input_gives_a_finite_answer_within_the_labels(row: list[float]) -> None:
    points, spread = predict(_network(), np.array([row], np.float32))
    assert np.isfinite(points).all()
    assert (points >= [1, 1]).all()
    assert (points <= [36, 20]).all()
    assert (spread > 0).all()


def test_centred_inputs_lie_around_zero_and_what_is_missing_in_the_middle(tmp_path: Path) -> None:
    """The same range, as wide again beyond its ends as it is; and a file keeps it."""
    plain = _network(seed=4)
    raw = torch.tensor([[0.0, 1.0, 1.0], [5.0, 1000.0, 36.0], [1e9, 1e30, float("nan")], [-1e9, 1e-6, 6.0]])
    scaling = centred(Scaling(plain.scaler.log.numpy(), plain.scaler.low.numpy(), plain.scaler.span.numpy()))
    labels = LabelRange(*(np.array(v) for v in ([10.0, 2.0], [5.0, 1.0], [1.0, 1.0], [36.0, 20.0])))
    network = Network(scaling, labels, hidden=(40, 40, 40), dropout=0.0, masked=True, spread=True)
    initialise(network, 4)
    scaled = network.scale(raw)[:, :3].numpy()
    np.testing.assert_allclose(scaled, 3 * (plain.scale(raw)[:, :3].numpy() - 0.5) * ~np.isnan(raw.numpy()), atol=1e-6)
    assert np.abs(scaled).max() == pytest.approx(4.5)
    predictor = load_predictor(_folder(network.eval(), tmp_path))
    assert largest_difference(network, predictor, probes(LOW, HIGH, 20_000, 1, missing=True)) <= TOLERANCE
    assert load_network(tmp_path).scaler.clip == (-4.5, 4.5)


def test_a_missing_input_differs_from_the_lowest_one() -> None:
    network = _network()
    scaled = network.scale(torch.tensor([[0.0, 1.0, 1.0], [float("nan"), 1.0, 1.0]]))
    assert scaled[:, :3].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert scaled[:, 3:].tolist() == [[1, 1, 1], [0, 1, 1]]


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    layer = ReluDropout(0.3)
    out = layer(torch.ones(1000, 41))
    assert float((out == 0).float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(out.mean()) == pytest.approx(1.0, abs=0.01)
    assert sorted(out.unique().tolist()) == [0.0, pytest.approx(256 / 179)]
    rows = torch.corrcoef((out[:, :8] == 0).float().T) - torch.eye(8)
    assert float(rows.abs().max()) < 0.15  # bytes of one word are independent
    assert torch.equal(layer.eval()(torch.tensor([-1.0, 0.0, 2.0])), torch.tensor([0.0, 0.0, 2.0]))


def test_dropout_passes_gradients_where_it_passed_values() -> None:
    torch.manual_seed(0)
    x = torch.randn(500, 40, requires_grad=True)
    out = ReluDropout(0.3)(x)
    upstream = torch.randn(500, 40)
    (given,) = torch.autograd.grad(out, x, upstream)
    factor = (out > 0).float() * (256 / 179)
    assert torch.equal(out, x.detach().relu() * factor)
    assert torch.equal(given, upstream * factor)
    assert 0.3 < float((out > 0).float().mean()) < 0.4  # half of the values are below 0, three tenths are dropped


def test_freezing_keeps_the_first_hidden_layer_bit_for_bit() -> None:
    network = _network().train()
    freeze_first(network)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    optimiser = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], 0.1, weight_decay=0.5)
    points, spread = network(torch.rand(8, 3))
    (points.sum() + spread.sum()).backward()
    optimiser.step()
    changed = {name for name, value in network.state_dict().items() if not torch.equal(value, before[name])}
    assert not changed & {"body.0.weight", "body.0.bias"}
    assert {"body.2.weight", "body.4.weight", "head.weight"} <= changed


def test_the_paper_s_network_of_model_a_has_its_shape() -> None:
    config = shipped_config("a", "paper")
    assert len(config.inputs) == 9
    assert (config.hidden, config.dropout) == ((40, 40, 40), 0.3)
    assert [len(shipped_config(m, "paper").inputs) for m in ("a2", "b", "b2")] == [12, 13, 14]


def test_the_paper_s_loss_of_model_b_ignores_cases_without_a_b_point() -> None:
    """Against equation in section 4.2, written out with c = 1e-9."""
    y, s = torch.tensor([[0.0, 2.0, 4.0]]), torch.tensor([[9.0, 1.0, 6.0]])
    weight = label_weight(y, shipped_config("b", "paper"))
    written_out = ((y / (y + 1e-9) * (s - y)) ** 2).sum() / 2  # over the cases that there are
    assert squared(s, s, y, weight) == pytest.approx(float(written_out))
    assert label_weight(y, shipped_config("b", "masked")).tolist() == [[1, 1, 1]]


def test_missing_labels_have_no_weight() -> None:
    y = torch.tensor([[float("nan"), 1.0]])
    assert label_weight(y, shipped_config("a", "masked")).tolist() == [[0, 1]]


def test_the_spread_s_best_value_is_the_90th_percentile_of_the_error() -> None:
    y = torch.from_numpy(np.random.default_rng(0).normal(0, 1, (20_000, 1)).astype(np.float32))
    weight, points = torch.ones_like(y), torch.zeros_like(y)
    losses = {s: float(median_and_spread(points, torch.full_like(y, s), y, weight)) for s in (1.2, 1.645, 2.2)}
    assert min(losses, key=lambda s: losses[s]) == 1.645  # of a normal, two-sided
