"""Margins for services that nobody trained on: who learns from whom, whether they hold, new ones for a model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import msgspec
from osml_training.cli.train import app as train
from osml_training.cli.train.table import print_errors
from osml_training.evaluate.left_out import shares_of
from osml_training.train import unseen
from osml_training.train.config import Split, shipped_config
from osml_training.train.table import Rows

from osml.base.failure import Failure, InputError
from osml.datasets.store import dataset_fingerprint
from osml.predictors import find_model, load_manifest, read_metadata
from osml.predictors.manifest import verify_entry

CONFIG = msgspec.structs.replace(
    shipped_config("b2", "masked"), hidden=(8,), epochs=4, batch=256, service_folds=4, drop_counters=0.0
)
NAMES = ("a", "a~1", "b", "b~1", "c", "c~1", "d", "d~1", "e", "e~1")


def _rows(count: int, seed: int, names: tuple[str, ...] = NAMES) -> Rows:
    """Rows in the order of their services, as files give them; 20 a run; the label is one input and noise."""
    rng = np.random.default_rng(seed)
    x = np.full((count, len(CONFIG.inputs)), np.nan, np.float32)
    x[:, 0] = rng.uniform(0, 1, count)
    y = (50 * x[:, :1] + rng.normal(0, 5, (count, 1))).astype(np.float32)
    service = np.sort(rng.integers(len(names), size=count)).astype(np.int32)
    none = np.zeros(count, np.int32)
    return Rows(x, y, service, none, np.arange(count) // 20, np.zeros(count, np.float32), names, ("p",))


def test_a_group_is_answered_by_a_network_that_knows_all_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those at the end of the data set, where rows are many; and no variant of its own."""
    learned: list[Rows] = []
    new_network = unseen.new_network

    def on_progress(config: Any, scaling: Any, rows: Rows) -> Any:
        learned.append(rows)
        return new_network(config, scaling, rows)

    monkeypatch.setattr(unseen, "new_network", on_progress)
    rows = _rows(4000, 0)
    groups = unseen.groups_of(rows, _rows(500, 1), CONFIG)
    for fold in range(4):
        found = unseen.answers_without(groups, (fold,), CONFIG)
        assert found is not None
        mine = {rows.services[k] for k in np.unique(rows.service[groups.group == fold])}
        assert {rows.services[k] for k in np.unique(learned[-1].service)} == set(NAMES) - mine
        assert {rows.services[k] for k in np.unique(found.service)} == {name for name in mine if "~" not in name}
        assert len(learned[-1].y) == int((groups.group != fold).sum())


def test_variants_are_in_the_group_of_their_parent_and_the_seed_draws_the_groups() -> None:
    rows = _rows(1000, 0)
    groups = unseen.groups_of(rows, rows, CONFIG)
    for name in "abcde":
        assert len(np.unique(groups.group[np.isin(rows.service, [NAMES.index(name), NAMES.index(f"{name}~1")])])) == 1
    np.testing.assert_array_equal(groups.group, unseen.groups_of(rows, rows, CONFIG).group)


def test_many_machines_are_left_out_with_the_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as many machines as groups each is strange to one network, which is asked about it alone; of fewer none."""
    learned: list[Rows] = []
    new_network = unseen.new_network

    def on_progress(config: Any, scaling: Any, rows: Rows) -> Any:
        learned.append(rows)
        return new_network(config, scaling, rows)

    monkeypatch.setattr(unseen, "new_network", on_progress)
    rows = _rows(4000, 0)
    machine = np.random.default_rng(9).integers(5, size=4000).astype(np.int32)
    many = rows._replace(platform=machine, platforms=tuple("vwxyz"))
    groups = unseen.groups_of(many, _rows(500, 1), CONFIG)
    assert groups.machine_group is not None
    np.testing.assert_array_equal(groups.group, unseen.groups_of(rows, rows, CONFIG).group)
    asked: list[int] = []
    for fold in range(4):
        found = unseen.answers_without(groups, (fold,), CONFIG)
        assert found is not None
        strange = set(machine[groups.machine_group == fold])
        asked += strange
        assert set(learned[-1].platform) == set(range(5)) - strange
        services = groups.group == fold
        assert len(learned[-1].y) == int((~services & ~np.isin(machine, list(strange))).sum())
        assert len(found.y) == int((services & groups.real & np.isin(machine, list(strange))).sum())
    assert sorted(asked) == list(range(5))
    three = rows._replace(platform=machine % 3, platforms=tuple("vwx"))
    assert unseen.groups_of(three, rows, CONFIG).machine_group is None


def test_no_network_stops_by_a_machine_that_it_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[Rows] = []
    fit = unseen.loop.fit

    def fitting(network: Any, batches: Any, validation: Rows, *more: Any) -> Any:
        watched.append(validation)
        return fit(network, batches, validation, *more)

    monkeypatch.setattr(unseen.loop, "fit", fitting)
    rng = np.random.default_rng(9)
    rows = _rows(4000, 0)._replace(platform=rng.integers(5, size=4000).astype(np.int32), platforms=tuple("vwxyz"))
    validation = _rows(500, 1)._replace(platform=rng.integers(3, size=500).astype(np.int32), platforms=tuple("zwx"))
    groups = unseen.groups_of(rows, validation, CONFIG)
    assert groups.machine_group is not None
    for fold in range(4):
        assert unseen.answers_without(groups, (fold,), CONFIG) is not None
        strange = {rows.platforms[k] for k in np.unique(rows.platform[groups.machine_group == fold])}
        assert strange.isdisjoint(watched[-1].platforms[k] for k in np.unique(watched[-1].platform))
    only = validation._replace(platform=np.zeros(500, np.int32), platforms=("z",))
    groups = unseen.groups_of(rows, only, CONFIG)
    assert all(unseen.answers_without(groups, (fold,), CONFIG) is not None for fold in range(4))


def test_few_runs_of_a_size_of_machines_are_said() -> None:
    """The largest machine has so few runs that their largest error is no margin for 95 %."""
    config = msgspec.structs.replace(CONFIG, context=("platform_cores",), epochs=1)
    machine = np.where(np.arange(4000) % 100 == 0, 7, 0).astype(np.int32)
    machine[:8] = np.arange(8)
    x = np.zeros((4000, len(config.inputs)), np.float32)
    x[:, config.inputs.index("platform_cores")] = 4 + 4 * machine
    rows = _rows(4000, 0)._replace(x=x, platform=machine, platforms=tuple("abcdefgh"))
    validation = _rows(500, 1)._replace(x=np.zeros((500, len(config.inputs)), np.float32))
    warnings = unseen.unseen_margins(rows, validation, config)[2]
    assert any(word.startswith("services outside of the training, machines of size 4 of 4: ") for word in warnings)


def test_machines_of_every_size_have_a_band_of_their_own() -> None:
    """Eight of 4 to 32 CPUs, in no order: two in each quarter."""
    config = msgspec.structs.replace(CONFIG, context=("platform_cores",))
    cores = np.array([24, 4, 8, 32, 12, 28, 16, 20])
    machine = np.random.default_rng(7).integers(8, size=4000).astype(np.int32)
    x = np.zeros((4000, len(config.inputs)), np.float32)
    x[:, config.inputs.index("platform_cores")] = cores[machine]
    rows = _rows(4000, 0)._replace(x=x, platform=machine, platforms=tuple("abcdefgh"))
    band = unseen.groups_of(rows, _rows(500, 1), config).band
    for k, wanted in enumerate([2, 0, 0, 3, 1, 3, 1, 2]):
        assert set(band[machine == k]) == {wanted}


def test_a_label_that_no_real_service_has_gives_no_margins() -> None:
    rows = _rows(2000, 4)
    rows.y[rows.service % 2 == 0] = np.nan  # the variants alone have it
    margins, errors, (warning,) = unseen.unseen_margins(rows, _rows(500, 5), CONFIG)
    assert (margins, errors) == ({}, [])
    assert "a service that was held out lacks a label" in warning


def test_two_processes_find_the_same_margins_as_one() -> None:
    rows, validation = _rows(2000, 4), _rows(500, 5)
    alone, together = (unseen.unseen_margins(rows, validation, CONFIG, workers=count) for count in (1, 2))
    assert alone == together
    assert alone[1]


def test_margins_hold_for_a_service_that_is_like_the_others_and_not_for_one_that_is_not() -> None:
    train_rows = _rows(6000, 2)
    odd = train_rows.service == NAMES.index("e")
    train_rows.y[odd] += 60
    found = shares_of(train_rows, _rows(500, 3), CONFIG)
    assert sorted(found["services"]) == ["a", "b", "c", "d", "e"]
    assert found["services"]["e"]["0.95"] < 0.5
    assert min(found["services"][name]["0.95"] for name in "abcd") > 0.85
    assert found == shares_of(train_rows, _rows(500, 3), CONFIG)


def test_the_groups_must_be_three_at_least() -> None:
    with pytest.raises(InputError, match=r"form 2 groups, expected at least 3: collect .* service_folds \(now 2\)"):
        shares_of(_rows(500, 0), _rows(100, 1), msgspec.structs.replace(CONFIG, service_folds=2))


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(train.app, [*arguments])


def test_a_model_gets_new_margins_for_unknown_services_and_keeps_its_weights(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = shipped_config("a2", "masked")
    config = msgspec.structs.replace(own, hidden=(8,), epochs=4, batch=256, rows=4000, service_folds=2, split=Split())
    file, out = tmp_path / "config.yaml", tmp_path / "models"
    file.write_bytes(msgspec.yaml.encode(config))
    made = _run("a2", str(sweep), "--config", str(file), "--out", str(out), "--json")
    assert made.exit_code == 0, made.output
    folder = Path(json.loads(made.stdout)["folder"])
    weights, before = (folder / "model.onnx").read_bytes(), read_metadata(folder)
    wrong = {"0.95": msgspec.structs.replace(before.margins_unseen["0.95"], two_sided=[9.0] * 5)}
    spoilt = msgspec.structs.replace(before, margins_unseen=wrong)
    (folder / "metadata.json").write_bytes(msgspec.json.encode(spoilt))

    found = _run("calibrate", folder.name, "--models", str(out), "--dataset", str(sweep), "--json")
    assert found.exit_code == 0, found.output
    after = read_metadata(find_model(out, "a2", before.platforms[0]))
    assert (folder / "model.onnx").read_bytes() == weights
    assert after.margins_unseen == before.margins_unseen  # same rows, same seed
    assert (after.commit, after.margins, after.command) == (before.commit, before.margins, before.command)
    assert set(after.metrics["calibrated"]) == {"command", "commit"}
    assert after.metrics["coverage_unseen"] == json.loads(found.stdout)["coverage_unseen"]
    assert "margins for unseen ones were made after the training" in (folder / "card.md").read_text("utf-8")
    for entry in load_manifest(out).models:
        verify_entry(out, entry)

    more = _run("calibrate", folder.name, "--models", str(out), "--dataset", str(sweep), "--folds", "5")
    assert isinstance(more.exception, InputError)
    assert "--folds is 5, expected at most 2" in str(more.exception)

    with monkeypatch.context() as patch:
        patch.setattr("osml_training.jobs.calibration.unseen_margins", lambda *_, **__: ({}, [], []))
        nothing = _run("calibrate", folder.name, "--models", str(out), "--dataset", str(sweep))
    assert isinstance(nothing.exception, Failure)
    assert "stay as they are: no group of services has rows" in str(nothing.exception)
    assert read_metadata(folder).margins_unseen == after.margins_unseen

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("osml_training.jobs.calibration.evaluate", full)
    broken = _run("calibrate", folder.name, "--models", str(out), "--dataset", str(sweep))
    assert isinstance(broken.exception, OSError)
    for entry in load_manifest(out).models:  # what others load is whole
        verify_entry(out, entry)


def test_more_groups_of_services_are_other_margins(small_sweep: Callable[..., Any], tmp_path: Path) -> None:
    from osml_training.collect.collect import collect_labelled

    loads = tuple(round(0.1 + 0.05 * k, 2) for k in range(17))
    three = ("img-dnn", "moses", "xapian")
    dataset = collect_labelled(tmp_path / "set", small_sweep(services=three, loads=loads, rows=20_000, samples=1))
    config = msgspec.structs.replace(
        shipped_config("a2", "masked"), hidden=(8,), epochs=3, rows=4000, batch=256, service_folds=2, split=Split()
    )
    file, out = tmp_path / "config.yaml", tmp_path / "models"
    file.write_bytes(msgspec.yaml.encode(config))
    made = _run("a2", str(dataset), "--config", str(file), "--out", str(out), "--json")
    assert made.exit_code == 0, made.output
    folder = Path(json.loads(made.stdout)["folder"])
    before = read_metadata(folder)
    found = _run("calibrate", str(folder), "--dataset", str(dataset), "--folds", "3")
    assert found.exit_code == 0, found.output
    after = read_metadata(folder)
    assert (before.training["service_folds"], after.training["service_folds"]) == (2, 3)
    assert after.margins_unseen != before.margins_unseen
    assert after.margins == before.margins


def test_a_transferred_model_has_no_margins_for_unknown_services(sweep: Path, tmp_path: Path) -> None:
    out = tmp_path / "models"
    trained = _run("a", str(sweep), "--out", str(out), "--epochs", "1", "--rows", "2000", "--json")
    assert trained.exit_code == 0, trained.output
    moved = _run(
        "transfer",
        "--from",
        json.loads(trained.stdout)["folder"],
        "--traces",
        str(sweep),
        "--epochs",
        "1",
        "--rows",
        "2000",
        "--out",
        str(tmp_path / "moved"),
        "--json",
    )
    assert moved.exit_code == 0, moved.output
    found = _run("calibrate", json.loads(moved.stdout)["folder"], "--dataset", str(sweep), "--folds", "2")
    assert isinstance(found.exception, InputError)
    assert "is a transfer of 'a-masked-e5-2630v4', expected a model without a parent" in str(found.exception)


def test_margins_for_unknown_services_need_two_groups(
    sweep: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = msgspec.structs.replace(
        shipped_config("a2", "masked"), hidden=(8,), epochs=1, rows=2000, service_folds=0, split=Split()
    )
    file, out = tmp_path / "config.yaml", tmp_path / "models"
    file.write_bytes(msgspec.yaml.encode(config))
    trained = _run("a2", str(sweep), "--config", str(file), "--out", str(out), "--json")
    assert trained.exit_code == 0, trained.output
    folder = json.loads(trained.stdout)["folder"]
    found = _run("calibrate", folder, "--dataset", str(sweep))
    assert isinstance(found.exception, InputError)
    assert "service_folds is 0, expected at least 2 to leave groups of services out; set --folds" in str(
        found.exception
    )
    assert read_metadata(Path(folder)).margins_unseen == {}
    summed: list[Any] = []

    def sums(*given: Any) -> str:
        summed.append(given)
        return dataset_fingerprint(*given)

    monkeypatch.setattr("osml_training.jobs.calibration.dataset_fingerprint", sums)
    asked = _run("calibrate", folder, "--dataset", str(sweep), "--folds", "2")
    assert asked.exit_code == 0, asked.output
    assert set(read_metadata(Path(folder)).margins_unseen) == {"0.9", "0.95"}
    assert len(summed) == 1, "the traces are many gigabytes, and are read once"

    old = msgspec.structs.replace(read_metadata(Path(folder)), dataset_fingerprint=dataset_fingerprint(sweep))
    (Path(folder) / "metadata.json").write_bytes(msgspec.json.encode(old))
    older = _run("calibrate", folder, "--dataset", str(sweep), "--folds", "2", "--json")
    assert older.exit_code == 0, older.output
    assert "knew the traces and not the labels" in json.loads(older.stdout)["warnings"][0]


def test_only_the_data_set_of_the_training_tells_who_is_unknown(sweep: Path, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "models"
    trained = _run("a", str(sweep), "--out", str(out), "--epochs", "1", "--rows", "2000", "--json")
    assert trained.exit_code == 0, trained.output
    folder = json.loads(trained.stdout)["folder"]
    found = _run("calibrate", folder, "--dataset", str(made))
    assert isinstance(found.exception, InputError)
    assert re.search(r"fingerprint \w+\.\.\., expected \w+\.\.\., .* of the training of model", str(found.exception))
    few = _run("evaluate", "--model", folder, "--dataset", str(sweep), "--left-out")
    assert isinstance(few.exception, InputError)
    assert "groups, expected at least 3: collect more services" in str(few.exception)


def test_people_see_each_service_that_was_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    shares = {"services": {"moses": {"0.9": 0.871, "0.95": 0.932}}, "mean": {"0.9": 0.5, "0.95": 0.6}}
    shares["deviation"] = {"0.9": 0.01, "0.95": 0.02}
    print_errors({"model": "b", "version": "1", "rows": [], "left_out": shares})
    told = capsys.readouterr().out
    assert [line for line in told.splitlines() if "moses" in line and "87.1%" in line and "93.2%" in line]
    assert "60.0%" in told


def test_a_fold_whose_teachers_lack_a_label_is_not_asked() -> None:
    rows = _rows(2000, 1, ("a", "b"))
    config = msgspec.structs.replace(CONFIG, service_folds=2)
    rows.y[rows.service == 0] = np.nan  # `a` met its target nowhere
    groups = unseen.groups_of(rows, rows, config)
    fold = int(groups.group[rows.service == 1][0])
    assert unseen.answers_without(groups, [fold], config) is None
    assert unseen.answers_without(groups, [1 - fold], config) is not None
