"""Training and models from the command line to the folder of a model, on a data set of seconds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from osml_training.cli.models import app as models
from osml_training.cli.train import app as train
from osml_training.evaluate.evaluate import config_of
from osml_training.evaluate.noise_floor import label_differences, label_noise
from osml_training.evaluate.published import PAIRS, TABLE_5
from osml_training.evaluate.surfaces import Grid, missed
from osml_training.jobs import training
from osml_training.tables.example_rows import RunLabels
from osml_training.tables.features import CONTEXT, INPUTS, OUTPUTS
from osml_training.tables.runs import RunKey
from osml_training.train.config import from_nothing, shipped_config
from osml_training.train.loop import GraphLimit
from osml_training.train.table import load, source_of
from osml_training.transfer import transfer as transferring

from osml.base.failure import InputError, MachineError
from osml.datasets.label import label_file
from osml.predictors import FEATURES, PARAMETERS, find_model, load_predictor, read_metadata

PLATFORM = "e5-2630v4"


def _run(app: Any, *arguments: str) -> dict[str, Any]:
    found = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    document: dict[str, Any] = json.loads(found.stdout)
    return document


@pytest.fixture(scope="module")
def trained(sweep: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder of models with one A."""
    out = tmp_path_factory.mktemp("models")
    return out, _run(train.app, "a", str(sweep), "--out", str(out), "--epochs", "2", "--rows", "5000", "--seed", "3")


def test_every_feature_of_training_can_be_read_from_an_observation() -> None:
    names = {*CONTEXT, *(name for inputs in INPUTS.values() for name in inputs)}
    assert names <= {*FEATURES, *PARAMETERS}


def test_a_training_leaves_a_model_that_answers(trained: tuple[Path, dict[str, Any]]) -> None:
    out, document = trained
    assert {row["split"] for row in document["rows"]} == {"seen", "unseen"}
    assert {row["output"] for row in document["rows"]} == {"rcliff", "oaa"}
    assert set(document["coverage"]) == {"0.9", "0.95"}
    metadata = read_metadata(find_model(out, "a", PLATFORM))
    assert metadata.simulated
    assert metadata.services == ["img-dnn", "moses"]
    assert metadata.metrics["rows"] == document["rows"]
    card = (out / metadata.name / "card.md").read_text("utf-8")
    for word in ("not a real machine", "## Limits", metadata.dataset_fingerprint[:16], "osml train"):
        assert word in card or word == "osml train"


def test_the_same_command_gives_the_same_file(
    sweep: Path, trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out, _ = trained
    _run(train.app, "a", str(sweep), "--out", str(tmp_path), "--epochs", "2", "--rows", "5000", "--seed", "3")
    first, second = (folder / f"a-masked-{PLATFORM}" / "model.onnx" for folder in (out, tmp_path))
    assert first.read_bytes() == second.read_bytes()


def test_what_of_a_training_could_not_be_kept_is_said(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    differences = iter([0.0, 2e-5])
    limit = GraphLimit(lambda _network: next(differences), 1e-5)
    monkeypatch.setattr(training, "graph_limit", lambda _low, _high: limit)
    job = training.Job(sweep, "a", "masked", out=tmp_path, changes={"epochs": 2, "rows": 5000, "seed": 3})
    assert any(word.startswith("1 of 2 epochs could not be kept") for word in training.run_job(job).warnings)


def test_services_of_a_real_machine_are_trained_on_whatever_they_are_called(
    small_sweep: Callable[..., Any], rewrite: Callable[..., None], tmp_path: Path
) -> None:
    from osml_training.collect.collect import collect_labelled

    loads = tuple(round(0.1 + 0.05 * k, 2) for k in range(17))
    wanted = small_sweep(services=("nginx", "redis"), neighbours=("moses",), loads=loads, colocated=0, rows=8000)
    dataset = collect_labelled(tmp_path / "set", wanted)
    for file in (dataset / "traces").rglob("*.parquet"):
        rewrite(file, osml_provenance='{"kind": "real", "program": "osml data collect --live"}')
    job = training.Job(dataset, "a", "masked", out=tmp_path / "models", changes={"epochs": 1, "rows": 3000})
    metadata = read_metadata(training.run_job(job).folder)
    assert metadata.services == ["nginx", "redis"]
    assert metadata.training["split"]["unseen"] == []


@pytest.mark.parametrize("model", ["a2", "b", "b2"])
def test_the_other_models_train_too(model: str, sweep: Path, tmp_path: Path) -> None:
    arguments = ("--out", str(tmp_path), "--epochs", "1", "--rows", "3000", "--variant", "paper")
    document = _run(train.app, model, str(sweep), *arguments)
    assert {row["output"] for row in document["rows"]} == {pair[0] for pair in PAIRS[model]}
    for row in document["rows"]:
        published = getattr(TABLE_5[model, row["output"]], row["split"])
        assert (row["published_core"], row["published_way"]) == published
        assert np.isfinite(row["core_mae"])


def test_evaluation_of_a_stored_model_repeats_the_training_s(
    sweep: Path, trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out, document = trained
    name = f"a-masked-{PLATFORM}"
    picture = tmp_path / "c.png"
    found = _run(
        train.app,
        "evaluate",
        "--model",
        name,
        "--models",
        str(out),
        "--dataset",
        str(sweep),
        "--baselines",
        "--importance",
        "--plot",
        str(picture),
    )
    assert found["rows"] == document["rows"]
    assert set(found["baselines"]) == {"linear", "boosted_trees", "nearest_neighbours"}
    assert found["baselines"]["nearest_neighbours"]["bytes"] > 0
    assert set(found["importance"]) == set(load_predictor(out / name).metadata.inputs)
    assert [line["published"] for line in found["spearman"]] == [0.571, 0.499, -0.457]
    assert picture.stat().st_size > 10_000


def test_variants_of_unseen_services_tell_whether_margins_hold_for_strangers(
    small_sweep: Callable[..., Any], trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    from osml_training.collect.collect import collect_labelled

    out, document = trained
    assert "strangers" not in document
    wanted = small_sweep(services=("silo~1", "silo~2"), neighbours=("moses",), colocated=0, rows=4000)
    dataset = collect_labelled(tmp_path / "set", wanted)
    name = f"a-masked-{PLATFORM}"
    found = _run(train.app, "evaluate", "--model", name, "--models", str(out), "--dataset", str(dataset))
    assert found["rows"] == []
    strangers = found["strangers"]
    assert (strangers["services"], strangers["runs"] > 3) == (2, True)
    predictor = load_predictor(out / name)
    config = config_of(predictor)
    rows = load(source_of(dataset, config, None), config, None)
    points = predictor.predict(rows.x).points
    assert strangers["mae"]["oaa_cores"] == pytest.approx(np.abs(points - rows.y)[:, 2].mean(), rel=1e-5)
    assert 0 <= strangers["coverage"]["0.9"] <= strangers["coverage"]["0.95"] <= 1
    shown = CliRunner().invoke(
        train.app, ["evaluate", "--model", name, "--models", str(out), "--dataset", str(dataset)]
    )
    assert "2 variants of unseen services: 90% margin covers" in shown.stdout.replace("\n", " ")


def test_all_runs_of_real_traces_judge_a_model_that_never_saw_them(
    sweep: Path, trained: tuple[Path, dict[str, Any]], rewrite: Callable[..., None], tmp_path: Path
) -> None:
    dataset = tmp_path / "set"
    shutil.copytree(sweep, dataset)
    for file in dataset.rglob("*.parquet"):
        rewrite(file, osml_provenance='{"kind": "real", "program": "osml data collect --live"}')
    name = f"a-masked-{PLATFORM}"
    found = _run(train.app, "evaluate", "--model", name, "--models", str(trained[0]), "--dataset", str(dataset))
    assert {row["split"] for row in found["rows"]} == {"transfer"}
    assert set(found["by_service"]) == {"img-dnn", "moses", "silo"}
    assert (found["simulated"], trained[1]["simulated"]) == (False, True)


def _without_ways(sweep: Path, dataset: Path, rewrite: Callable[..., None]) -> Path:
    """The data set of a machine that divides no cache: neither traces nor labels know ways."""
    shutil.copytree(sweep, dataset)
    for file in (dataset / "traces").rglob("*.parquet"):
        platform = json.loads(pq.ParquetFile(file).schema_arrow.metadata[b"osml.platform"])
        platform |= {"llc_ways": None, "way_mib": None, "llc_mib": None}

        def forget(columns: dict[str, Any]) -> None:
            for name in ("ways", "cache_mib", "neighbour_ways", "neighbour_cache_mib"):
                if name in columns:
                    columns[name] = [None] * len(columns[name])

        rewrite(file, forget, osml_platform=json.dumps(platform))
        label_file(dataset, file)
    return dataset


def test_model_b_learns_on_a_machine_without_ways(sweep: Path, rewrite: Callable[..., None], tmp_path: Path) -> None:
    dataset = _without_ways(sweep, tmp_path / "set", rewrite)
    found = _run(train.app, "b", str(dataset), "--epochs", "1", "--rows", "3000", "--out", str(tmp_path / "models"))
    assert all(0 <= row["off_cliff_share"] <= 1 for row in found["rows"])
    assert found["rows"][-1]["core_mae"] is None  # nobody takes ways there
    listed = CliRunner().invoke(models.app, ["list", "--models", str(tmp_path / "models")], catch_exceptions=False)
    assert listed.exit_code == 0


def test_without_ways_the_grid_has_one_column() -> None:
    grid = Grid(np.array([[9.0], [1.0]]), 2.0, 1.0, float("nan"))
    run, none = np.full(3, 7), np.full(3, np.nan, np.float32)
    cores = np.array([1.0, 2.0, np.nan], np.float32)
    assert missed({7: grid}, run, cores, none).tolist() == [True, False, True]


def test_transfer_to_a_machine_without_ways_keeps_the_margins_of_the_parent_there(
    sweep: Path, trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    parent = trained[0] / f"a-masked-{PLATFORM}"
    dataset = tmp_path / "set"
    shutil.copytree(sweep, dataset)
    unknown = ("rcliff_ways", "oaa_ways", "oaa_bandwidth_gbps")
    for file in (dataset / "labels").rglob("*.parquet"):
        table = pq.ParquetFile(file).read()
        for name in unknown:
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), pa.nulls(len(table), table.schema.field(at).type))
        pq.write_table(table, file)
    with pytest.raises(InputError, match=r"'rcliff_ways' is missing .*: this machine divides no cache; .* transfer"):
        _run(train.app, "a", str(dataset), "--epochs", "1", "--rows", "3000", "--out", str(tmp_path))
    arguments = ("--traces", str(dataset), "--epochs", "1", "--rows", "3000", "--out", str(tmp_path))
    found = _run(train.app, "transfer", "--from", str(parent), *arguments)
    assert all(row["way_mae"] is None and np.isfinite(row["core_mae"]) for row in found["rows"])
    before, after = read_metadata(parent), read_metadata(Path(found["folder"]))
    for k, output in enumerate(before.outputs):
        same = after.margins["0.9"].two_sided[k] == before.margins["0.9"].two_sided[k]
        assert same == (output.name in unknown)


def test_transfer_keeps_the_first_layer_and_says_its_parent(
    sweep: Path, trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    from osml_training.export.load import load_network

    out, _ = trained
    parent = out / f"a-masked-{PLATFORM}"
    found = _run(
        train.app,
        "transfer",
        "--from",
        str(parent),
        "--traces",
        str(sweep),
        "--share",
        "0.5",
        "--epochs",
        "2",
        "--rows",
        "3000",
        "--out",
        str(tmp_path),
    )
    assert {row["split"] for row in found["rows"]} == {"transfer", "unseen"}
    before, after = load_network(parent), load_network(Path(found["folder"]))
    assert np.array_equal(before.linears()[0].weight.detach(), after.linears()[0].weight.detach())
    assert not np.array_equal(before.linears()[1].weight.detach(), after.linears()[1].weight.detach())
    metadata = read_metadata(Path(found["folder"]))
    assert metadata.parent == parent.name
    theirs = read_metadata(parent).margins_unseen
    assert set(metadata.margins_unseen) == set(theirs)
    for coverage, wide in metadata.margins_unseen.items():
        for k, factor in enumerate(wide.upper):
            assert factor == max(theirs[coverage].upper[k], metadata.margins[coverage].upper[k])
    how = config_of(load_predictor(Path(found["folder"])))
    assert (how.hidden_learning_rate, how.weight_decay, how.service_folds) == (None, 0.0, 0)
    assert how.learning_rate <= transferring.RATE
    assert how.anchor > 0
    again = from_nothing(how)  # who learns without the parent learns as its kind does
    shipped = shipped_config("a", "masked")
    assert (again.learning_rate, again.hidden_learning_rate, again.anchor) == (
        shipped.learning_rate,
        shipped.hidden_learning_rate,
        0.0,
    )
    assert again.split == shipped.split
    assert from_nothing(shipped) == shipped
    with pytest.raises(InputError, match=r"would replace its parent '.*'; set --name or --out"):
        CliRunner().invoke(
            train.app,
            ["transfer", "--from", str(parent), "--traces", str(sweep), "--out", str(out)],
            catch_exceptions=False,
        )


def test_the_curve_has_all_shares(sweep: Path, trained: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    found = _run(
        train.app,
        "transfer",
        "--from",
        str(trained[0] / f"a-masked-{PLATFORM}"),
        "--traces",
        str(sweep),
        "--curve",
        "--shares",
        "0.1,1",
        "--epochs",
        "1",
        "--rows",
        "2000",
        "--plot",
        str(tmp_path / "t.png"),
    )
    assert [point["share"] for point in found["curve"]] == [0.1, 1.0]
    assert found["curve"][0]["runs"] < found["curve"][1]["runs"]
    assert (tmp_path / "t.png").stat().st_size > 10_000


def test_the_curve_of_a_machine_without_ways_has_no_line_from_scratch(
    sweep: Path, trained: tuple[Path, dict[str, Any]], rewrite: Callable[..., None], tmp_path: Path
) -> None:
    dataset, picture = _without_ways(sweep, tmp_path / "set", rewrite), tmp_path / "t.png"
    arguments = [
        "transfer", "--from", str(trained[0] / f"a-masked-{PLATFORM}"), "--traces", str(dataset), "--curve",
        "--shares", "1", "--epochs", "1", "--rows", "2000", "--plot", str(picture),
    ]  # fmt: skip
    (point,) = _run(train.app, *arguments)["curve"]
    assert point["scratch"] is None
    assert point["transferred"]["core_mae"] > 0
    assert picture.stat().st_size > 5000
    shown = CliRunner().invoke(train.app, arguments, catch_exceptions=False)
    assert "from scratch" in shown.stdout


def test_list_and_show_know_the_model_and_notice_a_changed_file(
    trained: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    out = Path(shutil.copytree(trained[0], tmp_path / "m"))
    listed = _run(models.app, "list", "--models", str(out))["models"]
    assert [set(model) >= {"name", "version", "aliases", "platform", "sha256", "metrics"} for model in listed] == [True]
    assert _run(models.app, "show", listed[0]["name"], "--models", str(out))["kind"] == "a"
    (out / listed[0]["name"] / "model.onnx").write_bytes(b"")
    with pytest.raises(InputError, match="has sha256"):
        _run(models.app, "list", "--models", str(out))


@pytest.mark.parametrize("command", [("list",), ("show", "a-masked-e5-2697v4")])
def test_a_folder_of_models_that_is_not_there_is_no_empty_one(command: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none, which is no folder"):
        _run(models.app, *command, "--models", str(tmp_path / "none"))


def test_label_noise_is_the_difference_to_the_runs_without_noise(sweep: Path, tmp_path: Path) -> None:
    found = label_noise(sweep, PLATFORM, tmp_path / "twin")
    assert found["runs"] > 10
    assert 0 <= found["mae"]["rcliff_cores"] < 2
    slowed = label_noise(sweep, PLATFORM, tmp_path / "twin", "b2")
    assert list(slowed["mae"]) == ["qos_reduction_pct"]
    assert 0 < slowed["mae"]["qos_reduction_pct"] < 20
    taken = label_noise(sweep, PLATFORM, tmp_path / "twin", "b")
    assert set(taken["mae"]) <= set(OUTPUTS["b"])
    assert 0 < taken["mae"]["balanced_cores"] < 2


def _labelled(latency_ms: list[list[float]], oaa: tuple[int, int]) -> RunLabels:
    """A run with a target of 10 ms whose cores are handed out in twos."""
    row = dict.fromkeys(OUTPUTS["a"], 1.0) | {
        "core_unit": 2.0, "target_ms": 10.0, "grid_cores": len(latency_ms), "grid_ways": len(latency_ms[0]),
        "slowdowns": [0.1], "oaa_cores": 2.0 * oaa[0], "oaa_ways": oaa[1],
    }  # fmt: skip
    key = RunKey(PLATFORM, "moses", "00ff", 0.5, 4, 0)
    return RunLabels(key, row, np.array(latency_ms, np.float32).ravel(), (3, 2))


def test_label_differences_of_b_and_b2_are_those_of_hand_counted_surfaces() -> None:
    """One way, three core units: from 3 units one can be taken at 10 % of slowdown, or with the noise none."""
    clean = _labelled([[20.0, 20.0], [5.2, 5.2], [5.0, 5.0]], (3, 2))
    noisy = _labelled([[20.0, 20.0], [5.2, 5.2], [5.0, 4.0]], (3, 2))
    assert not np.nansum(label_differences("b2", clean, clean))
    found = label_differences("b2", noisy, clean)[:, 0]
    # Asked in the four cells that meet the target, (2, 1) to (3, 2). Only what starts at (3, 2) changes.
    before = [[100 * (1 - 4.0 / after), 100 * (1 - 5.0 / after)] for after in (5.0, 5.2, 5.2, 20.0, 20.0)]
    assert sorted({round(float(d), 3) for d in found if d > 0}) == sorted({round(abs(a - b), 3) for a, b in before})
    taken = label_differences("b", clean, noisy)  # from (3, 2): two CPUs and a way, or no more of anything
    assert np.nanmax(taken[:, 0]) == 2.0
    assert np.isnan(label_differences("b", noisy, clean)[-1]).all()


def test_few_runs_are_all_trained_on_and_many_keep_a_validation(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = shipped_config("a", "masked")
    few, _ = transferring._amount(sweep, config, PLATFORM, 1.0)
    assert few.split.validation == 0
    assert few.split.test == config.split.test  # what is tested stays what it is
    monkeypatch.setattr(transferring, "GENTLE_RUNS", 1)
    assert transferring._amount(sweep, config, PLATFORM, 1.0)[0] == config


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("a", "{sweep}", "--platform", "vax"), "has no traces"),
        (("evaluate", "--model", "nobody"), "model 'nobody' is neither a folder with a metadata.json nor a name in"),
        (
            ("transfer", "--from", "{model}", "--traces", "{sweep}", "--platform", "vax"),
            "but the traces have e5-2630v4",
        ),
        (("transfer", "--from", "{model}", "--traces", "{sweep}", "--share", "0"), "share is 0.0"),
        (("transfer", "--from", "{model}", "--traces", "{sweep}", "--curve", "--shares", "a,1"), "--shares is 'a,1'"),
        (("transfer", "--from", "{model}", "--traces", "{sweep}", "--plot", "t.png"), "--plot needs --curve"),
        (("evaluate", "--model", "{model}", "--plot", "c.xyz"), "--plot is 'c.xyz', expected a file that ends with"),
        (("a", "{sweep}", "--track", "mlflow.db"), "tracking URI is 'mlflow.db', expected sqlite"),
        (("a", "{sweep}", "--track", "ftp://x"), "tracking URI is 'ftp://x', expected sqlite"),
        (("a", "/nowhere"), "'/nowhere' is not a folder"),
    ],
)
def test_wrong_input_is_named(
    arguments: tuple[str, ...], text: str, sweep: Path, trained: tuple[Path, dict[str, Any]]
) -> None:
    model = trained[0] / f"a-masked-{PLATFORM}"
    filled = [part.format(sweep=sweep, model=model) for part in arguments]
    with pytest.raises(InputError, match=text):
        CliRunner().invoke(train.app, filled, catch_exceptions=False)


def test_people_see_importance_correlation_and_the_size_of_the_table(
    sweep: Path, trained: tuple[Path, dict[str, Any]]
) -> None:
    shown = CliRunner().invoke(
        train.app,
        [
            "evaluate",
            "--model",
            str(trained[0] / f"a-masked-{PLATFORM}"),
            "--dataset",
            str(sweep),
            "--importance",
            "--baselines",
        ],
        env={"COLUMNS": "200"},
    )
    assert shown.exit_code == 0, shown.output
    for told in ("when one input is shuffled", "latency_over_target", "rank correlation", "-0.457", " MB"):
        assert told in shown.stdout


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from osml_training.cli import extra as train_extra

    monkeypatch.setattr(train_extra, "find_spec", lambda name: None if name == "torch" else object())
    with pytest.raises(MachineError, match=r"needs torch: run `.*train"):
        train_extra.need()
