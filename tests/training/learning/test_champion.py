"""Who learns, from which file of tuples, and whom the registry names: never by chance another one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from osml_training.dqn.export import load_qnet, write_q_bundle
from osml_training.dqn.qnet import QNet
from osml_training.dqn.state import STATE
from osml_training.dqn.transitions import Tuples
from osml_training.export.bundle import entry_of
from osml_training.learning import champion
from osml_training.learning.champion import load_champion, read_offline
from osml_training.learning.champion_alias import champion_version, move_champion
from osml_training.learning.job import _fingerprint, learn
from osml_training.learning.promotion import LearnJob
from osml_training.tables.runs import RunKey

from osml.base.failure import Failure, InputError
from osml.predictors import FeatureSpec, Manifest, load_manifest, read_metadata

CHAMPION = "c-test"
PLATFORM = "e5-2697v4"


def with_inputs(net: QNet, models: Path, names: tuple[str, ...], folder: Path) -> Path:
    """The champion with other names of its inputs."""
    features = [FeatureSpec(name, None, 0.0, 10.0) for name in names]
    metadata = msgspec.structs.replace(read_metadata(models / CHAMPION), features=features)
    return write_q_bundle(net, metadata, folder)


def test_a_champion_with_its_inputs_in_another_order_is_the_same_function_of_them(
    champion_net: QNet, models: Path, tmp_path: Path
) -> None:
    names = STATE[::-1]
    places = [STATE.index(name) for name in names]
    folder = with_inputs(champion._reordered(champion_net, places), models, names, tmp_path / "other")
    rows = np.random.default_rng(0).uniform(0, 10, (50, len(STATE))).astype(np.float32)
    rows[::3, 4] = np.nan
    asked = torch.from_numpy(rows)
    found, metadata = load_champion(folder)
    with torch.no_grad():
        wanted = champion_net(asked)
        assert torch.allclose(load_qnet(folder)(asked[:, places]), wanted, atol=1e-5)
        assert torch.allclose(found(asked), wanted, atol=1e-5)
    assert metadata.inputs == STATE


def test_a_champion_with_other_inputs_is_refused(champion_net: QNet, models: Path, tmp_path: Path) -> None:
    folder = with_inputs(champion_net, models, ("threads", *STATE[1:]), tmp_path / "other")
    with pytest.raises(InputError, match=f"input '{STATE[0]}' is missing, expected the inputs"):
        load_champion(folder)


def test_a_first_champion_with_other_inputs_stops_no_learning(
    trained: tuple[str, Path], champion_net: QNet, tmp_path: Path, job_of: Callable[..., LearnJob]
) -> None:
    """It was there before an upgrade changed the inputs. The champion is fine."""
    store, models = trained
    folder = with_inputs(champion_net, models, ("threads", *STATE[1:]), tmp_path / "other")
    shutil.rmtree(models / CHAMPION)
    shutil.copytree(folder, models / CHAMPION)
    kept = models / "promotions" / "0001.manifest.json"
    entry = entry_of(models / CHAMPION, read_metadata(models / CHAMPION))
    kept.write_bytes(msgspec.json.encode(Manifest([entry])))
    (warning,) = learn(job_of(store, models, dry_run=True))["warnings"]
    assert warning.startswith("the candidate was not compared with the first champion (")
    assert f"input '{STATE[0]}' is missing" in warning


@pytest.mark.parametrize(("platform", "fits"), [("e5-2630v4", False), (PLATFORM, True), ("E5 2697 v4", True)])
def test_tuples_of_another_platform_are_not_mixed_in(
    monkeypatch: pytest.MonkeyPatch, platform: str, fits: bool
) -> None:
    made: Any = SimpleNamespace(runs=(RunKey(platform, "moses", "r", 0.5, 1, 0),))
    monkeypatch.setattr(champion, "read_transitions", lambda _file: made)
    if fits:
        assert read_offline(Path("t.parquet"), PLATFORM) is made
        return
    with pytest.raises(InputError, match=r"--offline t\.parquet has tuples of platform e5-2630v4, expected e5-2697v4"):
        read_offline(Path("t.parquet"), PLATFORM)


def test_the_card_of_a_promoted_model_says_what_it_learned_from_and_how_it_was_judged(
    trained: tuple[str, Path],
) -> None:
    models = trained[1]
    name = load_manifest(models).models[0].name
    told = (models / name / "card.md").read_text("utf-8")
    online = read_metadata(models / name).metrics["online"]
    assert f"It goes on from `{CHAMPION}`" in told
    assert f"{online['learned_tuples']:,} tuples of experiences" in told
    assert "E_S on the virtual node (simulated)" in told
    assert "It took the place of the champion" in told
    assert "Not evaluated" not in told


def test_tuples_of_a_file_are_part_of_the_fingerprint() -> None:
    one = Tuples(*(np.zeros(3) for _ in range(5)))  # pyright: ignore[reportArgumentType]
    other = Tuples(*(np.ones(3) for _ in range(5)))  # pyright: ignore[reportArgumentType]
    assert len({_fingerprint(one, None), _fingerprint(one, other), _fingerprint(one, one)}) == 3


def test_a_registry_that_fails_is_none_without_a_champion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback would take the alias away."""
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    assert champion_version(uri, "osml-c-p") is None
    mlflow.MlflowClient(uri).create_registered_model("osml-c-p")
    assert champion_version(uri, "osml-c-p") is None
    move_champion(uri, "osml-c-p", None)  # nothing to do

    def broken(*_: Any) -> Any:
        raise mlflow.exceptions.MlflowException("the connection was closed")

    monkeypatch.setattr(mlflow.MlflowClient, "get_registered_model", broken)
    for ask in (lambda: champion_version(uri, "osml-c-p"), lambda: move_champion(uri, "osml-c-p", None)):
        with pytest.raises(Failure, match="the connection was closed"):
            ask()
