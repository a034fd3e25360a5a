"""Hours of changed nodes: the loads, the Model-C' that learns on a node, and the comparison node by node."""

from __future__ import annotations

from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from osml.lab.studies.day import run
from osml.lab.studies.day.learner import INPUTS, NodeOutlook
from osml.lab.studies.day.nodes import CHANGES_S, FIRST_SEED, feasible_nodes
from osml.lab.studies.day.report import FEWEST_NODES, by_hours, more_than_without, table, whole_runs
from osml.lab.studies.day.run import FROZEN, LEARNING, WITHOUT, hours
from osml.policies.osml.answers.models import shipped_models
from osml.predictors import Prediction, Predictor
from osml.predictors.outlook import OUTLOOK_INPUTS
from osml.simulator.variation.loads import changing_loads


class _Flat(Predictor):
    """Says nothing but the prior."""

    def __init__(self, metadata: Any) -> None:
        self.metadata = metadata

    def predict(self, features: NDArray[Any]) -> Prediction:
        nothing = np.zeros((len(features), 1), np.float32)
        return Prediction(nothing, nothing + 0.1, self.metadata)


def _flat() -> _Flat:
    model = shipped_models("e5-2697v4").c2
    assert model is not None
    return _Flat(model.metadata)


def _rows(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).uniform(-1.0, 1.0, (count, len(OUTLOOK_INPUTS))).astype(np.float32)


def test_before_a_fit_the_answers_are_the_models() -> None:
    outlook, rows = NodeOutlook(_flat()), _rows(3)
    outlook.learn(rows[0], 0.3, 1000.0)
    assert outlook.predict(rows).points.tolist() == [[0.0]] * 3


def test_a_node_on_which_the_model_errs_is_learned() -> None:
    outlook, rows = NodeOutlook(_flat()), _rows(500)
    by = OUTLOOK_INPUTS.index(INPUTS[2])
    truth = 0.2 + 0.3 * rows[:, by]
    for row, level in zip(rows, truth.tolist(), strict=True):
        outlook.learn(row, level, 1000.0)
    outlook.fit()
    assert outlook.labels == 500
    assert outlook.predict(rows).points[:, 0] == pytest.approx(truth, abs=0.05)


def test_labels_of_few_requests_count_less() -> None:
    found: list[float] = []
    for samples in (1.0, 1000.0):
        outlook, rows = NodeOutlook(_flat()), _rows(50)
        for row in rows:
            outlook.learn(row, 0.5, samples)
        outlook.fit()
        found.append(float(outlook.predict(np.zeros((1, len(OUTLOOK_INPUTS)), np.float32)).points[0, 0]))
    assert 0.0 < found[0] < found[1] < 0.5


def test_missing_inputs_are_no_obstacle() -> None:
    outlook = NodeOutlook(_flat())
    outlook.learn(np.full(len(OUTLOOK_INPUTS), np.nan, np.float32), 0.5, 1000.0)
    outlook.fit()
    assert np.isfinite(outlook.predict(_rows(1)).points).all()


def test_nodes_are_feasible_and_their_loads_change_every_few_minutes() -> None:
    first = next(feasible_nodes())
    assert first.seed >= FIRST_SEED
    assert first.jobs
    for name, load in changing_loads(first, 3600.0, CHANGES_S).items():
        times = [at for at, _ in load.changes]
        assert all(60.0 <= later - sooner <= 300.0 for sooner, later in pairwise(times))
        assert all(0.39 * first.loads[name] < level <= 0.9 for _, level in load.changes)


def test_the_same_seed_gives_the_same_hours_and_a_learner_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "REFIT", 40)
    node = next(islice(feasible_nodes(), 1))
    once = list(hours(node, LEARNING, 0, 2, hour=240))
    assert once == list(hours(node, LEARNING, 0, 2, hour=240))
    assert 0 < once[0]["labels"] < once[1]["labels"]
    assert all(0.0 <= row["missed"] <= 1.0 and 0.0 <= row["e_s"] <= 1.0 for row in once)


def _row(seed: int, contender: str, hour: int, missed: float) -> dict[str, Any]:
    return {
        "seed": seed, "noise": 0, "contender": contender, "hour": hour, "missed": missed, "e_s": missed / 2,
        "cores": 20.0, "changes": 10, "corrected": 5,
    }  # fmt: skip


def test_contenders_are_compared_on_the_same_nodes() -> None:
    rows = [_row(1, FROZEN, 0, 0.01), _row(1, WITHOUT, 0, 0.03), _row(2, FROZEN, 0, 0.02), _row(2, WITHOUT, 0, 0.02)]
    alone = _row(3, FROZEN, 0, 0.9)
    whole = whole_runs([*rows, alone], (FROZEN, WITHOUT))
    assert alone not in whole
    assert by_hours(whole, FROZEN, "missed", range(1)).value == pytest.approx(0.015)
    assert more_than_without(whole, FROZEN, "missed", range(1)).value == pytest.approx(-0.01)
    assert more_than_without(whole, WITHOUT, "e_s", range(1)).value == 0.0
    text = table(whole, 1)
    assert f"| {FROZEN} | 1 to 1 | 1.50 | " in text  # two nodes are too few for an interval
    many = [_row(seed, one, 0, 0.015) for seed in range(FEWEST_NODES) for one in (FROZEN, WITHOUT)]
    assert f"| {FROZEN} | 1 to 1 | 1.50 [1.50, 1.50]" in table(many, 1)
    assert len(text.splitlines()) == 2 + 2  # the first hours are the last ones
