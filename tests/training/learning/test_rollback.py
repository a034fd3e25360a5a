"""Promotions are taken back, byte for byte, and never over somebody else's work."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from osml_serving.models.shelf import ModelShelf
from osml_training.cli.models.app import app
from osml_training.cli.train.c_online import _rollback
from osml_training.learning import exchange as exchange_files
from osml_training.learning.config import LearningConfig
from osml_training.learning.job import learn
from osml_training.learning.promotion import LearnJob
from osml_training.learning.rollback import roll_back
from osml_training.learning.rollbacks import Rollback, taken_back_at
from typer.testing import CliRunner

from osml.base.failure import Failure, InputError
from osml.domain import Experience
from osml.predictors import load_manifest

replace = msgspec.structs.replace
PLATFORM = "e5-2697v4"
CHAMPION = "c-test"


def test_a_better_candidate_is_promoted_served_and_taken_back(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    tmp_path: Path,
    job_of: Callable[..., LearnJob],
    config: LearningConfig,
) -> None:
    pytest.importorskip("mlflow")
    from osml_training.registry.versions import versions

    track = f"sqlite:///{tmp_path}/mlflow.db"
    shelf = ModelShelf(models)
    shelf.reload()
    before = (models / "manifest.json").read_bytes()
    store = fill(experiences)
    document = learn(job_of(store, models, track=track))
    assert document["promoted"], document["reasons"]
    assert document["virtual_node"]["e_s_rises_by"]["high"] < config.margin
    name = f"c-online-{PLATFORM}-2"
    assert [entry.name for entry in load_manifest(models).models] == [name]
    assert [row["aliases"] for row in versions(track)] == [["challenger", "champion"]]
    assert shelf.changed()
    assert shelf.reload()
    assert shelf.models_of(PLATFORM).c.metadata.name == name
    assert shelf.models_of(PLATFORM).c.metadata.parent == CHAMPION

    again = learn(job_of(store, models, track=track, config=replace(config, seed=5, learning_rates=(1e-6,))))
    assert (again["promoted"], again["champion"]) == (False, name)  # nothing new was learned
    assert again["reasons"]

    assert again["virtual_node"]["e_s_rises_since_first_by"]["high"] < 0  # the untaught first one was worse

    taken = roll_back(models, "c", PLATFORM)
    assert (taken["taken_back"], taken["champion"]) == (name, CHAMPION)
    assert (models / "manifest.json").read_bytes() == before
    assert [row["aliases"] for row in versions(track)] == [[], ["challenger"]]
    assert shelf.reload()
    assert shelf.models_of(PLATFORM).c.metadata.name == CHAMPION
    with pytest.raises(InputError, match="no promotion to roll back"):
        roll_back(models, "c", PLATFORM)
    after = learn(job_of(store, models, track=track))  # the store is as it was, but what it taught is known to be bad
    assert (after["promoted"], after["tuples"]) == (False, 0)
    assert after["left_out"] == {"received before the last rollback": len(experiences)}


def test_the_command_that_is_told_after_a_promotion_takes_it_back(trained: tuple[str, Path]) -> None:
    pytest.importorskip("mlflow")
    models = trained[1]
    words = shlex.split(_rollback(models, PLATFORM))
    assert words[:3] == ["osml", "learn", "models"]
    done = CliRunner().invoke(app, words[3:], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert f"{CHAMPION} is the model of {PLATFORM} again" in done.output


def test_a_rollback_that_can_not_be_noted_takes_effect_and_says_so(trained: tuple[str, Path]) -> None:
    models = trained[1]
    (models / "promotions" / "rollbacks.json").write_text("{")
    taken = roll_back(models, "c", PLATFORM)
    assert taken["champion"] == CHAMPION
    assert "may promote the same model again" in taken["warnings"][0]


@pytest.mark.parametrize("clock_s", [0.0, 1e12])
def test_the_clock_of_the_learner_does_not_say_what_was_there_before_a_rollback(
    trained: tuple[str, Path],
    job_of: Callable[..., LearnJob],
    experiences: list[Experience],
    fill: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    clock_s: float,
) -> None:
    store, models = trained
    with monkeypatch.context() as patch:
        patch.setattr("osml_training.learning.rollback.time.time", lambda: clock_s)
        assert roll_back(models, "c", PLATFORM)["warnings"] == []
    after = learn(job_of(store, models))
    assert after["left_out"] == {"received before the last rollback": len(experiences)}
    fill([replace(one, before=replace(one.before, node="new")) for one in experiences[:30]])
    assert learn(job_of(store, models))["tuples"] > 0


def test_a_store_that_can_not_be_asked_at_a_rollback_is_said(trained: tuple[str, Path]) -> None:
    store, models = trained
    Path(store.removeprefix("sqlite:///")).unlink()
    (told,) = roll_back(models, "c", PLATFORM)["warnings"]
    assert "the clock of this machine says which experiences are older" in told
    assert taken_back_at(models, "c", PLATFORM).at_s > 0
    rollbacks = models / "promotions" / "rollbacks.json"
    rollbacks.write_text('{"c e5-2697v4": 7.5}')  # as older versions wrote it
    assert taken_back_at(models, "c", PLATFORM) == Rollback(7.5)


def test_rollback_never_undoes_the_work_of_others(trained: tuple[str, Path]) -> None:
    _, models = trained
    manifest = models / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b" ")
    with pytest.raises(Failure, match=r"changed after the promotion of .*; edit it by hand"):
        roll_back(models, "c", PLATFORM)
    with pytest.raises(InputError, match="platform other"):
        roll_back(models, "c", "other")


def test_a_promotion_that_was_cut_off_changes_nothing_and_can_be_taken_back(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    job_of: Callable[..., LearnJob],
) -> None:
    """The disk fills up just before the manifest is exchanged."""
    before = (models / "manifest.json").read_bytes()
    real = exchange_files.write_through

    def full(file: Path, content: bytes) -> None:
        if file.name == "manifest.json":
            raise Failure("disk full")
        real(file, content)

    monkeypatch.setattr(exchange_files, "write_through", full)
    with pytest.raises(Failure, match="disk full"):
        learn(job_of(fill(experiences), models))
    assert (models / "manifest.json").read_bytes() == before
    monkeypatch.undo()
    assert roll_back(models, "c", PLATFORM)["champion"] == CHAMPION
    assert (models / "manifest.json").read_bytes() == before
    assert not list((models / "promotions").glob("[0-9]*.json"))


def test_an_alias_that_somebody_moved_since_stays_where_it_is(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    tmp_path: Path,
    job_of: Callable[..., LearnJob],
) -> None:
    pytest.importorskip("mlflow")
    from osml_training.learning.champion_alias import champion_version, move_champion

    track, name = f"sqlite:///{tmp_path}/mlflow.db", f"osml-c-{PLATFORM}"
    assert learn(job_of(fill(experiences), models, track=track))["promoted"]
    move_champion(track, name, None)
    taken = roll_back(models, "c", PLATFORM)
    assert taken["champion"] == CHAMPION
    assert "is at version None, not at the rolled-back version 1" in taken["warnings"][0]
    assert champion_version(track, name) is None


def test_what_was_promoted_with_relative_addresses_is_taken_back_from_another_folder(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    job_of: Callable[..., LearnJob],
) -> None:
    pytest.importorskip("mlflow")
    from osml_training.learning.champion_alias import champion_version

    fill(experiences)
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(tmp_path)
    assert learn(job_of("sqlite:///experiences.db", models, track="sqlite:///out/mlflow.db"))["promoted"]
    monkeypatch.chdir(other)
    assert roll_back(models, "c", PLATFORM)["warnings"] == []
    assert list(other.iterdir()) == []
    assert champion_version(f"sqlite:///{tmp_path}/out/mlflow.db", f"osml-c-{PLATFORM}", create=False) is None


def test_a_database_of_mlflow_that_is_gone_is_said_and_not_made_anew(trained: tuple[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    record = trained[1] / "promotions" / "0001.json"
    gone = f"sqlite:///{tmp_path}/gone/mlflow.db"
    document = msgspec.json.decode(record.read_bytes()) | {"uri": gone, "registered": "osml-c", "version": "1"}
    record.write_bytes(msgspec.json.encode(document))
    (told,) = roll_back(trained[1], "c", PLATFORM)["warnings"]
    assert "the alias champion did not move back (database" in told
    assert not (tmp_path / "gone").exists()


def test_the_password_that_is_not_kept_is_asked_for(trained: tuple[str, Path]) -> None:
    record = trained[1] / "promotions" / "0001.json"
    document = msgspec.json.decode(record.read_bytes())
    changed = document | {"uri": "http://me:***@mlflow.example", "registered": "osml-c", "version": "1"}
    record.write_bytes(msgspec.json.encode(changed))
    taken = roll_back(trained[1], "c", PLATFORM)
    assert taken["champion"] == CHAMPION
    assert taken["warnings"] == [
        "the alias champion did not move back: the password of http://me:***@mlflow.example is not stored; "
        "give it with --track"
    ]


def test_nobody_is_given_the_place_back_who_is_not_who_it_was(trained: tuple[str, Path]) -> None:
    models = trained[1]
    now = (models / "manifest.json").read_bytes()
    (models / CHAMPION / "model.onnx").write_bytes(b"something else")
    with pytest.raises(Failure, match=f"'{CHAMPION}' cannot replace it: .*has sha256"):
        roll_back(models, "c", PLATFORM)
    assert (models / "manifest.json").read_bytes() == now
    assert (models / "promotions" / "0001.json").is_file()
