"""What Model-A and A' say of the LC services of an observation, in words that the policy `osml` reasons with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.domain import Forecast, Observation, Point, Service
from osml.policies.osml_models import Models
from osml.predictors import ModelMetadata, Predictor, feature_rows

COVERAGE = 0.9
"""Of the conformal bounds that decisions rest on."""

_BEYOND = 0.5
"""How far out of the range of the training (its 1st to 99th percentile) a feature may be, as a share of that range."""

_DECADES, _TIMES = 30.0, 5.0
"""Of what spans more than so many times its lowest value, and so is scaled by its logarithm: so many times beyond."""

_QUEUED = ("latency_ms", "mean_ms", "p50_ms", "latency_over_target")
"""Grow without end where a service gets less than it needs: that is no unknown service."""

_ANSWERS = ("rcliff_cores", "rcliff_ways", "oaa_cores", "oaa_ways", "oaa_bandwidth_gbps")


class Answer(NamedTuple):
    """One service's prediction: logical CPUs, ways, GB/s; `upper` and `oaa_upper` are conformal bounds.

    `seen`: in training. `strange` says what was measured outside of that, None where all is familiar.
    """

    service: str
    model: str
    seen: bool
    cliff: tuple[float, float]
    upper: tuple[float, float]
    oaa: tuple[float, float]
    oaa_upper: tuple[float, float]
    gbps: float | None
    strange: str | None

    def forecast(self) -> Forecast:
        """The same for the wire."""
        return Forecast(
            service=self.service, model=self.model, rcliff=Point(*self.cliff), rcliff_upper=Point(*self.upper),
            oaa=Point(*self.oaa), coverage=COVERAGE, familiar=self.strange is None, oaa_bandwidth_gbps=self.gbps,
        )  # fmt: skip


class ModelFault(NamedTuple):
    """Why the models can't be used for an observation."""

    text: str


def ask(observation: Observation, services: Sequence[Service], models: Models) -> dict[str, Answer] | ModelFault:
    """RCliff and OAA of these services by A' (by A for one that is alone on the node); one batch.

    A fault where the model is missing, or answers what is no number or no place on any machine.
    """
    alone = len(observation.services) == 1
    model = models.a if alone and models.a is not None else models.a2
    if model is None:
        faults = [fault for fault in models.faults if fault.startswith("model a2:")]
        return ModelFault(faults[0] if faults else "model a2 is switched off")
    if not services:
        return {}
    meta = model.metadata
    names = [service.name for service in services]
    try:
        form = _form(meta)
        rows = feature_rows(observation, names, form.inputs)
        found = model.predict(rows)
        known = [name in meta.services for name in names]
        upper = found.upper(COVERAGE)
        if upper.shape != (len(names), len(meta.outputs)):
            return ModelFault(f"model '{meta.name}' answers {upper.shape} for {len(names)} services")
        if not all(known):
            upper = np.where(np.array(known)[:, None], upper, found.upper(COVERAGE, seen=False))
    except Exception as error:  # a model from outside can be wrong in any way; what it is, the reason says
        return ModelFault(f"model '{meta.name}' can't answer ({type(error).__name__}: {str(error)[:160]})")
    points, bounds = found.points[:, form.places].tolist(), upper[:, form.places].tolist()
    fault = _nonsense(points, meta, observation) or _boundless(bounds, meta)
    if fault is not None:
        return fault
    strange = _strange(rows, meta, form)
    return {name: _answer(name, model, known[i], points[i], bounds[i], strange.get(i)) for i, name in enumerate(names)}


def unpredicted(node_cells: Mapping[str, tuple[int, int]], even: Mapping[str, tuple[int, int]], quantum: float):
    """Answers in place of a model's for who has none: everybody needs what it has, or an even part.

    Cells are core units and ways.
    """
    found: dict[str, Answer] = {}
    for name, part in even.items():
        cores, ways = node_cells.get(name, part)
        point = (cores * quantum, float(ways))
        found[name] = Answer(name, "none", False, (0.0, 0.0), (0.0, 0.0), point, point, None, None)
    return found


def _answer(
    name: str, model: Predictor, seen: bool, point: list[float], upper: list[float], strange: str | None
) -> Answer:
    gbps = point[4] if math.isfinite(point[4]) and point[4] > 0 else None
    return Answer(
        name, model.metadata.name, seen, (point[0], point[1]), (upper[0], upper[1]), (point[2], point[3]),
        (upper[2], upper[3]), gbps, strange,
    )  # fmt: skip


def _nonsense(points: Sequence[Sequence[float]], meta: ModelMetadata, observation: Observation) -> ModelFault | None:
    """A point that is no number, or so far outside of the machine that the model can't be meant for it."""
    platform = observation.platform
    most = (platform.cores * platform.core_quantum, platform.ways or 64)
    for point in points:
        for k in range(4):
            if not -1 <= point[k] <= 1.5 * most[k % 2] + 1:  # NaN is neither
                return ModelFault(
                    f"model '{meta.name}' answers {_ANSWERS[k]} {point[k]:.3g} on a node with {most[k % 2]:g}"
                )
    return None


def _boundless(bounds: Sequence[Sequence[float]], meta: ModelMetadata) -> ModelFault | None:
    """A bound that is no number: nothing could be promised by it."""
    for bound in bounds:
        for k in range(4):
            if not math.isfinite(bound[k]):
                return ModelFault(f"model '{meta.name}' answers a bound of {_ANSWERS[k]} that is {bound[k]}")
    return None


def _strange(rows: NDArray[Any], meta: ModelMetadata, form: _Form) -> dict[int, str]:
    """By row the last feature that is far outside of what the model was trained on, in words."""
    odd = (rows < form.low) | (rows > form.high)  # NaN, not measured, is neither
    found: dict[int, str] = {}
    if odd.any():
        for i, k in np.argwhere(odd).tolist():
            feature = meta.features[k]
            found[i] = f"{feature.name} {float(rows[i, k]):.4g}, trained on {feature.low:.4g} to {feature.high:.4g}"
    return found


class _Form(NamedTuple):
    """What does not change of a model: its inputs, the places of the answers, the familiar range of each input."""

    meta: ModelMetadata
    inputs: tuple[str, ...]
    places: list[int]
    low: NDArray[Any]
    high: NDArray[Any]


_forms: dict[int, _Form] = {}


def _form(meta: ModelMetadata) -> _Form:
    """The form of a model, kept from its first question on. ValueError where an answer is missing."""
    found = _forms.get(id(meta))
    if found is not None and found.meta is meta:
        return found
    low = np.array([feature.low for feature in meta.features])
    high = np.array([feature.high for feature in meta.features])
    room = _BEYOND * (high - low) + 0.02 * np.abs(high)
    wide = (low > 0) & (high > _DECADES * low)
    low, high = np.where(wide, 0.0, low - room), np.where(wide, high * _TIMES, high + room)
    high[[feature.name in _QUEUED for feature in meta.features]] = np.inf
    if len(_forms) > 256:
        _forms.clear()
    answers = meta.answers
    found = _forms[id(meta)] = _Form(meta, meta.inputs, [answers.index(name) for name in _ANSWERS], low, high)
    return found
