"""The policy `osml` where memory bandwidth is short: without throttles, split by Model-A, split by profiles of OMBM.

No model is shipped for OMBM's platform, so exact answers stand in for Model-A: the cell that the service was profiled
with is its OAA, and the traffic of the service alone in that cell at its rate is the OAA's bandwidth (the label that
Model-A is trained on). What is left to see is the split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.bandwidth import ProfileLibrary, shipped_profiles
from osml.lab.ombm.accuracy import PLATFORM, SERVICES
from osml.lab.ombm.assurance import COMBINATIONS, DYNAMIC_S, STATIC_S, WARM_UP_S, traces
from osml.lab.ombm.profiling import deployed
from osml.policies.osml import Osml
from osml.policies.osml.answers.models import Models
from osml.predictors import FeatureSpec, Margin, ModelMetadata, OutputSpec, Prediction
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.reservation import WORST, reserved_flows, reserved_node
from osml.simulator.surface import solo_speed

WAYS = ("none", "model", "profile")
"""No throttles, split by Model-A's answers, split by profiles."""

BESIDE = {"STREAM": WORST, "C": COMBINATIONS["C"]}
SPLIT_KINDS = ("static", "diurnal")

_ANSWERS = ("rcliff_cores", "rcliff_ways", "oaa_cores", "oaa_ways", "oaa_bandwidth_gbps")
_LOADS = np.linspace(0.1, 1.2, 12)


class ExactModel:
    """Model-A's answers for one service out of the node's equations; a stand-in for `osml.predictors.Predictor`."""

    def __init__(self, service: str) -> None:
        platform, self._model = deployed(service, PLATFORM)
        alone = [reserved_flows(platform, self._model, float(x), platform.bandwidth_gbps, ())[0] for x in _LOADS]
        self._gbps = [flow.memory_bytes / flow.dt / 1e9 for flow in alone]
        self._ways = platform.ways // 2
        none = Margin([0.0] * len(_ANSWERS), [0.0] * len(_ANSWERS))
        self.metadata = ModelMetadata(
            name="exact",
            version="1",
            kind="a",
            variant="exact",
            platforms=[PLATFORM],
            services=[service],
            features=[FeatureSpec("requests_per_s", None, 0.0, 1e9)],
            outputs=[OutputSpec(answer, None) for answer in _ANSWERS],
            margins={"0.9": none, "0.95": none},
            simulated=True,
            dataset_fingerprint="",
            commit="",
            seed=0,
            command="",
            licence="",
        )

    def predict(self, features: NDArray[Any]) -> Prediction:
        """OAA and its bandwidth at the rates (rows); RCliff is one way less."""
        gbps = np.interp(features[:, 0] / self._model.max_load, _LOADS, self._gbps)
        cell = [1.0, self._ways - 1.0, 1.0, float(self._ways)]
        points = np.array([[*cell, x] for x in gbps], np.float32)  # (rows, answers)
        return Prediction(points, np.zeros_like(points), self.metadata)


@dataclass(frozen=True)
class Split:
    """`osml` with one LC service beside jobs: intervals within the SLO, and the jobs' mean speed over solo."""

    service: str
    beside: str
    load: str
    split: str
    intervals: int
    slo_pct: float
    be_speed: float


@cache
def _exact(service: str) -> Any:
    return ExactModel(service)


def split_run(service: str, beside: str, kind: str, how: str, seed: int = 0) -> Split:
    """All runs of one kind of load together; `how` is one of WAYS."""
    platform, model = deployed(service, PLATFORM)
    library = ProfileLibrary(shipped_profiles() if how == "profile" else ())
    policy = Osml(Models(a=_exact(service), a2=_exact(service), profiles=library))
    node = reserved_node(platform, model, BESIDE[beside])
    solo = [solo_speed(platform, job)[1] for job in node.jobs]
    met: list[bool] = []
    speeds: list[float] = []
    for trace in traces(model, kind, seed):
        loop = ClosedLoop(node, {service: trace}, policy, regulator=how != "none", seed=seed)
        for interval in loop.run(STATIC_S if kind == "static" else DYNAMIC_S)[WARM_UP_S:]:
            met.append(interval.tail_ms(0, model.percentile) <= model.target_ms)
            work = [flow.instructions / flow.dt / 1e9 for flow in interval.flows[1:]]
            speeds.append(float(np.mean([now / alone for now, alone in zip(work, solo, strict=True)])))
    return Split(service, beside, kind, how, len(met), 100.0 * sum(met) / len(met), float(np.mean(speeds)))


def splits(seed: int = 0, services: Sequence[str] = SERVICES) -> Iterable[Split]:
    """Every service, company and kind of load in all three ways."""
    for service in services:
        for beside in BESIDE:
            for kind in SPLIT_KINDS:
                for how in WAYS:
                    yield split_run(service, beside, kind, how, seed)
