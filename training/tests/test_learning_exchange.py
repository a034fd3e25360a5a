"""A promotion and its way back, where the power goes in the middle."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

pytest.importorskip("osml_training")

from osml_training.learning import exchange

from osml.predictors import Manifest, ManifestEntry, load_manifest


class PowerCutError(BaseException):
    """Nothing after it happens."""


def entry_of(name: str) -> ManifestEntry:
    return ManifestEntry(name, "1", "c", "masked", "p", {"model.onnx": "0" * 64}, "f" * 64)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder in which `one` decides."""
    (tmp_path / "promotions").mkdir()
    (tmp_path / "manifest.json").write_bytes(msgspec.json.encode(Manifest([entry_of("one")])))
    return tmp_path


def promote(models: Path, old: str, new: str) -> None:
    (models / new).mkdir()
    (models / new / "model.onnx").write_bytes(b"x")
    exchange.exchange(models, entry_of(new), exchange.Promotion(new, "c", "p", old, "", ""))


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
