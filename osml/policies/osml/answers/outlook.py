"""Model-C': how near to its target a cell would bring a service, out of what it has shown, with bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.domain import Service
from osml.policies.osml.answers.forecast import NO_MODEL, Answer
from osml.policies.osml.memory.past import NO_USE, Past, wait_log, wait_of
from osml.policies.osml.node import Cell
from osml.predictors import Predictor

SURE = 0.95
"""Coverage of the bound: the truth is above it in one of twenty cells."""

LEAST_SHOWN = 3
"""Intervals with a latency after which the model is asked."""

_NAN = float("nan")


class Situation(NamedTuple):
    """A service in its cell: what is known of it, its A' prediction, and the share of the CPUs that jobs have."""

    service: Service
    past: Past
    settled: int
    cell: Cell
    answer: Answer
    quantum: float
    jobs_share: float


def outlook(model: Predictor, asked: Iterable[tuple[Situation, Sequence[Cell]]]) -> list[list[float]]:
    """Bounds of log(latency over target) in the cells of each, settled, that hold for SURE.

    The model is called once for all. Raises what it raises, and ValueError for an answer of another length.
    """
    parts = [outlook_rows(at, cells) for at, cells in asked]
    rows = np.concatenate([inputs for inputs, _ in parts])
    above = model.predict(rows).upper(SURE)[:, 0]
    if above.shape != (len(rows),):
        raise ValueError(f"the model answers {above.shape} for {len(rows)} cells")
    bounds = iter((np.concatenate([prior for _, prior in parts]) + above).tolist())
    return [list(islice(bounds, len(prior))) for _, prior in parts]


def outlook_rows(at: Situation, cells: Sequence[Cell]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Inputs of Model-C' in the order of OUTLOOK_INPUTS, (cells, inputs), and the prior of each cell."""
    rows: list[list[float]] = []
    prior: list[float] = []
    past, counters, answer = at.past, at.service.counters, at.answer
    own = at.cell.cores * at.quantum
    wait = wait_of(counters.cpu_usage_cores, own)
    latency = at.service.latency
    samples = 0 if latency is None or latency.samples is None else latency.samples
    offset = past.offset or (_NAN,) * 4
    mean, use, rate = past.mean or (_NAN,) * 2, past.use or (_NAN,) * 2, past.rate or (_NAN,) * 2
    fixed = [
        *offset, *mean, use[0], use[0] - use[1], rate[0] - rate[1],
        (use[0] - rate[0]) - (use[1] - rate[1]), math.log1p(samples), math.log1p(past.latencies),
        math.log1p(min(at.settled, 20)), wait,
        _or_nan(counters.ipc), _log(counters.llc_misses, 1.0), _log(counters.bandwidth_gbps, 0.01),
        _or_nan(counters.frequency_ghz), at.jobs_share, 0.0 if answer.model == NO_MODEL else 1.0,
    ]  # fmt: skip
    needs = [math.log(max(cpus, 0.5)) for cpus in (answer.oaa[0], answer.oaa_upper[0], answer.upper[0])]
    cpus_in_use = math.exp(use[0])
    for cell in cells:
        cpus, ways = cell.cores * at.quantum, max(cell.ways, 1)
        utilisation = min(cpus_in_use / max(cpus, 0.5), 1.5) if past.use else _NAN
        there = wait_log(utilisation, cpus) if past.use else NO_USE
        log_cpus = math.log(cpus)
        rows.append([
            *fixed, log_cpus, log_cpus - math.log(own), cell.ways, cell.ways - at.cell.ways, utilisation, there,
            there - wait, *[need - log_cpus for need in needs], answer.oaa[1] / ways, answer.upper[1] / ways,
        ])  # fmt: skip
        prior.append(offset[1] + there)
    return np.array(rows, np.float32), np.array(prior)


def _or_nan(value: float | None) -> float:
    return _NAN if value is None else value


def _log(value: float | None, least: float) -> float:
    return _NAN if value is None else math.log(max(value, least))
