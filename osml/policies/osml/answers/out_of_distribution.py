"""What is familiar to a model, and which services its answers are not used for: they are like nothing that it knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.domain.cpu_names import short_name
from osml.predictors import ANY_PLATFORM, ModelMetadata

_BEYOND = 0.5
"""How far out of the range of the training (its 1st to 99th percentile) a feature may be, as a share of that range."""

_DECADES, _TIMES = 30.0, 5.0
"""Of what spans more than so many times its lowest value, and so is scaled by its logarithm: so many times beyond."""

_ENDLESS = ("latency_ms", "mean_ms", "p50_ms", "latency_over_target", "neighbours")
"""No reason to call a service unknown: latencies grow without end where it gets less than it needs; of neighbours, more
than the models know count as the most that they know: their cores, cache and traffic say what they do."""

REQUIRED = (
    "cores",
    "ways",
    "cache_mib",
    "cpu_usage_cores",
    "neighbour_cores",
    "neighbour_ways",
    "neighbour_cache_mib",
    "target_ms",
    "platform_cores",
    "platform_ways",
    "way_mib",
)
"""What no training ever hid: the allocation, the CPU time, the target, the machine. All else may be missing."""

_MACHINE, _LARGER = ("platform_cores", "platform_ways", "way_mib"), 1.1
"""What a machine is, and how far beyond those that a model of many has seen: it interpolates between machines."""

AGAIN = 5
"""Intervals in a row in which a service has to be familiar before the models are believed again."""


class Form(NamedTuple):
    """What does not change of a model: its inputs, the places of some answers, the familiar range of each input.

    `machines` are the short names of those that a model of many machines learned from; None for a model of one.
    """

    meta: ModelMetadata
    inputs: tuple[str, ...]
    places: NDArray[np.intp]
    low: NDArray[Any]
    high: NDArray[Any]
    required: NDArray[Any]
    machines: frozenset[str] | None


_forms: dict[int, Form] = {}


def form_of(meta: ModelMetadata, answers: Sequence[str]) -> Form:
    """The form of a model, kept from its first question on. ValueError where one of the answers is missing."""
    found = _forms.get(id(meta))
    if found is not None and found.meta is meta:
        return found
    low = np.array([feature.low for feature in meta.features])
    high = np.array([feature.high for feature in meta.features])
    room = _BEYOND * (high - low) + 0.02 * np.abs(high)
    wide = (low > 0) & (high > _DECADES * low)
    low, high = np.where(wide, 0.0, low - room), np.where(wide, high * _TIMES, high + room)
    high[[feature.name in _ENDLESS for feature in meta.features]] = np.inf
    required = np.array([f.name in REQUIRED or not f.may_be_missing for f in meta.features], bool)
    if len(_forms) > 256:
        _forms.clear()
    places = np.array([meta.answers.index(name) for name in answers], np.intp)
    machines = frozenset(map(short_name, meta.platforms)) if meta.platform == ANY_PLATFORM else None
    found = _forms[id(meta)] = Form(meta, meta.inputs, places, low, high, required, machines)
    return found


def screened(rows: NDArray[Any], form: Form) -> tuple[NDArray[Any], dict[int, str], dict[int, list[str]]]:
    """Rows (services, inputs) without the optional features that are far outside of the training: NaN, as not measured.

    By row also: the last required feature that is so far outside, in words; the names of those that were taken out.
    """
    odd = (rows < form.low) | (rows > form.high)  # NaN, not measured, is neither
    strange: dict[int, str] = {}
    hidden: dict[int, list[str]] = {}
    if not odd.any():
        return rows, strange, hidden
    for i, k in np.argwhere(odd).tolist():
        feature = form.meta.features[k]
        if form.required[k]:
            strange[i] = f"{feature.name} {float(rows[i, k]):.4g}, trained on {feature.low:.4g} to {feature.high:.4g}"
        else:
            hidden.setdefault(i, []).append(feature.name)
    return np.where(odd & ~form.required, np.float32(np.nan), rows), strange, hidden


def unlike_all(row: NDArray[Any], form: Form) -> str | None:
    """What makes the machine of a row of features unlike all that a model of many learned from, in words; else None."""
    for feature, value in zip(form.meta.features, row.tolist(), strict=True):
        if feature.name in _MACHINE and not feature.low / _LARGER <= value <= feature.high * _LARGER:
            return f"{feature.name} {value:.4g}, trained on {feature.low:.4g} to {feature.high:.4g}"
    return None


def still_unfamiliar(before: Mapping[str, int], strange: Collection[str], names: Sequence[str]) -> dict[str, int]:
    """Services whose predictions are not used, with the familiar intervals in a row that each has had since.

    One that is `strange` is among them at once; it has to be familiar for AGAIN intervals before its prediction is
    believed, so that a measurement on the edge of the training does not change how the node is run every second.
    """
    counts = {name: 0 if name in strange else before.get(name, AGAIN) + 1 for name in names}
    return {name: count for name, count in counts.items() if count < AGAIN}
