"""From a service's fit cells to its profile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from osml.lab.studies.scheduler.columns import FloatArray
from osml.lab.trials.live.services import Service
from osml.lab.validation.cells import Row
from osml.lab.validation.profiles import Profile
from osml.lab.validation.simulate import simulate_cell
from osml.lab.validation.statistics import spread

POINTS = 201
ROUNDS = 4
LEAST_SHARE = 0.05
"""No request takes less than this share of the mean."""

LONGEST = 0.995
"""Latencies beyond this quantile are not taken for work."""

LEAST_ERROR, BASE_ERROR = 0.1, 0.05
"""Two measurements of one cell differ in CPU time a request by a tenth (55 pairs, seed 5150)."""

MOST_BESIDE = 4.0
"""Wake-ups beside a job cost at most so many times what they cost alone."""

LEAST_COOL_MS = 0.001
MOST_COLD = 3.0
"""After the longest sleep a wake-up costs at most so many times what it cost at the lower load on average: the law is
not carried further than what was seen."""

SIMULATED_S = 40.0
_SEED = 7


def work_of(row: Row) -> float:
    """CPU time a request in ms. Raises ValueError where nothing was answered."""
    if row.measured.throughput <= 0.0:
        raise ValueError(f"cell {row.cell.key} has no answered request")
    return 1000.0 * row.measured.cpu / row.measured.throughput


def wake_cost(row: Row, work_ms: float, service: Service) -> float:
    """Mean CPU time that a wake-up costs in this cell, ms: a request wakes a thread where it finds one asleep.

    A connection's thread always sleeps when its next request comes. Threads that share a queue sleep as often as the
    service leaves them idle.
    """
    asleep = 1.0 if service.bound else 1.0 - row.measured.cpu / min(row.cell.cpus, service.threads)
    return max(work_of(row) - work_ms, 0.0) / max(asleep, 0.1)


def cooling(rates: tuple[float, float], costs: tuple[float, float]) -> tuple[float, float]:
    """(cost after a long sleep, cool_ms) from mean costs of a wake-up at two rates a ms, the lower one first.

    Sleeps are exponential with the rate, so the mean cost is `cost * exp(-rate * cool_ms)`.
    """
    if costs[1] <= 0.0 or costs[0] <= costs[1] or rates[1] <= rates[0]:
        return (max(0.5 * (costs[0] + costs[1]), 0.0), LEAST_COOL_MS)
    cool = min(math.log(costs[0] / costs[1]) / (rates[1] - rates[0]), math.log(MOST_COLD) / rates[0])
    return (costs[0] * math.exp(rates[0] * cool), cool)


def typical(rows: Sequence[Row]) -> Row:
    """Of measurements of the same conditions the one with the median work, out of the quiet ones if there are any."""
    quiet = [row for row in rows if not row.measured.noisy]
    ordered = sorted(quiet or rows, key=work_of)
    return ordered[(len(ordered) - 1) // 2]


def profile_of(service: Service, warm: Row, fits: list[Row]) -> Profile:
    """Read the profile; `warm` is the row of `design.warm_cell`, `fits` those of `design.fit_cells`, in that order."""
    low, high, stress, saturated = fits[0], fits[1], fits[2], fits[4]
    work = min(work_of(row) for row in (warm, high, saturated))
    pair = sorted((row.measured.throughput / 1000.0, wake_cost(row, work, service)) for row in (warm, high))
    wake, cool = cooling((pair[0][0], pair[1][0]), (pair[0][1], pair[1][1]))
    factors = [
        min(
            wake_cost(row, work, service) * math.exp(row.measured.throughput / 1000.0 * cool) / max(wake, 1e-9),
            MOST_BESIDE,
        )
        for row in (low, stress, fits[3])
    ]
    # The work of one cell is the mean over its requests: its error is theirs, and what the law of wake-ups leaves out.
    samples = max(min(row.measured.samples for row in fits), 1)
    profile = Profile(
        service.name, service.threads, service.bound, work, work_of(saturated), wake, cool, factors[0], factors[1],
        factors[2], 0.0, 0.0, (1.0, 1.0), LEAST_ERROR, BASE_ERROR,
        1000.0 * low.measured.generator_cpu / low.measured.throughput,
    )  # fmt: skip
    # What varies from request to request alone at low load is also what an idle machine adds; beside a job it is also
    # what the job adds. The truth is between the two.
    shapes = [np.array(_with_shape(profile, row).shape) for row in (low, stress)]
    shape = np.sqrt(shapes[0] * shapes[1])
    profile = replace(profile, shape=tuple((shape / shape.mean()).tolist()))
    error = max(LEAST_ERROR, float(np.std(shape / shape.mean())) / samples**0.5)
    tight = None if fits[5].cell.quota is None else (fits[5].cell.quota, work_of(fits[5]))
    base, busy = _base(profile, low), _base(profile, stress)
    return replace(profile, base_ms=base, base_busy_ms=busy, work_error=error, tight=tight)


def _simulated_ms(profile: Profile, row: Row) -> FloatArray:
    """Latencies of the simulated cell in ms."""
    return simulate_cell(row.cell, row.measured.rate, profile, SIMULATED_S, _SEED).response_ms


def _base(profile: Profile, row: Row) -> float:
    """What the median of a cell has that the simulation has not."""
    bare = replace(profile, base_ms=0.0, base_busy_ms=0.0)
    median = float(np.median(_simulated_ms(bare, row)))
    return max((row.measured.p50_ms or 0.0) - median, 0.0)


def _with_shape(profile: Profile, row: Row) -> Profile:
    """Base and distribution of work with which the simulated cell has the measured distribution of latencies.

    At low load a latency is base plus work. What waiting adds is taken out by a few rounds of simulation.
    """
    # The few longest of all are disturbances rather than work.
    levels = np.clip(np.linspace(0.0, 1.0, POINTS), 0.0, LONGEST)
    wanted = spread(row.measured.histogram, levels)
    work = work_of(row)
    mean = float(np.mean(wanted))
    base = max(mean - work, 0.0)
    shape = np.maximum(wanted - base, LEAST_SHARE * work)
    for _ in range(ROUNDS):
        shape = np.maximum.accumulate(np.maximum(shape / shape.mean(), LEAST_SHARE))
        shape /= shape.mean()
        trial = replace(profile, shape=tuple(shape.tolist()), base_ms=base, base_busy_ms=base)
        seen = np.quantile(_simulated_ms(trial, row), levels)
        base = max(base + mean - float(seen.mean()), 0.0)
        # Of what is more than the base, a part is the same for all requests: the cost of the wake-up.
        fixed = base + max(work - profile.work_ms, 0.0)
        shape *= np.maximum(wanted - fixed, LEAST_SHARE * work) / np.maximum(seen - fixed, LEAST_SHARE * work)
    shape = np.maximum.accumulate(np.maximum(shape / shape.mean(), LEAST_SHARE))
    return replace(profile, shape=tuple((shape / shape.mean()).tolist()), base_ms=base)
