"""Training on problems with a known answer: it finds it, twice the same, and bears what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("onnx")

import torch
from osml_training.networks import freeze_first
from osml_training.train import loop
from osml_training.train.config import Config, shipped_config
from osml_training.train.network import new_network
from osml_training.train.scaling import scaling_of
from osml_training.train.table import Rows, check_rows, load, source_of
from osml_training.train.train import ranges_of
from osml_training.train.unseen import unseen_margins

from osml.base.failure import Failure, InputError

CONFIG = msgspec.structs.replace(
    shipped_config("b2", "masked"),
    context=("requests_per_s",),
    learning_rate=0.003,
    hidden_learning_rate=None,
    weight_decay=0.01,
    epochs=40,
    batch=256,
    drop_counters=0.0,
    hidden=(32, 32),
)


def _rows(count: int = 6000, seed: int = 0, noise: float = 0.0) -> Rows:
    """A label that is a plain function of two inputs: 30 cpu_usage/cores + 5 log(requests)."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 10, (count, len(CONFIG.inputs))).astype(np.float32)
    x[:, CONFIG.inputs.index("requests_per_s")] = 10 ** rng.uniform(0, 5, count)
    usage, cores = x[:, CONFIG.inputs.index("cpu_usage_cores")], x[:, CONFIG.inputs.index("cores")]
    y = 30 * usage / cores + 5 * np.log(x[:, CONFIG.inputs.index("requests_per_s")]) + noise * rng.normal(0, 1, count)
    service = rng.integers(0, 4, count).astype(np.int32)
    run = (np.arange(count) // 10).astype(np.int64)
    load_share = rng.uniform(0, 1, count).astype(np.float32)
    services = ("one", "two", "three", "four")
    return Rows(x, y.astype(np.float32)[:, None], service, np.zeros(count, np.int32), run, load_share, services, ("p",))


def test_a_range_holds_every_machine_but_no_outlier_of_a_sensor() -> None:
    config = msgspec.structs.replace(CONFIG, context=("requests_per_s", "platform_cores"))
    machine, counter = config.inputs.index("platform_cores"), config.inputs.index("ipc")
    rows = _rows()
    x = np.random.default_rng(1).uniform(1, 2, (len(rows.y), len(config.inputs))).astype(np.float32)
    x[:, machine] = np.where(np.arange(len(x)) < 5, 64, 36)
    x[0, counter] = 1e6
    low, high = ranges_of(rows._replace(x=x), config)
    assert (low[machine], high[machine]) == (36, 64)
    assert high[counter] < 2


def _fitted(
    config: Config = CONFIG, rows: Rows | None = None, limit: loop.GraphLimit | None = None
) -> tuple[Any, list[loop.Epoch]]:
    loop.deterministic()
    rows = rows or _rows()
    network = new_network(config, scaling_of(rows.x, config), rows)
    steps = -(-len(rows.y) // config.batch)
    batches = loop.from_memory(network, rows, config)
    return network, loop.fit(network, batches, _rows(500, 9), config, steps, limit=limit)


def test_it_learns_a_function_that_can_be_learned() -> None:
    test = _rows(2000, 5)
    network, epochs = _fitted()
    untrained = np.abs(test.y - test.y.mean()).mean()
    assert loop.mean_absolute_error(network, test, CONFIG)[0] < 0.1 * untrained
    assert [epoch.number for epoch in epochs] == list(range(40))


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    config = msgspec.structs.replace(CONFIG, epochs=2, drop_counters=0.5, dropout=0.1)
    first, second = (_fitted(config)[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = _fitted(msgspec.structs.replace(config, seed=1))[0].state_dict()
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_muon_learns_the_hidden_layers_in_fewer_passes_and_the_same_twice() -> None:
    test = _rows(2000, 5)
    config = msgspec.structs.replace(CONFIG, epochs=6)
    adam = _fitted(config)[0]
    first, second = (_fitted(msgspec.structs.replace(config, hidden_learning_rate=0.02))[0] for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    errors = [loop.mean_absolute_error(network, test, config)[0] for network in (first, adam)]
    assert errors[0] < 0.8 * errors[1]


def test_muon_does_not_move_a_frozen_layer() -> None:
    rows, config = _rows(), msgspec.structs.replace(CONFIG, epochs=1, weight_decay=0.1, hidden_learning_rate=0.02)
    network = new_network(config, scaling_of(rows.x, config), rows)
    freeze_first(network)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    loop.fit(network, loop.from_memory(network, rows, config), _rows(500, 9), config, 20)
    same = {name for name, value in network.state_dict().items() if torch.equal(value, before[name])}
    assert {"body.0.weight", "body.0.bias"} <= same
    assert not same & {"body.2.weight", "head.weight"}


def test_numbers_below_the_normal_ones_are_zero_in_a_training_only() -> None:
    tiny = torch.tensor([1e-40])

    def seen(_epoch: loop.Epoch) -> None:
        meanwhile.append(float(tiny * 2))

    meanwhile: list[float] = []
    rows, config = _rows(600), msgspec.structs.replace(CONFIG, epochs=1)
    network = new_network(config, scaling_of(rows.x, config), rows)
    loop.fit(network, loop.from_memory(network, rows, config), _rows(100, 9), config, 2, seen)
    assert meanwhile == [0.0]
    assert float(tiny * 2) > 0


def test_the_last_layer_has_a_weight_decay_of_its_own() -> None:
    plain, none, strong = (
        _fitted(msgspec.structs.replace(CONFIG, epochs=5, weight_decay=0.01, head_weight_decay=decay))[0]
        for decay in (None, 0.01, 5.0)
    )
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), none.parameters(), strict=True))
    assert strong.head.weight.norm() < 0.8 * plain.head.weight.norm()


def test_the_best_epoch_is_kept_and_patience_ends_it() -> None:
    config = msgspec.structs.replace(CONFIG, learning_rate=0.3, patience=2, epochs=40)
    network, epochs = _fitted(config)
    best = min(epoch.validation_mae[0] for epoch in epochs)
    assert loop.mean_absolute_error(network, _rows(500, 9), config)[0] == pytest.approx(best, rel=1e-5)
    assert len(epochs) < 40


def test_an_epoch_whose_graph_would_answer_otherwise_is_not_kept() -> None:
    differences = iter([1e-6, 2e-6, 3e-5, 1.4e-5])
    limit = loop.GraphLimit(lambda _network: next(differences), 1e-5)
    config = msgspec.structs.replace(CONFIG, learning_rate=0.001, epochs=4)
    network, epochs = _fitted(config, limit=limit)
    errors = [epoch.validation_mae[0] for epoch in epochs]
    assert errors == sorted(errors, reverse=True)  # every epoch is better than those before, so that all are asked
    assert [epoch.too_far for epoch in epochs] == [0, 0, 3e-5, 1.4e-5]
    assert loop.mean_absolute_error(network, _rows(500, 9), config)[0] == pytest.approx(errors[1], rel=1e-5)
    assert limit.words(epochs[:2]) == ""
    assert limit.words(epochs).startswith("2 of 4 epochs could not be kept: their exported graphs differ")
    assert "by up to 3e-05, expected at most 1e-05; raise head_weight_decay" in limit.words(epochs)


def test_a_training_of_which_no_epoch_can_be_kept_is_refused() -> None:
    limit = loop.GraphLimit(lambda _network: float("inf"), 1e-5)
    with pytest.raises(Failure, match=r"3 of 3 epochs could not be kept: .* up to inf, expected at most 1e-05; raise"):
        _fitted(msgspec.structs.replace(CONFIG, epochs=3, patience=3), limit=limit)


def test_hidden_counters_in_training_make_a_missing_counter_bearable() -> None:
    """Without the counter both have to guess, but the one that was warned guesses better."""
    rows, test = _rows(), _rows(2000, 5)
    blind = test.x.copy()
    blind[:, CONFIG.inputs.index("requests_per_s")] = np.nan
    plain, _ = _fitted(rows=rows)
    warned, _ = _fitted(msgspec.structs.replace(CONFIG, drop_counters=0.5), rows)
    errors = [np.abs(loop.predict(network, blind)[0] - test.y).mean() for network in (plain, warned)]
    assert errors[1] < 0.9 * errors[0]


def test_noise_makes_the_spread() -> None:
    network, _ = _fitted(msgspec.structs.replace(CONFIG, epochs=15), _rows(noise=8.0))
    test = _rows(3000, 5, noise=8.0)
    points, spread = loop.predict(network, test.x)
    assert np.mean(np.abs(points - test.y) <= spread) == pytest.approx(0.9, abs=0.05)
    assert spread.mean() > 1.3 * 8  # at least about the 90th percentile of a normal's absolute value, 1.645 x 8


def test_a_loss_that_is_not_finite_ends_with_advice() -> None:
    with pytest.raises(Failure, match=r"the loss of epoch \d is .*: lower learning_rate"):
        _fitted(msgspec.structs.replace(CONFIG, epochs=3, learning_rate=1e30), _rows(600))


def test_rows_that_cannot_be_trained_on_are_refused_and_odd_ones_are_named() -> None:
    rows = _rows(600)
    rows.x[:, CONFIG.inputs.index("ipc")] = 0.7
    lonely = rows._replace(load=np.full(600, 0.5, np.float32))
    told = " ".join(check_rows(lonely, CONFIG))
    assert "input 'ipc' is 0.7 in all rows" in told
    assert "service 'one' has only one load (0.5)" in told
    unknown = rows._replace(load=np.full(600, np.nan, np.float32))
    assert "only one load" not in " ".join(check_rows(unknown, CONFIG))
    with pytest.raises(InputError, match="label 'qos_reduction_pct' is missing in all 600 rows"):
        check_rows(rows._replace(y=np.full_like(rows.y, np.nan)), CONFIG)
    broken = rows._replace(y=rows.y.copy())
    broken.y[7] = np.inf
    with pytest.raises(InputError, match="label 'qos_reduction_pct' is infinite in 1 of 600 rows"):
        check_rows(broken, CONFIG)
    rows.x[3, 0] = np.nan
    paper = msgspec.structs.replace(CONFIG, variant="paper")
    with pytest.raises(
        InputError, match=r"'ipc' is missing in 1 of 600 rows, and variant paper needs it; use --variant masked"
    ):
        check_rows(rows, paper)
    rows.x[:, 0] = np.nan
    with pytest.raises(
        InputError, match=r"'ipc' is missing in 600 of 600 rows, and variant paper needs it; use --variant masked"
    ):
        check_rows(rows, paper)
    rows.x[:2, 1] = np.inf
    with pytest.raises(InputError, match=r"input '\w+' is infinite in 2 of 600 rows"):
        check_rows(rows, CONFIG)


def test_an_input_that_no_row_has_is_named_with_what_comes_of_it() -> None:
    rows = _rows(600)
    for name in ("ipc", "cores"):
        rows.x[:, CONFIG.inputs.index(name)] = np.nan
    told = check_rows(rows, CONFIG)
    assert "input 'ipc' is missing in all rows, so the model will not use it" in told
    assert any("'cores' is missing in all rows, so a node that measures it will not use this model" in w for w in told)


@pytest.mark.parametrize("hidden_learning_rate", [None, 0.02])
def test_an_input_that_was_never_measured_changes_no_answer(hidden_learning_rate: float | None) -> None:
    config = msgspec.structs.replace(CONFIG, epochs=2, hidden_learning_rate=hidden_learning_rate, drop_counters=0.5)
    rows, never = _rows(), config.inputs.index("ipc")
    rows.x[:, never] = np.nan
    network, _ = _fitted(config, rows)
    asked = torch.from_numpy(rows.x[:50])
    with torch.no_grad():
        (expected, spread), *found = [network(_told(asked, never, value)) for value in (float("nan"), 0.0, 1.0)]
    for points, width in found:
        assert torch.equal(points, expected)
        assert torch.equal(width, spread)


def _told(x: torch.Tensor, column: int, value: float) -> torch.Tensor:
    x = x.clone()
    x[:, column] = value
    return x


def test_margins_for_unknown_services_are_wider_than_their_errors() -> None:
    config = msgspec.structs.replace(CONFIG, service_folds=2, epochs=6)
    margins, errors, _ = unseen_margins(_rows(), _rows(500, 9), config)
    assert set(margins) == {"0.9", "0.95"}
    assert 0 < margins["0.9"].two_sided[0] < margins["0.95"].two_sided[0]
    assert len(errors) == 1


def test_every_row_of_the_data_set_is_read_and_a_sample_is_uniform(made: Path) -> None:
    config = msgspec.structs.replace(shipped_config("a", "masked"), rows=10**9)
    source = source_of(made, config, None)
    whole = load(source, config)
    assert len(whole.y) == sum(len(batch.y) for batch in source.batches(100, shuffle=False))
    some = load(source, config, 500)
    assert len(some.y) == 500
    assert set(np.unique(some.run)) == set(np.unique(whole.run))
    again = load(source, config, 500)
    np.testing.assert_array_equal(some.x, again.x)


def test_streaming_sees_every_row_in_every_epoch(made: Path) -> None:
    config = msgspec.structs.replace(shipped_config("a", "masked"), batch=64)
    source = source_of(made, config, None)
    rows = load(source, config)
    network = new_network(config, scaling_of(rows.x, config), rows)
    for epoch in range(2):
        seen = [y for _, y in loop.from_disk(network, source, config)(epoch)]
        assert sum(map(len, seen)) == len(rows.y) == rows.of
        assert len(seen) == -(-rows.of // 64)
    assert load(source, config, 100).of == rows.of


def test_an_anchor_holds_the_weights_near_their_start() -> None:
    def moved(anchor: float) -> float:
        config = msgspec.structs.replace(CONFIG, epochs=5, anchor=anchor)
        rows = _rows()
        network = new_network(config, scaling_of(rows.x, config), rows)
        before = [parameter.detach().clone() for parameter in network.parameters()]
        loop.fit(network, loop.from_memory(network, rows, config), _rows(500, 9), config, 20)
        after = [parameter.detach() for parameter in network.parameters()]
        return sum(float((now - then).square().sum()) for now, then in zip(after, before, strict=True))

    free, held = moved(0.0), moved(10.0)
    assert held < 0.1 * free
    assert moved(0.0) == free
