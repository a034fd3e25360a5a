"""From the experience store to a promoted Model-C, and back."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest

pytest.importorskip("osml_training")
pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("sqlalchemy")
pytest.importorskip("osml_serving")

import torch
from osml_serving.experience_store.address import open_engine, store_url
from osml_serving.experience_store.store import Store
from osml_serving.model_shelf import ModelShelf
from osml_training.dqn.export import load_qnet, write_q_bundle
from osml_training.dqn.qnet import QNet
from osml_training.dqn.rewards import Reward
from osml_training.dqn.state import STATE
from osml_training.export.bundle import add_to_manifest, entry_of
from osml_training.learning import candidates
from osml_training.learning import exchange as exchange_files
from osml_training.learning import job as learning_job
from osml_training.learning.config import LearningConfig
from osml_training.learning.job import LearnJob, learn, roll_back
from osml_training.learning.judgement import HeldOut, Virtual, judge
from osml_training.learning.recorded import recorded
from osml_training.learning.trial import explore
from osml_training.train.scaling import scaling_by

from osml.bench.report.statistics import Estimate
from osml.domain import Experience, Latency, Outcome
from osml.failure import Failure, InputError
from osml.predictors import FeatureSpec, ModelMetadata, OutputSpec, load_manifest
from osml.predictors.actions import ACTION_NAMES, N_ACTIONS

PLATFORM = "e5-2697v4"
CHAMPION = "c-test"
replace = msgspec.structs.replace


@pytest.fixture(scope="session")
def experiences() -> list[Experience]:
    """40 minutes of three nodes."""
    mixes = ("moses=0.4,img-dnn=0.5,be:stream", "xapian=0.5,moses=0.3,be:stream", "masstree=0.4,sphinx=0.4,be:stream")
    nodes = [explore(mix, PLATFORM, 800, seed, f"node-{seed}") for seed, mix in enumerate(mixes)]
    return [experience for together in zip(*nodes, strict=True) for experience in together]  # as they come in


@pytest.fixture(scope="session")
def champion_net(experiences: list[Experience]) -> QNet:
    """A network that knows the scales of the inputs and nothing else."""
    states = recorded(experiences, STATE, Reward()).tuples.before
    return QNet(scaling_by(states, STATE, masked=True), seed=1).eval()


@pytest.fixture
def models(tmp_path: Path, champion_net: QNet) -> Path:
    """A folder of models with that champion."""
    folder = tmp_path / "models"
    metadata = ModelMetadata(
        name=CHAMPION, version="1", kind="c", variant="masked", platforms=[PLATFORM], services=["moses"],
        features=[FeatureSpec(name, None, 0.0, 10.0) for name in STATE],
        outputs=[OutputSpec(action, None) for action in ACTION_NAMES], margins={}, simulated=True,
        dataset_fingerprint="f" * 64, commit="c" * 40, seed=1, command="osml train c", licence="Apache-2.0",
        training={"reward": {"kind": "entropy", "price": 0.1, "cliff": 0.2}, "gamma": 0.9}, metrics={"rows": []},
    )  # fmt: skip
    write_q_bundle(champion_net, metadata, folder / CHAMPION)
    add_to_manifest(folder, entry_of(folder / CHAMPION, metadata))
    return folder


@pytest.fixture
def fill(tmp_path: Path) -> Callable[..., str]:
    """Put experiences into a store; returns its address."""

    def put(experiences: list[Experience]) -> str:
        url = f"sqlite:///{tmp_path}/experiences.db"
        store = Store(open_engine(store_url(url), writes=True))
        for first in range(0, len(experiences), 200):
            store.add(experiences[first : first + 200])
        store.close()
        return url

    return put


CONFIG = LearningConfig(episodes=48, horizon=40, passes=10, learning_rates=(1e-3,), blends=(1.0,))


def job_of(store: str, models: Path, **more: Any) -> LearnJob:
    return LearnJob(store=store, platform=PLATFORM, models=models, **({"config": CONFIG} | more))


# -- tuples out of experiences -------------------------------------------------------------------------------------


def test_a_tuple_is_what_happened_to_one_service(experiences: list[Experience]) -> None:
    def moves(e: Experience) -> bool:
        old, new = e.before.partition, e.decision.partition
        return old is not None and 0 < abs(new.cores_of("moses") - old.cores_of("moses")) < 3

    experience = next(
        e for e in experiences
        if moves(e) and all(s.latency_ms for o in (e.before, e.after) for s in o.services if s.name == "moses")
    )  # fmt: skip
    found = recorded([experience], STATE, Reward(price=0.1))
    place = [s.name for s in experience.before.services if s.kind == "lc"].index("moses")
    old, new = experience.before.partition, experience.decision.partition
    moved = new.cores_of("moses") - old.cores_of("moses"), new.ways_of("moses") - old.ways_of("moses")
    assert ACTION_NAMES[int(found.tuples.action[place])] == ACTION_NAMES[7 * (moved[0] + 3) + moved[1] + 3]
    cores = STATE.index("cores")
    assert found.tuples.before[place, cores] == old.cores_of("moses")
    assert found.tuples.after[place, cores] == new.cores_of("moses")

    def q(observation: Any) -> float:
        service = next(s for s in observation.services if s.name == "moses")
        return max(0.0, 1 - service.target_ms / service.latency_ms)

    share = 0.5 * (moved[0] / 36 + moved[1] / 20)
    expected = q(experience.before) - q(experience.after) - 0.1 * share
    assert found.tuples.reward[place] == pytest.approx(expected, abs=1e-5)
    free = 36 - sum(region.cores for region in new.regions if region.owners != ["stream"])
    gives_three = 7 * 6 + 3
    assert found.tuples.legal_after[place, gives_three] == (free >= 3)


def _after(e: Experience, **changes: Any) -> Experience:
    return replace(e, after=replace(e.after, **changes))


def _first(e: Experience, **changes: Any) -> Experience:
    """Change the first LC service of the observation after."""
    return _after(e, services=[replace(e.after.services[0], **changes), *e.after.services[1:]])


USELESS: dict[str, tuple[Callable[[Experience], Experience], str]] = {
    "refused": (lambda e: _after(e, outcome=Outcome(seq=e.decision.seq, status="refused")), "not carried out"),
    "no outcome": (lambda e: _after(e, outcome=None), "not carried out"),
    "dry run": (lambda e: _after(e, outcome=Outcome(seq=e.decision.seq, status="dry_run")), "not carried out"),
    "undone": (lambda e: _after(e, partition=e.before.partition), "allocation after it"),
    "nothing before": (lambda e: replace(e, before=replace(e.before, partition=None)), "before it are not known"),
    "no latency": (lambda e: _first(e, latency=None), "latency is missing"),
    "new target": (lambda e: _first(e, target_ms=1.0), "target changed"),
    "gone": (lambda e: _after(e, services=e.after.services[1:]), "service vanished"),
    "absurd latency": (lambda e: _first(e, latency=Latency(mean_ms=1.0, p99_ms=1e20)), "beyond what a machine has"),
    "absurd counters": (
        lambda e: _first(e, counters=replace(e.after.services[0].counters, bandwidth_gbps=1e6)), "bandwidth_gbps",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USELESS)
def test_what_teaches_nothing_true_is_left_out(experiences: list[Experience], name: str) -> None:
    spoil, words = USELESS[name]
    good = next(
        e for e in experiences[30:]
        if recorded([e], STATE, Reward()).left_out == {} and e.before.partition != e.decision.partition
    )  # fmt: skip
    found = recorded([spoil(good)], STATE, Reward())
    assert any(words in why for why in found.left_out), found.left_out
    assert len(found.block) < 2


def test_a_jump_is_none_of_the_49_actions(experiences: list[Experience]) -> None:
    found = recorded(experiences, STATE, Reward())
    assert found.left_out["moved by more than 3"] > 0
    assert len(found.block) + sum(found.left_out.values()) >= len(experiences)


# -- promotion -----------------------------------------------------------------------------------------------------


def test_a_better_candidate_is_promoted_served_and_taken_back(
    experiences: list[Experience], models: Path, fill: Callable[..., str], tmp_path: Path
) -> None:
    pytest.importorskip("mlflow")
    from osml_training.registry.versions import versions

    track = f"sqlite:///{tmp_path}/mlflow.db"
    shelf = ModelShelf(models)
    shelf.reload()
    before = (models / "manifest.json").read_bytes()
    store = fill(experiences)
    document = learn(job_of(store, models, track=track))
    assert document["promoted"], document
    assert document["virtual_node"]["e_s_rises_by"]["high"] < CONFIG.margin
    name = f"c-online-{PLATFORM}-2"
    assert [entry.name for entry in load_manifest(models).models] == [name]
    assert [row["aliases"] for row in versions(track)] == [["challenger", "champion"]]
    assert shelf.changed()
    assert shelf.reload()
    assert shelf.models_of(PLATFORM).c.metadata.name == name
    assert shelf.models_of(PLATFORM).c.metadata.parent == CHAMPION

    again = learn(job_of(store, models, track=track, config=replace(CONFIG, seed=5, learning_rates=(1e-6,))))
    assert (again["promoted"], again["champion"]) == (False, name)  # nothing new was learned
    assert again["reasons"]

    assert again["virtual_node"]["e_s_rises_since_first_by"]["high"] < 0  # the untaught first one was worse

    taken = roll_back(models, "c", PLATFORM)
    assert (taken["taken_back"], taken["champion"]) == (name, CHAMPION)
    assert (models / "manifest.json").read_bytes() == before
    assert [row["aliases"] for row in versions(track)] == [[], ["challenger"]]
    assert shelf.reload()
    assert shelf.models_of(PLATFORM).c.metadata.name == CHAMPION
    with pytest.raises(InputError, match="no promotion to take back"):
        roll_back(models, "c", PLATFORM)
    after = learn(job_of(store, models, track=track))  # the store is as it was, but what it taught is known to be bad
    assert (after["promoted"], after["tuples"]) == (False, 0)
    assert after["left_out"] == {"received before the last rollback": len(experiences)}


def test_a_rollback_that_can_not_be_noted_takes_effect_and_says_so(trained: tuple[str, Path]) -> None:
    models = trained[1]
    (models / "promotions" / "rollbacks.json").write_text("{")
    taken = roll_back(models, "c", PLATFORM)
    assert taken["champion"] == CHAMPION
    assert "may learn the same" in taken["warnings"][0]


def test_the_same_seed_and_store_make_the_same_candidate(
    experiences: list[Experience], models: Path, fill: Callable[..., str], tmp_path: Path
) -> None:
    store = fill(experiences[:900])
    config = replace(CONFIG, least=100, least_blocks=2, passes=2, episodes=8, horizon=5, margin=1.0)
    sums = []
    for k in range(2):
        folder = Path(shutil.copytree(models, tmp_path / f"models-{k}"))
        document = learn(job_of(store, folder, config=config))
        if document["promoted"]:
            sums.append(hashlib.sha256((Path(document["folder"]) / "model.onnx").read_bytes()).hexdigest())
        else:
            sums.append(json.dumps([document["held_out"], document["virtual_node"]]))
    assert sums[0] == sums[1]


def spoil_with(monkeypatch: pytest.MonkeyPatch, change: Callable[[QNet], None]) -> None:
    """Make learning come out wrong."""
    real = candidates.continue_online

    def wrong(*args: Any, **options: Any) -> QNet:
        net = real(*args, **options)
        with torch.no_grad():
            change(net)
        return net

    monkeypatch.setattr(candidates, "continue_online", wrong)


def _takes_all(net: QNet) -> None:
    """Every action that takes is worth a lot: services starve."""
    taking = [k for k in range(N_ACTIONS) if k // 7 < 3 and k % 7 < 3]
    net.head.bias[taking] += 50.0


@pytest.fixture
def trained(experiences: list[Experience], models: Path, fill: Callable[..., str]) -> tuple[str, Path]:
    """A store, and models whose champion has learned from it."""
    store = fill(experiences)
    assert learn(job_of(store, models))["promoted"]
    return store, models


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda net: net.head.weight.fill_(float("nan")), "finite|differ"),
        (lambda net: net.body[0].weight.mul_(1e38).mul_(1e38), "finite|differ"),
    ],
)
def test_weights_that_are_no_numbers_are_never_served(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, change: Callable[[QNet], None], words: str
) -> None:
    store, models = trained
    before = (models / "manifest.json").read_bytes()
    folders = sorted(path.name for path in models.iterdir())
    spoil_with(monkeypatch, change)
    try:
        document = learn(job_of(store, models))
        assert not document["promoted"], document
    except Failure as failure:
        assert any(word in str(failure) for word in words.split("|")), failure
    assert (models / "manifest.json").read_bytes() == before
    assert sorted(path.name for path in models.iterdir()) == folders


def test_a_candidate_with_a_worse_e_s_is_refused_and_says_so(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, models = trained
    before = (models / "manifest.json").read_bytes()
    spoil_with(monkeypatch, _takes_all)
    document = learn(job_of(store, models))
    assert not document["promoted"]
    assert any("E_S on the virtual node may rise" in reason for reason in document["reasons"]), document["reasons"]
    assert (models / "manifest.json").read_bytes() == before


def test_small_losses_do_not_add_up() -> None:
    even, better_q = Estimate(0.0, -0.001, 0.001, 50), Estimate(0.1, 0.05, 0.15, 50)
    nothing = Estimate(float("nan"), float("nan"), float("nan"), 0)
    held = HeldOut(better_q, nothing, nothing, 50, 1.0)
    config = LearningConfig(margin=0.005)
    assert judge(held, Virtual(even, even, even, 0.1, 0.1), config).promote
    drifted = Estimate(0.02, 0.01, 0.03, 50)
    verdict = judge(held, Virtual(even, drifted, even, 0.1, 0.1), config)
    assert not verdict.promote
    assert "since the first champion" in verdict.reasons[0]


def test_a_blend_lies_between_champion_and_learner(champion_net: QNet) -> None:
    learned = copy.deepcopy(champion_net)
    with torch.no_grad():
        learned.head.bias += 8.0
    halfway = candidates.blended(champion_net, learned, 0.5)
    rows = torch.zeros(3, len(STATE))
    assert torch.allclose(halfway(rows), champion_net(rows) + 4.0, atol=1e-5)
    assert torch.equal(candidates.blended(champion_net, learned, 1.0)(rows), learned(rows))


def test_another_shape_is_never_served(trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    store, models = trained
    before = (models / "manifest.json").read_bytes()
    real = learning_job.write_q_bundle

    def narrow(net: QNet, metadata: ModelMetadata, folder: Path) -> Path:
        return real(net, replace(metadata, outputs=metadata.outputs[:-1]), folder)

    monkeypatch.setattr(learning_job, "write_q_bundle", narrow)
    with pytest.raises((Failure, InputError), match="outputs"):
        learn(job_of(store, models))
    assert (models / "manifest.json").read_bytes() == before


def poisoned(experiences: list[Experience], how: str) -> list[Experience]:
    """What somebody who wants the scheduler to starve its services would report."""
    out: list[Experience] = []
    for e in experiences:
        before, decision, after = e.before, e.decision, e.after

        def lie(services: list[Any], took: dict[str, int], then: bool) -> list[Any]:
            told = []
            for s in services:
                if s.kind != "lc" or s.latency is None:
                    told.append(s)
                    continue
                if how == "absurd latencies":
                    latency = Latency(mean_ms=1e12, p50_ms=1e12, p95_ms=1e12, p99_ms=1e12)
                elif how == "the less the better":
                    factor = 0.1 if took.get(s.name, 0) < 0 and then else 20.0
                    ms = factor * s.target_ms
                    latency = replace(s.latency, mean_ms=ms, p50_ms=ms, p95_ms=ms, p99_ms=ms)
                else:
                    latency = s.latency
                counters = s.counters
                if how == "wrong counters":
                    counters = replace(counters, ipc=500.0, frequency_ghz=2300.0)
                told.append(replace(s, latency=latency, counters=counters))
            return told

        old, new = before.partition, decision.partition
        took = {} if old is None else {
            s.name: new.cores_of(s.name) - old.cores_of(s.name) + new.ways_of(s.name) - old.ways_of(s.name)
            for s in before.services
        }  # fmt: skip
        out.append(
            replace(
                e,
                before=replace(before, services=lie(before.services, took, False)),
                after=replace(after, services=lie(after.services, took, True)),
            )
        )
    return out


@pytest.mark.parametrize("how", ["absurd latencies", "wrong counters", "the less the better"])
def test_poisoned_experiences_promote_nobody(
    experiences: list[Experience], trained: tuple[str, Path], tmp_path: Path, how: str
) -> None:
    _, models = trained
    before = (models / "manifest.json").read_bytes()
    url = f"sqlite:///{tmp_path}/poison.db"
    store = Store(open_engine(store_url(url), writes=True))
    store.add(poisoned(experiences, how)[:1200])
    document = learn(job_of(url, models))
    assert not document["promoted"], document
    assert document["reasons"]
    assert (models / "manifest.json").read_bytes() == before


def test_too_little_is_said_with_what_was_left_out(
    experiences: list[Experience], models: Path, fill: Callable[..., str]
) -> None:
    document = learn(job_of(fill(experiences[:60]), models))
    assert not document["promoted"]
    assert "usable tuples, expected at least 500" in document["reasons"][0]
    assert document["experiences"] == 60


def test_a_dry_run_judges_and_leaves_everything(
    experiences: list[Experience], models: Path, fill: Callable[..., str]
) -> None:
    before = (models / "manifest.json").read_bytes()
    document = learn(job_of(fill(experiences), models, dry_run=True))
    assert document["promoted"] is False
    assert document["held_out"]["squared_error_falls_by"]["low"] > 0
    assert (models / "manifest.json").read_bytes() == before


def test_rollback_never_undoes_the_work_of_others(trained: tuple[str, Path]) -> None:
    _, models = trained
    manifest = models / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b" ")
    with pytest.raises(Failure, match="was changed after"):
        roll_back(models, "c", PLATFORM)
    with pytest.raises(InputError, match="platform other"):
        roll_back(models, "c", "other")


def test_a_promotion_that_was_cut_off_changes_nothing_and_can_be_taken_back(
    experiences: list[Experience], models: Path, fill: Callable[..., str], monkeypatch: pytest.MonkeyPatch
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


def test_without_mlflow_the_promotion_goes_on_and_says_so(
    experiences: list[Experience], models: Path, fill: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    document = learn(job_of(fill(experiences), models, track="http://127.0.0.1:9"))
    assert document["promoted"]
    assert "not stored in MLflow" in document["warnings"][0]
    assert roll_back(models, "c", None)["champion"] == CHAMPION


def test_the_promoted_file_is_the_judged_network(trained: tuple[str, Path]) -> None:
    _, models = trained
    name = load_manifest(models).models[0].name
    rows = np.random.default_rng(0).uniform(0, 10, (50, len(STATE))).astype(np.float32)
    opened = ModelShelf(models)
    opened.reload()
    with torch.no_grad():
        ours = load_qnet(models / name)(torch.from_numpy(rows)).numpy()
    assert np.allclose(opened.models_of(PLATFORM).c.q(rows), ours, rtol=1e-4, atol=1e-4)


# -- the whole way, in processes ---------------------------------------------------------------------------------------

OSML = [sys.executable, "-c", "from osml.cli.main import main; main()"]


def run(*arguments: str) -> dict[str, Any]:
    """A command's `--json` document."""
    done = subprocess.run([*OSML, *arguments, "--json"], capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def server(models: Path, tmp_path: Path) -> Iterator[str]:
    """`osml serve` on these models, with a store of its own; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url, log = f"http://127.0.0.1:{port}", tmp_path / "server.log"
    flags = ["--port", str(port), "--models", str(models), "--models-poll-s", "0.1", "--drain-s", "0"]
    with log.open("wb") as stream:
        process = subprocess.Popen([*OSML, "serve", *flags, "--store", f"sqlite:///{tmp_path}/own.db"], stderr=stream)
    try:
        until(lambda: process.poll() is not None or answers(url))
        assert process.poll() is None, log.read_text()
        yield url
    finally:
        process.terminate()
        process.wait(20)


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz").status_code == 200
    return False


def until(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def champion_of(url: str) -> list[str]:
    return [model["name"] for model in httpx.get(f"{url}/readyz").json()["models"]]


def test_a_running_server_gets_the_new_champion_and_the_old_one_back(
    experiences: list[Experience], models: Path, server: str, tmp_path: Path
) -> None:
    assert champion_of(server) == [CHAMPION]
    for first in range(0, len(experiences), 20):
        body = msgspec.json.encode({"experiences": experiences[first : first + 20]})
        answer = httpx.post(f"{server}/v1/experiences", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 202, answer.text
    config = tmp_path / "config.yaml"
    config.write_text("{episodes: 32, horizon: 30, passes: 10, learning_rates: [0.0001, 0.001]}")
    flags = ["--platform", PLATFORM, "--models", str(models), "--store", f"sqlite:///{tmp_path}/own.db"]
    document = run("train", "c", "--online", *flags, "--config", str(config), "--track", "none")
    assert document["promoted"], document
    until(lambda: champion_of(server) == [document["candidate"]])
    assert run("models", "rollback", "c", "--models", str(models))["champion"] == CHAMPION
    until(lambda: champion_of(server) == [CHAMPION])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--store", "sqlite:////nowhere/x.db"), "there is no experience store"),
        (("--store", "none"), "--store is 'none'"),
        (("--platform", "z80"), "no model c for platform 'z80'"),
    ],
)
def test_wrong_input_is_one_sentence(models: Path, flags: tuple[str, ...], words: str) -> None:
    given = ["--platform", PLATFORM, "--models", str(models), "--track", "none", *flags]
    done = subprocess.run(
        [*OSML, "train", "c", "--online", *given], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert words in done.stderr
