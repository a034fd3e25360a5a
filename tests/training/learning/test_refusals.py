"""What must never take the champion's place: broken, worse, or taught by liars."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from osml_training.dqn.qnet import QNet
from osml_training.learning import candidates
from osml_training.learning import promotion as promotion_of
from osml_training.learning.compare_candidates import HeldOut, Virtual, judge
from osml_training.learning.config import LearningConfig
from osml_training.learning.job import learn
from osml_training.learning.promotion import LearnJob

from osml.base.failure import Failure, InputError
from osml.domain import Experience, Latency
from osml.experiences.address import open_engine, store_url
from osml.experiences.store import Store
from osml.lab.bench.report.statistics import Estimate
from osml.predictors import ModelMetadata
from osml.predictors.actions import N_ACTIONS

replace = msgspec.structs.replace


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda net: net.head.weight.fill_(float("nan")), "finite|differ"),
        (lambda net: net.body[0].weight.mul_(1e38).mul_(1e38), "finite|differ"),
    ],
)
def test_weights_that_are_no_numbers_are_never_served(
    trained: tuple[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[QNet], None],
    words: str,
    job_of: Callable[..., LearnJob],
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
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, job_of: Callable[..., LearnJob]
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


def test_another_shape_is_never_served(
    trained: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, job_of: Callable[..., LearnJob]
) -> None:
    store, models = trained
    before = (models / "manifest.json").read_bytes()
    real = promotion_of.write_q_bundle

    def narrow(net: QNet, metadata: ModelMetadata, folder: Path) -> Path:
        return real(net, replace(metadata, outputs=metadata.outputs[:-1]), folder)

    monkeypatch.setattr(promotion_of, "write_q_bundle", narrow)
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
        took = (
            {}
            if old is None
            else {
                s.name: new.cores_of(s.name) - old.cores_of(s.name) + new.ways_of(s.name) - old.ways_of(s.name)
                for s in before.services
            }
        )
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
    experiences: list[Experience], trained: tuple[str, Path], tmp_path: Path, how: str, job_of: Callable[..., LearnJob]
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


def test_a_platform_without_a_virtual_node_is_refused_before_anything_is_read(
    models: Path, job_of: Callable[..., Any]
) -> None:
    manifest = models / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"e5-2697v4"', '"intel-xeon-platinum-8375c"'))
    job = job_of("sqlite:////nowhere/store.db", models, platform="Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz")
    with pytest.raises(InputError, match="a candidate is judged on the virtual node of its platform: "):
        learn(job)
