"""Models of known answers, and a run of the policy `osml` over intervals that a test dictates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from osml.decide.decide import decide_by
from osml.domain import Counters, Latency, Observation, Platform, Service
from osml.policies.osml.answers.models import Models
from osml.predictors import FeatureSpec, Margin, ModelMetadata, OutputSpec, Prediction
from osml.predictors.actions import N_ACTIONS, action_index

OUTPUTS = ("rcliff_cores", "rcliff_ways", "oaa_cores", "oaa_ways", "oaa_bandwidth_gbps")
FEATURES = ("latency_over_target", "cores", "requests_per_s", "platform_cores")
PLATFORM = Platform("p", 36, "0-35", ways=20, way_mib=2.25, bandwidth_gbps=76.8)

Answers = Callable[[np.ndarray[Any, Any]], list[float]]


def metadata(outputs: tuple[str, ...] = OUTPUTS, features: tuple[str, ...] = FEATURES, **more: Any) -> ModelMetadata:
    margin = {c: Margin([1.0] * len(outputs), [1.0] * len(outputs)) for c in ("0.9", "0.95")}
    given: dict[str, Any] = {
        "name": "fake", "version": "1", "kind": "a2", "variant": "masked", "platforms": ["p"],
        "services": ["a", "b", "c", "d"], "features": [FeatureSpec(name, None, 0.0, 1e9) for name in features],
        "outputs": [OutputSpec(name, None) for name in outputs], "margins": margin, "margins_unseen": margin,
        "simulated": True, "dataset_fingerprint": "", "commit": "", "seed": 0, "command": "", "licence": "",
    }  # fmt: skip
    return ModelMetadata(**(given | more))


@dataclass
class Fake:
    """Answers by a function of a row of FEATURES, with a spread of 0.5."""

    answer: Answers
    metadata: ModelMetadata = field(default_factory=metadata)
    spread: float = 0.5

    def predict(self, features: np.ndarray[Any, Any]) -> Prediction:
        points = np.array([self.answer(row) for row in features], np.float32)
        return Prediction(points, np.full_like(points, self.spread), self.metadata)


def needs(**cores: float) -> Models:
    """Models by which a service with so many requests a second needs so many cores: rate_10=4.0."""
    by_rate = {float(name.removeprefix("rate_")): value for name, value in cores.items()}

    def answer(row: np.ndarray[Any, Any]) -> list[float]:
        known = float(row[2])
        oaa = by_rate[min(by_rate, key=lambda rate: abs(rate - known))]
        return [oaa - 1.0, 1.0, oaa, 1.0, oaa]

    fake: Any = Fake(answer)
    return Models(a=fake, a2=fake)


def service(name: str, ratio: float | None = 0.5, rate: float = 10.0, **more: Any) -> Service:
    latency = None if ratio is None else Latency(p99_ms=10.0 * ratio, requests_per_s=rate, samples=100_000)
    return Service(name, "lc", target_ms=10.0, latency=latency, **more)


def job(name: str = "job") -> Service:
    return Service(name, "be", ipc_solo=1.0, counters=Counters(ipc=0.5))


def observe(*services: Service, seq: int = 0, **more: Any) -> Observation:
    platform = more.pop("platform", PLATFORM)
    return Observation("n", seq, 10.0 + seq, more.pop("interval_s", 1.0), platform, list(services), **more)


class Run:
    """A policy over intervals that the test dictates; what it decides is applied at once."""

    def __init__(self, policy: Any, platform: Platform = PLATFORM) -> None:
        self.policy, self.platform = policy, platform
        self.decision: Any = None
        self.seq = 0

    def __call__(self, *services: Service, times: int = 1, **more: Any) -> Any:
        for _ in range(times):
            last = self.decision
            given = {
                "partition": last and last.partition,
                "assignments": last.assignments if last else [],
                "policy_state": last and last.policy_state,
                "platform": self.platform,
            } | more
            self.decision = decide_by(self.policy, observe(*services, seq=self.seq, **given))
            self.seq += 1
        return self.decision

    def cores(self) -> dict[str, int]:
        partition = self.decision.partition
        return {name: partition.cores_of(name) for region in partition.regions for name in region.owners}

    def words(self) -> str:
        return " | ".join(reason.text for reason in self.decision.reasons)


class Values:
    """A Model-C that loves one action."""

    def __init__(self, cores: int, ways: int) -> None:
        self.metadata = metadata(("q",), ("cores", "ways"))
        self.row = np.zeros(N_ACTIONS, np.float32)
        self.row[action_index(cores, ways)] = 5.0

    def q(self, features: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.tile(self.row, (len(features), 1))
