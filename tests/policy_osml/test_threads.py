"""The osml policy decides for many nodes at once, in threads, as for each by itself: what is kept is nobody else's."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from osml.domain import Decision, Platform, Service
from osml.policies.osml import Osml
from osml.policies.osml import node as nodes
from tests.kit.fake_models import PLATFORM, Run, job, service


def _platform(seed: int) -> Platform:
    """Platforms of the same id and of other numbers."""
    cores, ways = ((36, 20), (24, 11), (16, 12), (36, None))[seed % 4]
    return replace(PLATFORM, id="e5-2697v4", cores=cores, cpus=f"0-{cores - 1}", ways=ways)


def _history(seed: int) -> list[Decision]:
    """Decisions for one node whose services come, go and have other limits, by the shipped models."""
    rng, run, found = random.Random(seed), Run(Osml(), _platform(seed)), []
    for _ in range(25):
        names = "abcdef"[: rng.randint(1, 6)]
        limits = {"max_cores": rng.choice([None, 3, 8]), "min_ways": rng.choice([1, 2])}
        services: list[Service] = [service(name, rng.choice([0.3, 0.6, 1.2]), **limits) for name in names]
        services += [job()] if rng.random() < 0.5 else []
        fits = run.decision is not None and {s.name for s in services} == {
            owner for region in run.decision.partition.regions for owner in region.owners
        }
        found.append(run(*services, **({} if fits else {"partition": None, "assignments": []})))
    return found


def test_many_nodes_at_once_are_decided_on_as_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(nodes, "_MOST_ALIKE", 3)  # what is kept is thrown away again and again
    alone = [_history(seed) for seed in range(16)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(_history, range(16))) == alone
    assert any(decision.forecasts for history in alone for decision in history)
    assert len(nodes._alike) <= 3 + 8
