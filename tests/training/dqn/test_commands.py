"""Model-C from the command line: transitions, training, evaluation, the folder of a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from osml_training.cli.data import app as data
from osml_training.cli.train import app as train
from osml_training.dqn import job
from osml_training.dqn.config import read_offline_config, shipped_offline_config
from osml_training.dqn.evaluate import check_before

from osml.base.failure import InputError
from osml.predictors import find_model, load_q_function, read_metadata

PLATFORM = "e5-2630v4"
QUICK = ("--updates", "60", "--statuses", "8000", "--seed", "3")


def _run(app: Any, *arguments: str) -> dict[str, Any]:
    found = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    document: dict[str, Any] = json.loads(found.stdout)
    return document


@pytest.fixture(scope="module")
def trained(sweep: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("models")
    return out, _run(train.app, "c", str(sweep), "--out", str(out), *QUICK)


def test_a_training_leaves_a_model_that_a_node_can_load(trained: tuple[Path, dict[str, Any]]) -> None:
    out, document = trained
    rows = {(row["policy"], row["split"]): row for row in document["rows"]}
    policies = {policy for policy, _ in rows}
    assert policies == {"model", "margin 0.01", "PMU, LLC hidden", "random", "straight to OAA"}
    assert {split for _, split in rows} == {"seen", "unseen"}
    straight = rows["straight to OAA", "seen"]
    assert (straight["arrived"], straight["ended_met"], straight["cores"]) == (1.0, 1.0, 0.0)
    assert rows["model", "seen"]["could"] == straight["could"] >= rows["random", "seen"]["met"]
    opened = load_q_function(find_model(out, "c", PLATFORM))
    assert opened.metadata.services == ["img-dnn", "moses"]
    assert opened.metadata.metrics["rows"] == document["rows"]
    assert opened.metadata.simulated
    assert document["learning"]["learned_tuples"] > 0
    earned = document["learning"]["earned_by_seed"]
    assert list(earned) == sorted(earned, key=lambda seed: earned[seed], reverse=True)
    assert set(earned) == {"3", "4", "5"}
    card = (out / f"c-masked-{PLATFORM}" / "card.md").read_text()
    assert f"kept of 3 networks: the one of seed {next(iter(earned))}" in card


def test_the_same_command_gives_the_same_file(
    sweep: Path, trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    _run(train.app, "c", str(sweep), "--out", str(tmp_path), *QUICK)
    first, second = (folder / f"c-masked-{PLATFORM}" / "model.onnx" for folder in (trained[0], tmp_path))
    assert first.read_bytes() == second.read_bytes()


def test_evaluation_of_a_stored_model_repeats_the_training_s(sweep: Path, trained: tuple[Path, dict[str, Any]]) -> None:
    out, document = trained
    name = f"c-masked-{PLATFORM}"
    found = _run(train.app, "evaluate", "--model", name, "--models", str(out), "--dataset", str(sweep))
    assert found["rows"] == document["rows"]
    assert found["kind"] == "c"
    assert found["falls_refused"] == document["falls_refused"]
    with pytest.raises(InputError, match=r"--baselines, .* apply to A, A', B and B', not to Model-C"):
        _run(
            train.app,
            "evaluate",
            "--model",
            name,
            "--models",
            str(out),
            "--dataset",
            str(sweep),
            "--baselines",
        )


def test_tuples_in_a_file_train_the_same_model(
    sweep: Path, trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "tuples.parquet"
    written = _run(data.app, "transitions", str(sweep), "--out", str(file))
    assert written["tuples"] > 20 * written["statuses"] > 0
    assert written["bytes"] == file.stat().st_size
    arguments = ("--out", str(tmp_path), "--evaluate-on", str(sweep), "--updates", "60", "--seed", "3")
    document = _run(train.app, "c", str(file), *arguments)
    assert {row["split"] for row in document["rows"]} == {"seen", "unseen"}
    metadata = read_metadata(tmp_path / f"c-masked-{PLATFORM}")
    assert metadata.dataset_fingerprint != trained[1].get("dataset_fingerprint")


def test_few_real_loads_are_divided_so_that_each_part_has_one(
    small_sweep: Callable[..., Any], rewrite: Callable[..., None], tmp_path: Path
) -> None:
    from osml_training.collect.collect import collect_labelled

    wanted = small_sweep(services=("moses",), loads=(0.2, 0.35, 0.5, 0.65, 0.8), colocated=0, rows=8000)
    dataset = collect_labelled(tmp_path / "set", wanted)
    for file in dataset.rglob("*.parquet"):
        rewrite(file, osml_provenance='{"kind": "real", "program": "osml data collect --live"}')
    document = _run(train.app, "c", str(dataset), "--out", str(tmp_path / "models"), "--updates", "5")
    assert {row["split"] for row in document["rows"]} == {"seen"}
    assert not document["simulated"]
    file = tmp_path / "tuples.parquet"
    _run(data.app, "transitions", str(dataset), "--out", str(file))
    with pytest.raises(InputError, match="--evaluate-on is missing, expected the data set of 'e5-2630v4'"):
        _run(train.app, "c", str(file), "--out", str(tmp_path / "models"), "--updates", "5")


@pytest.mark.parametrize("wrong", ["unlabelled", "missing", "elsewhere", "mlruns"])
def test_what_can_not_be_evaluated_is_said_before_the_training(
    wrong: str,
    sweep: Path,
    small_sweep: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from osml_training.collect.collect import collect, collect_labelled

    def never(*_: object) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr(job, "attempts_of", never)
    options: dict[str, tuple[str, ...]] = {
        "unlabelled": (),
        "missing": ("--evaluate-on", str(tmp_path / "none")),
        "elsewhere": ("--evaluate-on", str(tmp_path / "other")),
        "mlruns": ("--track", "mlruns"),
    }
    said = {
        "unlabelled": "no labels in 'labels/'; run `osml learn data label",
        "missing": "none' is not a folder",
        "elsewhere": f"has no traces of {PLATFORM}",
        "mlruns": "tracking URI is 'mlruns'",
    }
    data_set = sweep
    if wrong == "unlabelled":
        data_set = tmp_path / "set"
        collect(data_set, small_sweep(services=("moses",), colocated=0, rows=1500))
    elif wrong == "elsewhere":
        few = {"services": ("moses",), "loads": (0.3,), "colocated": 0, "rows": 600}
        collect_labelled(tmp_path / "other", small_sweep(platforms=("e5-2697v4",), **few))
    with pytest.raises(InputError, match=said[wrong]):
        _run(train.app, "c", str(data_set), "--out", str(tmp_path / "models"), *options[wrong], *QUICK)


def test_data_of_which_all_was_taught_evaluate_nothing(sweep: Path) -> None:
    config = read_offline_config(shipped_offline_config("masked"))
    check_before([sweep], config, PLATFORM)
    taught = msgspec.structs.replace(config.split, test=0.0, validation=0.0, unseen=())
    with pytest.raises(InputError, match=f"the data sets have no held-out run of platform '{PLATFORM}'"):
        check_before([sweep], msgspec.structs.replace(config, split=taught), PLATFORM)


def test_a_training_is_tracked_with_its_loss_and_what_it_came_to(sweep: Path, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    from osml_training.registry.versions import pull, versions

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    _run(train.app, "c", str(sweep), "--out", str(tmp_path / "a"), "--track", uri, *QUICK)
    found = versions(uri)
    assert [(row["name"], row["aliases"]) for row in found] == [(f"osml-c-{PLATFORM}", ["challenger"])]
    assert 0 <= found[0]["metrics"]["seen.met"] <= 1
    folder = pull(uri, f"osml-c-{PLATFORM}", "challenger", tmp_path / "b").folder
    assert load_q_function(folder).metadata.kind == "c"
    run = mlflow.MlflowClient().get_model_version(f"osml-c-{PLATFORM}", "1").tags["run"]
    assert mlflow.MlflowClient().get_metric_history(run, "loss")
