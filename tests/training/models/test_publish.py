"""A model takes its place as a whole, or not at all; the manifest says which one decides."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("onnx")

from osml_training.export import publish as publishing
from osml_training.export.bundle import encoded
from osml_training.export.model_folder import locked
from osml_training.export.publish import publish

from osml.base.failure import Failure, InputError
from osml.predictors import FeatureSpec, Margin, ModelMetadata, OutputSpec, find_model, load_manifest
from osml.predictors.manifest import verify_entry

replace = msgspec.structs.replace
METADATA = ModelMetadata(
    name="a-masked-p", version="1", kind="a", variant="masked", platforms=["p"], services=["one"],
    features=[FeatureSpec("ipc", None, 0, 1)], outputs=[OutputSpec("oaa_cores", "logical CPUs")], margins={},
    simulated=True, dataset_fingerprint="f" * 64, commit="c" * 40, seed=0, command="osml train a",
    licence="Apache-2.0", margins_unseen={"0.9": Margin([1.0], [1.0])},
)  # fmt: skip


def writing(weights: bytes) -> Any:
    """Writes a folder with these weights."""

    def write(metadata: ModelMetadata, folder: Path) -> None:
        (folder / "model.onnx").write_bytes(weights)
        (folder / "metadata.json").write_bytes(encoded(metadata))
        (folder / "card.md").write_text(f"# {metadata.name}\n", "utf-8")

    return write


def judged(folder: Path) -> tuple[ModelMetadata, dict[str, Any]]:
    assert (folder / "model.onnx").is_file()
    return replace(METADATA, metrics={"rows": [1]}), {"rows": [1]}


def added(models: Path, name: str, **changes: Any) -> list[str]:
    """Publish a model of that name; what is said of it."""
    return publish(writing(name.encode()), replace(METADATA, name=name, **changes), models).warnings


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder with one model that others use."""
    added(tmp_path, METADATA.name)
    return tmp_path


def names(models: Path) -> list[str]:
    return [entry.name for entry in load_manifest(models).models]


def in_use(models: Path) -> bytes:
    return (find_model(models, "a", "p") / "model.onnx").read_bytes()


def left_over(models: Path) -> list[str]:
    return sorted(path.name for path in models.iterdir() if path.name.startswith("."))


def test_a_model_is_written_evaluated_and_written_again_with_its_metrics(tmp_path: Path) -> None:
    done = publish(writing(b"new"), METADATA, tmp_path / "models", judged)
    assert (done.folder, done.document, done.warnings) == (tmp_path / "models" / METADATA.name, {"rows": [1]}, [])
    (entry,) = load_manifest(tmp_path / "models").models
    verify_entry(tmp_path / "models", entry)
    assert b'"rows"' in (done.folder / "metadata.json").read_bytes()


@pytest.mark.parametrize("error", [Failure("answers differ"), KeyboardInterrupt(), OSError(errno.ENOSPC, "full")])
@pytest.mark.parametrize("at", ["write", "evaluate"])
def test_what_fails_before_the_end_leaves_the_old_model_in_use(models: Path, error: BaseException, at: str) -> None:
    def fails(*_: Any) -> Any:
        raise error

    with pytest.raises(type(error)):
        publish(fails if at == "write" else writing(b"new"), METADATA, models, fails)
    assert in_use(models) == METADATA.name.encode()
    assert left_over(models) == []


@pytest.mark.parametrize("name", [METADATA.name, "another"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_a_manifest_that_can_not_be_written_puts_the_old_folder_back(
    models: Path, monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(publishing, "write_through", fails)
    with pytest.raises((Failure, KeyboardInterrupt)):
        publish(writing(b"new"), replace(METADATA, name=name), models)
    assert in_use(models) == METADATA.name.encode()
    assert names(models) == [METADATA.name]
    assert left_over(models) == []
    assert not (models / "another").exists()


def test_a_manifest_that_was_written_keeps_the_new_folder(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = publishing.write_through

    def late(file: Path, content: bytes) -> None:
        real(file, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(publishing, "write_through", late)
    with pytest.raises(KeyboardInterrupt):
        publish(writing(b"new"), METADATA, models)
    assert in_use(models) == b"new"


def test_a_power_cut_between_the_folders_is_mended_by_the_next(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (models / METADATA.name).rename(models / f".{METADATA.name}.old")

    def fails(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publishing, "write_through", fails)
    with pytest.raises(KeyboardInterrupt):
        publish(writing(b"new"), METADATA, models)
    assert in_use(models) == METADATA.name.encode()


@pytest.mark.parametrize("name", [METADATA.name, "another"])
def test_a_kill_between_folder_and_manifest_is_mended_by_the_next(
    models: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The new folder is in its place, the manifest still lists the files of the old one."""
    target = models / METADATA.name
    target.rename(models / f".{METADATA.name}.old")
    target.mkdir()
    writing(b"killed")(METADATA, target)

    def fails(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(publishing, "write_through", fails)
        publish(writing(b"new"), replace(METADATA, name=name), models)
    assert in_use(models) == METADATA.name.encode()
    assert left_over(models) == []


def test_a_kill_after_the_manifest_leaves_the_new_model(models: Path) -> None:
    aside = models / f".{METADATA.name}.old"
    aside.mkdir()
    writing(b"old")(METADATA, aside)
    added(models, "another")
    assert left_over(models) == []
    assert find_model(models, "a", "p").name == "another"
    (entry,) = [entry for entry in load_manifest(models).models if entry.name == METADATA.name]
    verify_entry(models, entry)


def test_the_model_that_was_added_last_decides_and_is_named(models: Path) -> None:
    assert added(models, "a-online-p-9") == [
        "'a-online-p-9' is in use for platform p now, in the place of 'a-masked-p'"
    ]
    assert added(models, "a-online-p-10") != []
    assert find_model(models, "a", "p").name == "a-online-p-10"
    assert names(models) == ["a-online-p-10", "a-online-p-9", "a-masked-p"]


def test_a_model_of_the_same_name_keeps_its_place_and_that_is_said(models: Path) -> None:
    added(models, "a-online-p-2")
    (told,) = added(models, METADATA.name, version="2")
    assert told == "'a-online-p-2' stays in use for platform p: it is listed before 'a-masked-p'"
    assert find_model(models, "a", "p").name == "a-online-p-2"
    assert load_manifest(models).models[1].version == "2"
    assert publish(writing(b"new"), METADATA, models, first=True).warnings != []
    assert names(models) == ["a-masked-p", "a-online-p-2"]


def test_models_of_other_kinds_and_platforms_stay_in_use(models: Path) -> None:
    assert added(models, "b-masked-p", kind="b") == []
    assert added(models, "a-masked-q", platforms=["q"]) == []
    assert find_model(models, "a", "p").name == METADATA.name


def test_a_model_that_takes_the_place_of_one_with_another_platform_names_it(models: Path) -> None:
    added(models, "a-any", platforms=["r", "s"])
    (told,) = added(models, "a-own", platforms=["intel-xeon-e5-2697-v4"])
    assert told.endswith("in use for platform intel-xeon-e5-2697-v4 now, in the place of 'a-any' (platform any)")
    (told,) = added(models, "a-short", platforms=["e5-2697v4"])
    assert told.endswith("in the place of 'a-own' (platform intel-xeon-e5-2697-v4)")


def test_a_model_with_the_name_of_one_of_another_platform_says_which_is_gone(models: Path) -> None:
    (told,) = added(models, METADATA.name, platforms=["q"])
    assert told == "'a-masked-p' of platform p is gone: this model has its name; use another --name"


def test_a_model_that_is_of_no_use_to_other_services_says_so(models: Path) -> None:
    (told,) = added(models, "a-own", platforms=["q"], margins_unseen={})
    assert told.startswith("'a-own' has no margins for services outside of its training, so only one are asked of it; ")
    assert added(models, "c-own", kind="c", platforms=["q"], margins_unseen={}) == []


def test_the_manifest_waits_for_who_writes_it(models: Path) -> None:
    """A promotion that is under way is not lost."""
    written = Event()

    def other() -> None:
        added(models, "another")
        written.set()

    thread = Thread(target=other)
    with locked(models):
        thread.start()
        while not left_over(models):
            assert not written.is_set()
            os.sched_yield()
        assert names(models) == [METADATA.name]
    thread.join()
    assert names(models) == ["another", METADATA.name]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", ".hidden", "promotions", "manifest.json", "a\n"])
def test_a_name_that_is_no_plain_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="expected a plain name of a folder"):
        added(tmp_path / "models", name)
    assert not (tmp_path / "models").exists()
