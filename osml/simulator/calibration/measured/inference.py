"""Service time of inference under a CPU quota: Amdahl's law with a limit to parallelism, one law a model.

T(c) = T1 (serial + (1 - serial)/min(c, most)). At one CPU there is a penalty: a pool of more threads than the quota
spins and is throttled. The tests leave each quota and each input out in turn; nothing is fitted beforehand.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from osml.simulator.calibration.measured.machines import Machines
from osml.simulator.calibration.measured.outcome import Pair, Rule, Test
from osml.simulator.calibration.measured.table import Columns, Row, is_context
from osml.simulator.columns import FloatArray

COLUMNS = Columns(positive=("cpus", "latency_s"), texts=("model", "gpu", "input", "batch"))

Input = tuple[str, str]
"""An input and its batch."""


class Law(NamedTuple):
    """One model. `most` is the size of its pool of threads, `penalty` a factor at one CPU."""

    serial: float
    most: float
    penalty: float

    def relative(self, cpus: float) -> float:
        """Time over that at one CPU without the penalty."""
        return (self.serial + (1.0 - self.serial) / min(cpus, self.most)) * (self.penalty if cpus < 1.5 else 1.0)


_GRID = [
    Law(float(serial), most, penalty)
    for most in (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    for serial in np.linspace(0.0, 0.6, 25)
    for penalty in (1.0, 1.15, 1.3, 1.5, 1.75)
]
_PREFERENCE = np.array([0.02 * math.log(law.penalty) + 0.002 * law.serial for law in _GRID])
"""Of equally good laws the one with the smaller penalty and serial share counts."""


def tables(rows: Sequence[Row]) -> dict[str, dict[Input, dict[float, float]]]:
    """Model -> input -> {CPUs: latency in s}: medians over memory and repeats; without GPU and without flagged rows."""
    groups: dict[str, dict[Input, dict[float, list[float]]]]
    groups = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for row in rows:
        if row["gpu"] == "off" and not row["flag"]:
            groups[row["model"]][row["input"], row["batch"]][row["cpus"]].append(row["latency_s"])
    return {
        model: {
            key: {cpus: median(own) for cpus, own in sorted(by.items())} for key, by in inputs.items() if len(by) > 2
        }
        for model, inputs in sorted(groups.items())
    }


def _errors(points: Mapping[float, float]) -> FloatArray:
    """|log error| of every law of the grid at every quota of one input, each with its own T1: (laws, quotas)."""
    shape = np.log([[law.relative(cpus) for cpus in points] for law in _GRID])
    left = np.log(list(points.values())) - shape
    return np.abs(left - np.median(left, axis=1, keepdims=True))


def _best(errors: Sequence[FloatArray], quotas: set[float]) -> Law:
    """The law of least mean |log error| over some inputs."""
    total = np.sum([own.sum(axis=1) for own in errors], axis=0) / sum(own.shape[1] for own in errors)
    free = np.array([law.penalty == 1.0 or 1.0 in quotas for law in _GRID])
    return _GRID[int(np.argmin(np.where(free, total + _PREFERENCE, math.inf)))]


def fit(inputs: Sequence[Mapping[float, float]]) -> Law:
    """One law for some inputs of a model."""
    return _best([_errors(points) for points in inputs], {cpus for points in inputs for cpus in points})


def scale(points: Mapping[float, float], law: Law) -> float:
    """T1 of one input in s."""
    return median(t / law.relative(cpus) for cpus, t in points.items())


Cell = tuple[str, str, str, float]
"""Model, input, batch and quota."""


def _quotas(model: str, inputs: Mapping[Input, Mapping[float, float]], compared: set[Cell]) -> list[tuple[Pair, float]]:
    """Each quota left out of all inputs of a model; beside each pair the value at the nearest quota."""
    out: list[tuple[Pair, float]] = []
    for left in sorted({cpus for points in inputs.values() for cpus in points}):
        rest = {key: {cpus: t for cpus, t in points.items() if cpus != left} for key, points in inputs.items()}
        law = fit([points for points in rest.values() if len(points) >= 2])
        for key, points in sorted(inputs.items()):
            if left in points and (model, *key, left) in compared:
                known = rest[key]
                inverse = median(t * cpus for cpus, t in known.items()) / left
                ours = scale(known, law) * law.relative(left)
                nearest = known[min(known, key=lambda cpus: (abs(math.log(cpus / left)), cpus))]
                out.append((Pair(f"{model} {' '.join(key)} cpus={left:g}", points[left], ours, inverse), nearest))
    return out


def _inputs(model: str, inputs: Mapping[Input, Mapping[float, float]], compared: set[Cell]) -> list[Pair]:
    """Each input left out: the shape from the others, the scale from its own time at the largest quota."""
    out: list[Pair] = []
    errors = {key: _errors(points) for key, points in inputs.items()}
    for key, points in sorted(inputs.items()):
        others = [own for other, own in errors.items() if other != key]
        if not others:
            continue
        law = _best(others, {cpus for other, own in inputs.items() if other != key for cpus in own})
        top = max(points)
        for cpus, t in points.items():
            if cpus != top and (model, *key, cpus) in compared:
                ours = points[top] / law.relative(top) * law.relative(cpus)
                out.append(Pair(f"{model} {' '.join(key)} cpus={cpus:g}", t, ours, points[top] * top / cpus))
    return out


def tests(rows: Sequence[Row], machines: Machines) -> list[Test]:
    """Each quota left out, and each input left out; a quota is the same on all `machines`."""
    found = tables(rows)
    compared = {(row["model"], row["input"], row["batch"], row["cpus"]) for row in rows if not is_context(row)}
    quotas = [pair for model, inputs in found.items() for pair in _quotas(model, inputs, compared)]
    inputs = [pair for model, known in found.items() for pair in _inputs(model, known, compared)]
    note = "Fitted on the other quotas or inputs of the same model. Rows with a flag and with a GPU are left out."
    nearest = Rule("time at the nearest quota", [value for _, value in quotas])
    pairs = [pair for pair, _ in quotas]
    return [
        Test("inference: quota left out", "s", "factor", 1.3, pairs, "1/CPUs", None, note, (nearest,)),
        Test("inference: input left out", "s", "factor", 1.3, inputs, "1/CPUs", None, note),
    ]
