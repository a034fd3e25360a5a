"""Model-C': its rows out of simulated nodes, and the network that learns from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from osml_training.outlook.collect import Rows, rows_of
from osml_training.outlook.table import read_outlooks, write_outlooks

from osml.base.failure import InputError
from osml.predictors.outlook import OUTLOOK_INPUTS

SEED = 50_001


def made_up(seed: int, rows: int = 200) -> Rows:
    """Rows whose level is the prior plus a tenth of the first input, and a little noise."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(rows, len(OUTLOOK_INPUTS))).astype(np.float32)
    prior = rng.normal(scale=0.3, size=rows)
    return Rows(seed, "real", "e5-2697v4", True, inputs, prior, prior + 0.1 * inputs[:, 0], rng.integers(-3, 4, rows))


def test_the_same_seed_gives_the_same_rows() -> None:
    one, other = rows_of(SEED), rows_of(SEED)
    assert len(one.level) > 100
    np.testing.assert_array_equal(one.inputs, other.inputs)
    np.testing.assert_array_equal(one.level, other.level)


def test_more_cores_never_bring_a_clearly_higher_latency() -> None:
    rows = rows_of(SEED)
    asked = rows.inputs[:, OUTLOOK_INPUTS.index("log_cpus")]
    groups = np.split(np.arange(len(rows.level)), np.flatnonzero(np.diff(asked) < 0) + 1)
    risen = [rows.level[group][-1] - rows.level[group][0] for group in groups if len(group) > 2]
    assert len(risen) > 20
    assert max(risen) < 0.1


def test_a_file_of_rows_comes_back_whole(tmp_path: Path) -> None:
    nodes = [made_up(seed) for seed in range(3)]
    assert write_outlooks(tmp_path / "rows.parquet", nodes) == 600
    found = read_outlooks([tmp_path / "rows.parquet"])
    np.testing.assert_array_equal(found.inputs, np.concatenate([node.inputs for node in nodes]))
    np.testing.assert_allclose(found.level, np.concatenate([node.level for node in nodes]))
    assert found.platforms == ("e5-2697v4",)
    assert len(read_outlooks([tmp_path / "rows.parquet"] * 2).level) == 1200


def test_other_files_and_no_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no node has a row"):
        write_outlooks(tmp_path / "rows.parquet", [made_up(0, 0)])
    other = tmp_path / "other.parquet"
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"seed": [1]}), other)
    with pytest.raises(InputError, match="osml learn data outlooks"):
        read_outlooks([other])


def test_the_network_learns_what_is_there_and_its_file_says_so(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from osml_training.outlook.job import run_outlook_job
    from osml_training.outlook.train import OutlookConfig

    from osml.predictors import load_predictor

    write_outlooks(tmp_path / "rows.parquet", [made_up(seed) for seed in range(40)])
    config = OutlookConfig(epochs=6, batch=256)
    made = run_outlook_job([tmp_path / "rows.parquet"], tmp_path / "models", config)
    by = {row["by"]: row["mae"] for row in made.document["cells"] if row["cells"] == "more cores"}
    assert by["model"] < 0.5 * by["prior"]
    assert made.document["coverage_upper"]["0.95"] > 0.9
    again = run_outlook_job([tmp_path / "rows.parquet"], tmp_path / "again", config)
    first, second = (load_predictor(one.folder).predict(made_up(99).inputs).points for one in (made, again))
    np.testing.assert_array_equal(first, second)
    assert "prior" in (made.folder / "card.md").read_text()


def test_bounds_hold_for_cells_that_are_thought_near_and_are_far_above(tmp_path: Path) -> None:
    """One cell in ten is far above its prior, and nothing tells which: 95 % of all are still below the bound."""
    pytest.importorskip("torch")
    from osml_training.outlook.train import OutlookConfig, train
    from osml_training.train.loop import predict

    def surprising(seed: int) -> Rows:
        rows = made_up(seed)
        return rows._replace(level=rows.level + 2.0 * (np.random.default_rng([seed, 1]).random(200) < 0.1))

    write_outlooks(tmp_path / "rows.parquet", [surprising(seed) for seed in range(40)])
    trained = train(read_outlooks([tmp_path / "rows.parquet"]), OutlookConfig(epochs=6, batch=256))
    write_outlooks(tmp_path / "new.parquet", [surprising(seed) for seed in range(100, 120)])
    new = read_outlooks([tmp_path / "new.parquet"])
    points, spread = predict(trained.network, new.inputs)
    bound = new.prior + points[:, 0] + spread[:, 0] * trained.margins["0.95"].upper[0]
    assert (new.level <= bound).mean() > 0.93
    safe = bound <= 0
    assert not safe.any() or (new.level[safe] > 0).mean() < 0.07
    assert trained.metrics["coverage_upper"]["0.95"] > 0.93
    assert "missed_of_safe" in trained.metrics


def test_too_few_nodes_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from osml_training.outlook.job import run_outlook_job
    from osml_training.outlook.train import OutlookConfig

    write_outlooks(tmp_path / "rows.parquet", [made_up(seed) for seed in range(4)])
    with pytest.raises(InputError, match="expected at least 10"):
        run_outlook_job([tmp_path / "rows.parquet"], tmp_path / "models", OutlookConfig())
