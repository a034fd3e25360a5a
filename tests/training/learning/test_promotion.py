"""A better candidate takes the champion's place; who learns what, and what is written."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from osml_serving.models.shelf import ModelShelf
from osml_training.dqn.export import load_qnet, write_q_bundle
from osml_training.dqn.qnet import QNet
from osml_training.dqn.state import STATE
from osml_training.export.publish import publish
from osml_training.learning import candidates, promotion
from osml_training.learning import job as learning_job
from osml_training.learning.compare_candidates import Verdict
from osml_training.learning.config import LearningConfig
from osml_training.learning.job import learn
from osml_training.learning.promotion import LearnJob

from osml.base.failure import Failure
from osml.domain import Experience, Observation
from osml.experiences.outcome import StoreAwayError
from osml.experiences.store import Store
from osml.predictors import load_manifest, read_metadata

replace = msgspec.structs.replace
PLATFORM = "e5-2697v4"
CHAMPION = "c-test"


def test_the_same_seed_and_store_make_the_same_candidate(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    tmp_path: Path,
    job_of: Callable[..., LearnJob],
    config: LearningConfig,
) -> None:
    store = fill(experiences[:900])
    config = replace(config, least=100, least_blocks=2, passes=2, episodes=8, horizon=5, margin=1.0)
    sums = []
    for k in range(2):
        folder = Path(shutil.copytree(models, tmp_path / f"models-{k}"))
        document = learn(job_of(store, folder, config=config))
        if document["promoted"]:
            sums.append(hashlib.sha256((Path(document["folder"]) / "model.onnx").read_bytes()).hexdigest())
        else:
            sums.append(json.dumps([document["held_out"], document["virtual_node"]]))
    assert sums[0] == sums[1]


def test_a_blend_lies_between_champion_and_learner(champion_net: QNet) -> None:
    learned = copy.deepcopy(champion_net)
    with torch.no_grad():
        learned.head.bias += 8.0
    halfway = candidates.blended(champion_net, learned, 0.5)
    rows = torch.zeros(3, len(STATE))
    assert torch.allclose(halfway(rows), champion_net(rows) + 4.0, atol=1e-5)
    assert torch.equal(candidates.blended(champion_net, learned, 1.0)(rows), learned(rows))


def test_too_little_is_said_with_what_was_left_out(
    experiences: list[Experience], models: Path, fill: Callable[..., str], job_of: Callable[..., LearnJob]
) -> None:
    document = learn(job_of(fill(experiences[:60]), models))
    assert not document["promoted"]
    assert "usable tuples, expected at least 500" in document["reasons"][0]
    assert document["experiences"] == 60


OWN_NAME = "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz"


def with_own_name(experience: Experience) -> Experience:
    """The experience as an agent with default settings sends it."""

    def named(observation: Observation) -> Observation:
        return replace(observation, platform=replace(observation.platform, id=OWN_NAME))

    return replace(experience, before=named(experience.before), after=named(experience.after))


@pytest.mark.parametrize("asked", ["e5-2697v4", OWN_NAME])
def test_experiences_of_a_cpu_s_own_name_are_learned_from(
    asked: str,
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    job_of: Callable[..., LearnJob],
) -> None:
    store = fill([with_own_name(one) for one in experiences[:60]])
    document = learn(job_of(store, models, platform=asked))
    assert (document["experiences"], document["champion"]) == (60, "c-test")
    assert document["platform"] == "e5-2697v4", "the model's name for it, under which a promotion is noted"


def test_a_store_of_other_platforms_names_them(
    experiences: list[Experience], models: Path, fill: Callable[..., str], job_of: Callable[..., LearnJob]
) -> None:
    other = [
        replace(one, before=replace(one.before, platform=replace(one.before.platform, id="i7-8700")))
        for one in experiences[:9]
    ]
    document = learn(job_of(fill(other), models))
    assert "the store has only experiences of i7-8700" in document["reasons"][0]


def test_a_store_that_fails_at_the_first_question_is_one_sentence(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    job_of: Callable[..., LearnJob],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, closed = fill(experiences[:9]), list[None]()

    def too_slow(_store: Store, _platform: str) -> int:
        raise StoreAwayError("canceling statement due to statement timeout")

    monkeypatch.setattr(Store, "newest_id", too_slow)
    monkeypatch.setattr(Store, "close", lambda _store: closed.append(None))
    with pytest.raises(Failure, match=r"the experience store .* can't be read: canceling statement due to"):
        learn(job_of(store, models))
    assert len(closed) == 1


def test_rows_that_can_not_be_read_are_counted_among_what_was_left_out(
    experiences: list[Experience], models: Path, fill: Callable[..., str], job_of: Callable[..., LearnJob]
) -> None:
    store = fill(experiences[:60])
    with sqlite3.connect(store.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE experiences SET payload = x'00' WHERE id IN (7, 9)")
    document = learn(job_of(store, models))
    assert document["experiences"] == 58
    assert document["left_out"]["rows of the store that can't be read"] == 2


def everything_in(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def test_a_dry_run_judges_and_writes_nothing(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    tmp_path: Path,
    job_of: Callable[..., LearnJob],
) -> None:
    before = everything_in(models)
    track = tmp_path / "tracked" / "mlflow.db"
    document = learn(job_of(fill(experiences), models, dry_run=True, track=f"sqlite:///{track}"))
    assert (document["promoted"], document["better"]) == (False, True)
    assert document["held_out"]["squared_error_falls_by"]["low"] > 0
    assert everything_in(models) == before
    assert not track.parent.exists()


def test_a_champion_that_was_exchanged_under_the_same_name_is_not_replaced(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    job_of: Callable[..., LearnJob],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the candidate was judged somebody trained another champion and gave it the name of the one before."""
    real = learning_job.judge

    def meanwhile(*judged: Any) -> Verdict:
        other = load_qnet(models / CHAMPION)
        with torch.no_grad():
            other.head.bias += 1.0
        publish(partial(write_q_bundle, other), read_metadata(models / CHAMPION), models)
        return real(*judged)

    monkeypatch.setattr(learning_job, "judge", meanwhile)
    with pytest.raises(Failure, match=r"changed during the test of the candidate .*; run the command again"):
        learn(job_of(fill(experiences), models))
    (now,) = load_manifest(models).models
    assert now.name == CHAMPION
    assert not list((models / "promotions").glob("*.json"))
    assert not list(models.glob("c-online-*"))


def test_a_candidate_that_does_not_get_into_the_manifest_leaves_no_folder(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    job_of: Callable[..., LearnJob],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> Any:
        assert list(models.glob("c-online-*"))
        raise Failure("the disk is full")

    monkeypatch.setattr(promotion, "exchange", full)
    with pytest.raises(Failure, match="the disk is full"):
        learn(job_of(fill(experiences), models))
    assert not list(models.glob("c-online-*"))
    assert [entry.name for entry in load_manifest(models).models] == [CHAMPION]


def test_what_ended_a_promotion_is_said_whatever_the_manifest_has_become(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    job_of: Callable[..., LearnJob],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody can tell then whether the manifest names the folder, so it stays."""

    def stop(*_: Any) -> Any:
        (models / "manifest.json").write_bytes(b'{"models": [')
        raise KeyboardInterrupt

    monkeypatch.setattr(promotion, "exchange", stop)
    with pytest.raises(KeyboardInterrupt):
        learn(job_of(fill(experiences), models))
    assert list(models.glob("c-online-*"))


@pytest.mark.usefixtures("impatient_mlflow")
def test_no_password_is_kept_of_an_address(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    job_of: Callable[..., LearnJob],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither in the record of the promotion, nor in the model's metadata, nor in what is said."""
    store = fill(experiences)
    secret = "http://me:s3cret@127.0.0.1:9"  # noqa: S105 - that is the point
    monkeypatch.setattr("sys.argv", ["osml", "train", "c", "--online", "--store", store, "--track", secret])
    monkeypatch.setattr(promotion, "champion_version", lambda *_: None)
    monkeypatch.setattr(promotion, "register", lambda *_: "1")
    document = learn(job_of(store, models, track=secret))
    assert document["promoted"]
    assert "the alias champion did not move" in document["warnings"][0]  # nobody listens there
    kept = [content for content in everything_in(models).values() if content]
    assert any(b"me:***@127.0.0.1" in content for content in kept)
    assert not [content for content in [*kept, json.dumps(document).encode()] if b"s3cret" in content]


@pytest.mark.usefixtures("impatient_mlflow")
def test_without_mlflow_the_promotion_goes_on_and_says_so(
    experiences: list[Experience],
    models: Path,
    fill: Callable[..., str],
    job_of: Callable[..., LearnJob],
) -> None:
    pytest.importorskip("mlflow")
    document = learn(job_of(fill(experiences), models, track="http://127.0.0.1:9"))
    assert document["promoted"]
    assert "not stored in MLflow" in document["warnings"][0]
    assert load_manifest(models).models[0].name == document["candidate"]


def test_the_promoted_file_is_the_judged_network(trained: tuple[str, Path]) -> None:
    _, models = trained
    name = load_manifest(models).models[0].name
    rows = np.random.default_rng(0).uniform(0, 10, (50, len(STATE))).astype(np.float32)
    opened = ModelShelf(models)
    opened.reload()
    with torch.no_grad():
        ours = load_qnet(models / name)(torch.from_numpy(rows)).numpy()
    assert np.allclose(opened.models_of(PLATFORM).c.q(rows), ours, rtol=1e-4, atol=1e-4)
