"""Rounds in which all servers answer the same questions in turn: a busy machine is busy for all of them."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from osml.lab.benchmarks.harness import machine
from osml.lab.benchmarks.model_servers.environments import NoEnvironmentError
from osml.lab.benchmarks.model_servers.measure import (
    CONNECTIONS,
    NoAnswerError,
    Sample,
    check,
    questions,
    sample,
    wait_ready,
)
from osml.lab.benchmarks.model_servers.running import running
from osml.lab.benchmarks.model_servers.servers import Floats, Server, versions
from osml.lab.benchmarks.server_process import Running, two_cores
from osml.predictors import Predictor, load_predictor

SIZES = (1, 32)


class Spread(Struct):
    """A figure over the rounds."""

    median: float
    min: float
    max: float


class Figures(Struct):
    """Of one server, for questions of so many rows. `cpu_us` is microseconds of CPU time for a request."""

    server: str
    rows: int
    requests_per_s: Spread
    cpu_us: Spread
    cpu_ratio: float
    """Median over the rounds of its CPU time over that of the first server in the same round."""


class Comparison(Struct):
    """What `compare` found, and under which conditions; `left_out` says why a server is not in it."""

    name: str
    model: str
    rounds: int
    seconds: float
    connections: int
    cpu_of_servers: int
    cpu_of_load: int
    load_average: tuple[float, float]
    """Of the machine, before and after; two of it are ours."""
    machine: dict[str, object]
    versions: dict[str, str]
    left_out: dict[str, str]
    cases: list[Figures]


class Case(NamedTuple):
    """One server that runs, and a question of so many rows."""

    server: Server
    rows: int
    started: Running
    path: str
    body: bytes


def compare(servers: Sequence[Server], model: Path, *, rounds: int, seconds: float) -> Comparison:
    """The figures of all servers that can be had.

    Raises WrongAnswerError where a server does not answer as the model does.
    """
    predictor = load_predictor(model)
    asked = {rows: questions(predictor, rows) for rows in SIZES}
    left_out: dict[str, str] = {}
    cases: list[Case] = []
    load_before = os.getloadavg()[0]
    with two_cores() as (ours, theirs), contextlib.ExitStack() as stack:
        for server in servers:
            try:
                started = stack.enter_context(running(server, model, ours))
                cases += [_case(server, started, predictor, features) for features in asked.values()]
            except (NoEnvironmentError, NoAnswerError) as error:
                left_out[server.name] = str(error)
        cases.sort(key=lambda case: case.rows)  # what is compared is measured side by side
        taken = [_round(cases, seconds) for _ in range(1 + rounds)][1:]  # the first one warms up
    return Comparison(
        name="model_servers",
        model=model.name,
        rounds=rounds,
        seconds=seconds,
        connections=CONNECTIONS,
        cpu_of_servers=ours,
        cpu_of_load=theirs,
        load_average=(load_before, os.getloadavg()[0]),
        machine=machine(),
        versions=versions(),
        left_out=left_out,
        cases=[_summary(case, cases, taken) for case in cases],
    )


def _case(server: Server, started: Running, predictor: Predictor, features: Floats) -> Case:
    """A question that the server answers as the model does."""
    path, body = server.path(predictor.metadata.name), server.body(features)
    answer = server.answer(wait_ready(started, path, body))
    prediction = predictor.predict(features)
    check(f"{server.name}, {len(features)} rows", answer, np.stack([prediction.points, prediction.spread]))
    return Case(server, len(features), started, path, body)


def _round(cases: Sequence[Case], seconds: float) -> list[Sample]:
    return [sample(case.started, case.path, case.body, seconds) for case in cases]


def _summary(case: Case, cases: Sequence[Case], taken: Sequence[Sequence[Sample]]) -> Figures:
    index = cases.index(case)
    first = next(n for n, other in enumerate(cases) if other.rows == case.rows)
    return Figures(
        server=case.server.name,
        rows=case.rows,
        requests_per_s=_spread([one[index].requests_per_s for one in taken]),
        cpu_us=_spread([one[index].cpu_us for one in taken]),
        cpu_ratio=statistics.median(one[index].cpu_us / one[first].cpu_us for one in taken),
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))
