"""A promotion and its way back, where the power goes in the middle."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("osml_training")

from osml_training.learning import exchange

from osml.base.failure import Failure
from osml.predictors import Manifest, ManifestEntry, load_manifest


class PowerCutError(BaseException):
    """Nothing after it happens."""


def entry_of(name: str) -> ManifestEntry:
    sums = {"model.onnx": hashlib.sha256(name.encode()).hexdigest()}
    return ManifestEntry(name, "1", "c", "masked", "p", sums, "f" * 64)


def write_model(models: Path, name: str) -> None:
    (models / name).mkdir(exist_ok=True)
    (models / name / "model.onnx").write_bytes(name.encode())


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder in which `one` decides."""
    (tmp_path / "promotions").mkdir()
    write_model(tmp_path, "one")
    (tmp_path / "manifest.json").write_bytes(msgspec.json.encode(Manifest([entry_of("one")])))
    return tmp_path


def promote(models: Path, old: str, new: str) -> None:
    write_model(models, new)
    exchange.exchange(models, entry_of(new), entry_of(old), exchange.Promotion(new, "c", "p", old, "", ""))


def champion(models: Path) -> str:
    return load_manifest(models).models[0].name


def cut_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The power goes when a file of that name would be written."""
    real = exchange.write_through

    def write(file: Path, content: bytes) -> None:
        if file.name == name:
            raise PowerCutError
        real(file, content)

    monkeypatch.setattr(exchange, "write_through", write)


def test_two_promotions_are_taken_back_one_by_one(models: Path) -> None:
    first = (models / "manifest.json").read_bytes()
    promote(models, "one", "two")
    promote(models, "two", "three")
    exchange.take_back(models)
    assert champion(models) == "two"
    exchange.take_back(models)
    assert (models / "manifest.json").read_bytes() == first


@pytest.mark.parametrize("file", ["0002.manifest.json", "0002.json", "manifest.json"])
def test_a_promotion_that_a_crash_cut_off_does_not_bar_the_way_back(
    models: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    promote(models, "one", "two")
    with monkeypatch.context() as patch, pytest.raises(PowerCutError):
        cut_at(patch, file)
        promote(models, "two", "three")
    assert champion(models) == "two"
    promote(models, "two", "four")
    exchange.take_back(models)
    assert champion(models) == "two"
    while champion(models) != "one":
        exchange.take_back(models)
    assert exchange.first_replaced(models, "c", "p") is None


def test_a_rollback_that_a_crash_cut_off_is_finished_by_the_next(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    promote(models, "one", "two")
    promote(models, "two", "three")

    def cut(_file: Path, **_options: object) -> None:
        raise PowerCutError

    with monkeypatch.context() as patch, pytest.raises(PowerCutError):
        patch.setattr(Path, "unlink", cut)
        exchange.take_back(models)
    assert champion(models) == "two"
    exchange.take_back(models)
    assert champion(models) == "two"
    exchange.take_back(models)
    assert champion(models) == "one"


@pytest.mark.parametrize("old", ["one", "nobody"])
def test_only_the_model_that_was_judged_against_is_replaced(models: Path, old: str) -> None:
    before = (models / "manifest.json").read_bytes()
    write_model(models, "two")
    judged = msgspec.structs.replace(entry_of(old), sha256={"model.onnx": "0" * 64})
    with pytest.raises(Failure, match="run the command again"):
        exchange.exchange(models, entry_of("two"), judged, exchange.Promotion("two", "c", "p", old, "", ""))
    assert (models / "manifest.json").read_bytes() == before


def test_the_champion_under_another_name_is_no_new_one(models: Path) -> None:
    twin = msgspec.structs.replace(entry_of("one"), name="two")
    with pytest.raises(Failure, match="'two' is identical to 'one', so it was not promoted"):
        exchange.exchange(models, twin, entry_of("one"), exchange.Promotion("two", "c", "p", "one", "", ""))
    assert champion(models) == "one"


def test_a_record_says_what_was_replaced_by_content(models: Path) -> None:
    promote(models, "one", "two")
    record = exchange.last_promotion(models, "c", "p")
    assert (record.replaced_sha256, record.sha256) == tuple(entry_of(n).sha256["model.onnx"] for n in ("one", "two"))
    first = exchange.first_replaced(models, "c", "p")
    assert first == entry_of("one")


@pytest.mark.parametrize("nth", range(8))
def test_a_disk_that_can_not_sync_is_one_sentence_and_the_way_back_stays(
    models: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    """Whichever call it is that fails: the old champion decides or the new one, and both can be got rid of."""
    calls, real = 0, os.fsync

    def fsync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls == nth + 1:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    with monkeypatch.context() as patch, pytest.raises(Failure) as failure:
        patch.setattr(os, "fsync", fsync)
        promote(models, "one", "two")
    assert str(failure.value).count("Input/output error") == 1
    assert champion(models) in ("one", "two")
    if champion(models) == "two":
        exchange.take_back(models)
    assert champion(models) == "one"
    promote(models, "one", "three")
    exchange.take_back(models)
    assert champion(models) == "one"


@pytest.mark.parametrize("file", ["0001.json", "0001.manifest.json"])
def test_a_damaged_record_is_one_sentence_and_changes_nothing(models: Path, file: str) -> None:
    promote(models, "one", "two")
    (models / "promotions" / file).write_bytes(b"{")
    with pytest.raises(Failure, match=r"can't be read|changed since it was saved; edit .* by hand"):
        exchange.take_back(models)
    assert champion(models) == "two"
