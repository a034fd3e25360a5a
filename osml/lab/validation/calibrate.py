"""From a service's fit cells to its profile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from osml.lab.trials.live.services import Service
from osml.lab.validation.cells import Row
from osml.lab.validation.profiles import Profile
from osml.lab.validation.simulate import Seen, simulate_cell
from osml.lab.validation.statistics import spread

POINTS = 201
ROUNDS = 4
LEAST_SHARE = 0.05
"""No request takes less than this share of the mean."""

LONGEST = 0.995
"""Latencies beyond this quantile are not taken for work."""

LEAST_ERROR = 0.02
MOST_BESIDE = 4.0
"""Wake-ups beside a job cost at most so many times what they cost alone."""

LEAST_COOL_MS, MOST_COOL_MS = 0.01, 50.0
SIMULATED_S = 40.0
_SEED = 7


def work_of(row: Row) -> float:
    """CPU time a request in ms. Raises ValueError where nothing was answered."""
    if row.measured.throughput <= 0.0:
        raise ValueError(f"cell {row.cell.key} has no answered request")
    return 1000.0 * row.measured.cpu / row.measured.throughput


def wake_cost(row: Row, work_ms: float) -> float:
    """Mean CPU time that a wake-up costs in this cell, ms: a request wakes the service where it finds it asleep."""
    asleep = max(1.0 - row.measured.cpu / row.cell.cpus, 0.1)
    return max(work_of(row) - work_ms, 0.0) / asleep


def cooling(rates: tuple[float, float], costs: tuple[float, float]) -> tuple[float, float]:
    """(cost after a long sleep, cool_ms) from mean costs of a wake-up at two rates a ms, the lower one first.

    Sleeps are exponential with the rate, so the mean cost is `cost / (1 + rate * cool_ms)`.
    """
    if costs[1] <= 0.0 or costs[0] <= costs[1]:
        return (0.5 * (costs[0] + costs[1]), LEAST_COOL_MS)
    ratio = costs[0] / costs[1]
    room = rates[1] - rates[0] * ratio
    cool = MOST_COOL_MS if room <= 0.0 else min(max((ratio - 1.0) / room, LEAST_COOL_MS), MOST_COOL_MS)
    return (costs[0] * (1.0 + rates[0] * cool), cool)


def profile_of(service: Service, fits: list[Row]) -> Profile:
    """Read the profile; `fits` are rows of `design.fit_cells`, in that order."""
    low, high, stress, saturated = fits[0], fits[1], fits[2], fits[4]
    work = work_of(saturated)
    rates = [row.measured.throughput / 1000.0 for row in fits]
    wake, cool = cooling((rates[0], rates[1]), (wake_cost(low, work), wake_cost(high, work)))
    beside = [
        min(wake_cost(row, work) * (1.0 + rate * cool) / max(wake, 1e-9), MOST_BESIDE)
        for row, rate in zip(fits[2:4], rates[2:4], strict=True)
    ]
    # The work of one cell is the mean over its requests: its error is theirs, and what the law of wake-ups leaves out.
    samples = max(min(row.measured.samples for row in fits), 1)
    profile = Profile(
        service.name, service.threads, service.bound, work, wake, cool, beside[0], beside[1],
        0.0, 0.0, (1.0, 1.0), LEAST_ERROR, 0.05, 1000.0 * low.measured.generator_cpu / low.measured.throughput,
    )  # fmt: skip
    profile = _with_shape(profile, low)
    error = max(LEAST_ERROR, float(np.std(profile.shape)) / samples**0.5)
    return replace(profile, base_busy_ms=_base(profile, stress), work_error=error)


def _simulated(profile: Profile, row: Row) -> Seen:
    return simulate_cell(row.cell, row.measured.rate, profile, SIMULATED_S, _SEED)


def _base(profile: Profile, row: Row) -> float:
    """What the median of a cell has that the simulation has not."""
    bare = replace(profile, base_ms=0.0, base_busy_ms=0.0)
    median = float(np.median(_simulated(bare, row).response_ms))
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
        trial = replace(profile, shape=tuple(shape.tolist()), base_ms=base)
        seen = np.quantile(_simulated(trial, row).response_ms, levels)
        base = max(base + mean - float(seen.mean()), 0.0)
        # Of what is more than the base, a part is the same for all requests: the cost of the wake-up.
        fixed = base + max(work - profile.work_ms, 0.0)
        shape *= np.maximum(wanted - fixed, LEAST_SHARE * work) / np.maximum(seen - fixed, LEAST_SHARE * work)
    shape = np.maximum.accumulate(np.maximum(shape / shape.mean(), LEAST_SHARE))
    return replace(profile, shape=tuple((shape / shape.mean()).tolist()), base_ms=base)
