"""The ablation's table, and the gate that keeps what is better beyond noise."""

import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("pyarrow")
pytest.importorskip("onnx")

from osml_training.online_dqn import ablation
from osml_training.online_dqn.ablation import Champion, Row, figures, pooled, table
from osml_training.online_dqn.evaluate import Evaluation
from osml_training.rllib.comparison import welch


def evaluation(e_s, falls=0.0, downward=100.0) -> Evaluation:
    values = np.asarray(e_s, float)
    half = np.full(len(values), 0.5)
    return Evaluation(values, half, half, half, half, half, np.full(len(values), downward), np.full(len(values), falls))


def test_training_seeds_are_pooled_and_falls_count_for_ten_thousand_decisions():
    found = [evaluation([0.1, 0.3], falls=1.0), evaluation([0.2, 0.4], falls=3.0)]
    assert pooled(found, "e_s").value == pytest.approx(0.25)
    assert pooled(found, "falls_per_10000").value == pytest.approx(10_000 * 8 / 400)


def test_the_table_has_a_line_for_each_start():
    row = Row("offline", [evaluation([0.1, 0.3])], [evaluation([0.0, 0.1])])
    lines = table([row]).splitlines()
    assert len(lines) == 4
    assert lines[2].startswith("| offline | even | 0.200 [0.100, 0.300] | 50.0 [50.0, 50.0]")
    assert lines[3].startswith("| offline | A' | 0.050")
    assert len({line.count("|") for line in lines}) == 1
    assert [one["start"] for one in figures([row])] == ["even", "a2"]
    assert figures([row])[0]["e_s_by_training_seed"] == [pytest.approx(0.2)]


def test_the_gate_takes_only_what_is_better_beyond_noise(monkeypatch):
    rng = np.random.default_rng(0)
    noise = rng.normal(0, 0.05, 50)
    worths = iter(
        [
            evaluation(0.3 + noise),
            evaluation(0.3 + noise + rng.normal(-0.001, 0.05, 50)),
            evaluation(0.2 + noise),
            evaluation(0.25 + noise),
        ]
    )
    monkeypatch.setattr(ablation, "evaluate_greedy", lambda *_: next(worths))
    net = {"version": 0}  # anything that can be copied
    champion = Champion(net, "e5-2697v4")
    for version in (1, 2, 3):
        net["version"] = version
        champion.challenge(None)
    assert champion.net["version"] == 2


def test_the_interval_of_a_difference_by_hand():
    found = welch([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert found["value"] == 0
    assert found["high"] == pytest.approx(2.776 * np.sqrt(2 / 3), rel=1e-3)  # t of 4 degrees of freedom
