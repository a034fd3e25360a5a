"""MLflow: versions, aliases, fetching; a server that is gone loses nothing."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("osml_training")
pytest.importorskip("mlflow")
pytest.importorskip("onnx")
pytest.importorskip("torch")

import msgspec
from osml_training.cli.models.app import app
from osml_training.export.bundle import write_bundle
from osml_training.networks import LabelRange, Network, Scaling, initialise
from osml_training.registry import tracking
from osml_training.registry.versions import promote, pull, versions
from osml_training.train.config import shipped_config
from osml_training.train.loop import Epoch
from osml_training.train.train import Trained

from osml.base.failure import Failure, InputError
from osml.predictors import Margin, ModelMetadata, find_model, load_manifest, load_predictor

NAME = "osml-b2-p"
ROW = {
    "output": "qos_reduction", "split": "seen", "core_mae": 3.0, "way_mae": None, "published_core": 7.87,
    "published_way": None, "off_cliff_share": None,
}  # fmt: skip


def _trained() -> Trained:
    config = shipped_config("b2", "masked")
    count = len(config.inputs)
    scaling = Scaling(np.zeros(count, np.bool_), np.zeros(count), np.ones(count))
    labels = LabelRange(np.zeros(1), np.ones(1), np.full(1, -5.0), np.full(1, 5.0))
    network = Network(scaling, labels, hidden=(8,), dropout=0, masked=True, spread=True)
    initialise(network, 0)
    margin = {"0.9": Margin([1.0], [1.0]), "0.95": Margin([2.0], [2.0])}
    low, high = np.zeros(count), np.ones(count)
    epochs = [Epoch(k, 1.0 / (k + 1), (2.0 / (k + 1),), 10, 0.1) for k in range(3)]
    return Trained(config, network.eval(), epochs, margin, {}, [], low, high, ("p",), ("one",), [])


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, ModelMetadata, Path]:
    """A model in its folder, untrained."""
    from osml.predictors import FeatureSpec, OutputSpec

    trained = _trained()
    metadata = ModelMetadata(
        name="b2-masked-p",
        version="1",
        kind="b2",
        variant="masked",
        platforms=["p"],
        services=["one"],
        features=[FeatureSpec(name, None, 0, 1) for name in trained.config.inputs],
        outputs=[OutputSpec("qos_reduction_pct", "percent points")],
        margins=trained.margins,
        simulated=True,
        dataset_fingerprint="f" * 64,
        commit="c" * 40,
        seed=0,
        command="osml train b2",
        licence="Apache-2.0",
        training=msgspec.to_builtins(trained.config),
        metrics={"rows": [ROW], "coverage": {"0.95": 0.951}},
    )
    return trained, metadata, write_bundle(trained, metadata, tmp_path_factory.mktemp("bundle") / metadata.name)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory, bundle: tuple[Trained, ModelMetadata, Path]) -> str:
    """A database with two versions."""
    where = f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"
    for _ in range(2):
        assert tracking.track(where, *bundle) == []
    return where


def test_a_training_is_stored_with_curves_table_and_tags(uri: str) -> None:
    import mlflow

    found = versions(uri)
    assert [(row["name"], row["version"], row["aliases"]) for row in found] == [
        (NAME, "1", []),
        (NAME, "2", ["challenger"]),
    ]
    assert found[0]["platform"] == "p"
    assert found[0]["dataset_fingerprint"] == "f" * 64
    assert found[0]["metrics"]["seen.qos_reduction.core_mae"] == 3.0
    assert found[0]["metrics"]["coverage.0.95"] == 0.951
    client = mlflow.MlflowClient()
    run = client.get_model_version(NAME, "1").tags["run"]
    curve = client.get_metric_history(run, "loss")
    assert [point.value for point in curve] == [1.0, 0.5, pytest.approx(1 / 3)]
    assert client.get_run(run).data.params["config.variant"] == "masked"


def test_registered_models_are_listed_for_people(uri: str, tmp_path: Path) -> None:
    assert [(row["kind"], row["variant"]) for row in versions(uri)] == [("b2", None)] * 2
    found = CliRunner().invoke(app, ["list", "--models", str(tmp_path), "--uri", uri], catch_exceptions=False)
    assert found.exit_code == 0
    assert found.stdout.count(NAME) == 2


def test_the_kind_of_a_version_without_its_tag_is_in_the_name(
    bundle: tuple[Trained, ModelMetadata, Path], tmp_path: Path
) -> None:
    import mlflow

    where = _stored(*bundle[:2], tmp_path)
    mlflow.MlflowClient(where).delete_model_version_tag(NAME, "1", "kind")
    assert [row["kind"] for row in versions(where)] == ["b2"]


def test_the_signature_names_features_and_refuses_another_width(uri: str) -> None:
    import mlflow

    model = mlflow.pyfunc.load_model(f"models:/{NAME}@challenger")
    count = len(shipped_config("b2", "masked").inputs)
    assert set(model.predict({"features": np.zeros((2, count), np.float32)})) == {"points", "spread"}
    with pytest.raises(mlflow.exceptions.MlflowException):
        model.predict({"features": np.zeros((2, count - 1), np.float32)})


def test_promoting_moves_the_alias_and_back(uri: str) -> None:
    assert promote(uri, NAME, "challenger") == "2"
    assert promote(uri, NAME, "1") == "1"  # roll back
    assert [row["aliases"] for row in versions(uri)] == [["champion"], ["challenger"]]
    with pytest.raises(InputError, match="has no version or alias 'nobody'"):
        promote(uri, NAME, "nobody")


def test_who_only_reads_makes_no_database(tmp_path: Path) -> None:
    nowhere = f"sqlite:///{tmp_path}/none/mlflow.db"
    for read in (
        lambda: versions(nowhere),
        lambda: promote(nowhere, NAME, "1"),
        lambda: pull(nowhere, NAME, "1", tmp_path),
    ):
        with pytest.raises(InputError, match=r"database '.*' does not exist, .*; `osml learn train --track sqlite"):
            read()
    assert list(tmp_path.iterdir()) == []


def test_pulling_gives_the_same_model_with_a_manifest(
    uri: str, bundle: tuple[Trained, ModelMetadata, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    folder = pull(uri, NAME, "challenger", tmp_path).folder
    assert list(scratch.iterdir()) == []  # what was downloaded is gone
    assert (folder / "model.onnx").read_bytes() == (bundle[2] / "model.onnx").read_bytes()
    assert [entry.name for entry in load_manifest(tmp_path).models] == ["b2-masked-p"]
    assert load_predictor(folder).metadata.kind == "b2"


def _stored(trained: Trained, metadata: ModelMetadata, tmp_path: Path) -> str:
    """A database with this model; its address."""
    where = f"sqlite:///{tmp_path}/mlflow.db"
    folder = write_bundle(trained, metadata, tmp_path / f"version-{metadata.version}")
    assert tracking.track(where, trained, metadata, folder) == []
    return where


def test_the_champion_that_was_pulled_last_is_in_use(
    bundle: tuple[Trained, ModelMetadata, Path], tmp_path: Path
) -> None:
    trained, metadata, _ = bundle
    models = tmp_path / "models"
    for number in ("9", "10"):
        named = msgspec.structs.replace(metadata, name=f"b2-online-p-{number}", version=number)
        where = _stored(trained, named, tmp_path)
        pull(where, NAME, "challenger", models)
        assert find_model(models, "b2", "p").name == named.name
    back = pull(where, NAME, "1", models)
    assert back.warnings == ["'b2-online-p-9' is in use for platform p now, in the place of 'b2-online-p-10'"]
    assert find_model(models, "b2", "p").name == "b2-online-p-9"


@pytest.mark.parametrize("name", ["..", "", "a/b", "promotions"])
def test_a_name_in_the_registry_that_is_no_plain_one_is_refused(
    bundle: tuple[Trained, ModelMetadata, Path], tmp_path: Path, name: str
) -> None:
    where = _stored(bundle[0], msgspec.structs.replace(bundle[1], name=name), tmp_path)
    with pytest.raises(InputError, match="expected a plain name of a folder"):
        pull(where, NAME, "1", tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_a_version_that_osml_did_not_store_is_named(
    bundle: tuple[Trained, ModelMetadata, Path], tmp_path: Path
) -> None:
    import mlflow

    where = _stored(*bundle[:2], tmp_path)
    mlflow.MlflowClient(where).delete_model_version_tag(NAME, "1", "run")
    with pytest.raises(InputError, match="has no tag 'run'"):
        pull(where, NAME, "1", tmp_path / "models")


@pytest.mark.usefixtures("impatient_mlflow")
def test_a_server_that_is_gone_loses_nothing(bundle: tuple[Trained, ModelMetadata, Path], tmp_path: Path) -> None:
    pending = tmp_path / "pending"
    told = tracking.track("http://127.0.0.1:9", *bundle, pending=pending)
    assert len(told) == 1
    assert "store it with `osml learn models sync" in told[0]
    where = f"sqlite:///{tmp_path}/back/mlflow.db"
    assert tracking.synchronise(where, pending) == ["b2-masked-p"]
    assert [row["version"] for row in versions(where)] == ["1"]
    assert list(pending.iterdir()) == []


@pytest.mark.usefixtures("impatient_mlflow")
def test_two_runs_of_one_data_set_and_seed_are_both_kept(
    bundle: tuple[Trained, ModelMetadata, Path], tmp_path: Path
) -> None:
    trained, metadata, folder = bundle
    other, pending = Path(shutil.copytree(folder, tmp_path / "other")), tmp_path / "pending"
    onnx = pytest.importorskip("onnx")
    changed = onnx.load(str(other / "model.onnx"))
    changed.doc_string = "other weights"
    onnx.save(changed, str(other / "model.onnx"))
    for where in (folder, other):
        tracking.track("http://127.0.0.1:9", trained, metadata, where, pending=pending)
    assert len(list(pending.iterdir())) == 2


@pytest.mark.usefixtures("impatient_mlflow")
def test_a_run_that_can_not_be_read_holds_up_none_of_the_others(
    bundle: tuple[Trained, ModelMetadata, Path], tmp_path: Path
) -> None:
    pending = tmp_path / "pending"
    told = tracking.track("http://me:s3cret@127.0.0.1:9", *bundle, pending=pending)
    assert "s3cret" not in told[0]
    (good,) = pending.iterdir()
    damaged = Path(shutil.copytree(good, pending / "a-damaged-one"))
    (damaged / "metadata.json").write_bytes(b"{")
    where = f"sqlite:///{tmp_path}/mlflow.db"
    with pytest.raises(Failure, match=r"a-damaged-one can't be read and stays .*; stored: b2-masked-p"):
        tracking.synchronise(where, pending)
    assert list(pending.iterdir()) == [damaged]
    assert [row["version"] for row in versions(where)] == ["1"]


@pytest.mark.usefixtures("impatient_mlflow")
def test_a_run_that_can_not_be_kept_is_said_and_ends_no_training(
    bundle: tuple[Trained, ModelMetadata, Path], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    (told,) = tracking.track("http://127.0.0.1:9", *bundle, pending=tmp_path / "file")
    assert re.search(rf"MLflow failed .* and {re.escape(str(tmp_path / 'file'))}\S* cannot be written \(", told)
    assert str(bundle[2]) in told


@pytest.mark.parametrize("uri", ["mlruns", "file:./mlruns"])
def test_a_folder_is_no_tracking_server(uri: str) -> None:
    with pytest.raises(InputError, match="tracking URI is"), tracking.connected(uri):
        pass


def test_a_fetched_model_that_is_broken_is_not_kept(
    bundle: tuple[Trained, ModelMetadata, Path], tmp_path: Path
) -> None:
    trained, metadata, folder = bundle
    spoilt = Path(shutil.copytree(folder, tmp_path / "spoilt"))
    raw = json.loads((spoilt / "metadata.json").read_text("utf-8"))
    (spoilt / "metadata.json").write_text(json.dumps(raw | {"features": raw["features"][1:]}), "utf-8")
    where = f"sqlite:///{tmp_path}/mlflow.db"
    assert tracking.track(where, trained, metadata, spoilt) == []
    with pytest.raises((InputError, Failure), match="features differ"):
        pull(where, NAME, "1", tmp_path / "models")
    assert load_manifest(tmp_path / "models").models == []
    assert not list((tmp_path / "models").glob("*b2*"))
