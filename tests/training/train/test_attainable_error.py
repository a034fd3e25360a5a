"""What is reachable: limits of curves whose limit is known, and a table lookup that gets there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("onnx")

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from osml_training.cli.train import app as train
from osml_training.evaluate.attainable_error import SHARES, limit_of, nearest_curve
from osml_training.train.config import Split, shipped_config
from osml_training.train.table import Rows


@settings(deadline=None)
@given(st.floats(0, 5), st.floats(0, 50), st.sampled_from([0.2, 0.35, 0.5, 0.75]))
def test_the_limit_of_a_power_law_is_found(end: float, scale: float, exponent: float) -> None:
    amounts = [float(n) for n in (20, 40, 80, 160, 320)]
    errors = [end + scale * n**-exponent for n in amounts]
    assert limit_of(amounts, errors) == pytest.approx(end, abs=0.02 * scale + 1e-6)


def test_errors_that_do_not_fall_have_their_mean_as_limit() -> None:
    assert limit_of([10.0, 20.0, 40.0], [2.0, 2.0, 2.0]) == pytest.approx(2.0)


def _rows(runs: int, seed: int, noise: float) -> Rows:
    """One row a run; every label is its cores and noise that nobody can know."""
    rng = np.random.default_rng(seed)
    inputs = shipped_config("a", "masked").inputs
    x = np.full((runs, len(inputs)), np.nan, np.float32)
    x[:, inputs.index("cores")] = rng.uniform(1, 36, runs)
    y = np.repeat(x[:, [inputs.index("cores")]], 5, axis=1) + noise * rng.choice([-1.0, 1.0], (runs, 5))
    none = np.zeros(runs, np.int32)
    return Rows(x, y.astype(np.float32), none, none, np.arange(runs), np.zeros(runs, np.float32), ("one",), ("p",))


def test_nearest_neighbours_come_down_with_runs_and_stay_above_the_noise() -> None:
    config = shipped_config("a", "masked")
    found = nearest_curve(config, _rows(4000, 0, 1.0), _rows(400, 1, 1.0), "seen")
    errors = [point["rows"][0]["core_mae"] for point in found["curve"]]
    assert len(errors) == len(SHARES)
    # Five neighbours answer the mean of five coins: off by |coin - mean|, 1 in expectation.
    assert found["rows"][0]["core_mae"] == pytest.approx(1.0, abs=0.15)
    exact = nearest_curve(config, _rows(4000, 0, 0.0), _rows(400, 1, 0.0), "seen")
    fine = [point["rows"][0]["core_mae"] for point in exact["curve"]]
    assert fine == sorted(fine, reverse=True)
    assert exact["rows"][0]["core_mae"] < 0.05


def test_the_command_puts_it_beside_the_model(sweep: Path, tmp_path: Path) -> None:
    config = msgspec.structs.replace(
        shipped_config("a2", "masked"), epochs=2, hidden=(8,), rows=3000, service_folds=0, batch=512, split=Split()
    )
    file = tmp_path / "config.yaml"
    file.write_bytes(msgspec.yaml.encode(config))
    out = tmp_path / "models"
    made = CliRunner().invoke(train.app, ["a2", str(sweep), "--config", str(file), "--out", str(out), "--json"])
    assert made.exit_code == 0, made.output
    name = Path(json.loads(made.stdout)["folder"]).name
    asked = [
        "evaluate",
        "--model",
        name,
        "--models",
        str(out),
        "--dataset",
        str(sweep),
        "--reachable",
        "--rows",
        "3000",
    ]
    found = CliRunner().invoke(train.app, [*asked, "--json"])
    assert found.exit_code == 0, found.output
    reached = json.loads(found.stdout)["reachable"]
    assert reached["same_size"]["hidden"] == [8]
    assert reached["larger"]["hidden"] == [23]
    assert 0 < reached["train_rows"] <= 3000
    assert [row["output"] for row in reached["nearest"]["rows"]] == ["rcliff", "oaa"]
    assert all(row["core_mae"] > 0 for row in reached["larger"]["rows"])
    people = CliRunner().invoke(train.app, asked, env={"COLUMNS": "200"})
    assert "network, 8 x the weights" in people.output
