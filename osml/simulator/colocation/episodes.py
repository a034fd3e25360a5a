"""Draws episodes: who is on a node, under which loads, and with which partition it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from osml.base.failure import InputError
from osml.simulator.colocation.config import EnvironmentConfig
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.fleet import EMPTY
from osml.simulator.load_traces import random_trace, sample
from osml.simulator.mix import Mix
from osml.simulator.models import PlatformModel


@dataclass(frozen=True)
class Episode:
    """One run of a node. `kinds` (places,) are who will be there at some time (EMPTY: nobody), jobs in the last place.

    `loads` (places, horizon + 1) are NaN while a service isn't there; column 0 is the time before the first action.
    """

    kinds: IntArray
    loads: FloatArray
    cores: IntArray
    ways: IntArray
    noise_seed: int


def shares(total: int, weights: Sequence[float] | FloatArray) -> list[int]:
    """Split `total` by weights, at least 1 each; what rounding leaves over goes to nobody."""
    spare = total - len(weights)
    scale = sum(weights)
    return [1 + int(spare * weight / scale) for weight in weights]


def _partition(
    config: EnvironmentConfig, platform: PlatformModel, there: Sequence[int], has_job: bool, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Counts of the services in the places `there`; a random start leaves something to take, an even one nothing."""
    cores, ways = np.zeros(config.places, np.int64), np.zeros(config.places, np.int64)
    for counts, total in ((cores, platform.cpus), (ways, platform.ways)):
        extra = has_job or config.start == "random"
        n = len(there) + extra
        weights = np.ones(n) if config.start == "even" else rng.dirichlet(np.ones(n))
        counts[list(there)] = shares(total, weights)[: len(there)]
    return cores, ways


def _there(config: EnvironmentConfig, rng: np.random.Generator, always: bool) -> tuple[int, int]:
    """First interval of a service, and the first without it again."""
    if always or rng.random() >= config.churn:
        return 0, config.horizon + 1
    at = int(rng.integers(1, config.horizon + 1))
    return (at, config.horizon + 1) if rng.random() < 0.5 else (0, at)


def draw_episode(config: EnvironmentConfig, platform: PlatformModel, rng: np.random.Generator) -> Episode:
    """A random episode; the same generator state gives the same one."""
    n = int(rng.integers(config.min_services, config.max_services + 1))
    chosen = rng.permutation(len(config.services))[:n]
    has_job = bool(config.jobs) and rng.random() < config.job_probability
    kinds = np.full(config.places, EMPTY, np.int64)
    loads = np.full((config.places, config.horizon + 1), np.nan)
    kinds[:n] = chosen
    if has_job:
        kinds[-1] = len(config.services) + int(rng.integers(len(config.jobs)))
        loads[-1] = 0.0
    span = config.horizon * config.interval_s
    for place in range(n):
        first, end = _there(config, rng, always=place == 0)
        trace = random_trace(
            config.traces[int(rng.integers(len(config.traces)))], rng, config.load_low, config.load_high, span
        )
        loads[place, first:end] = sample(trace, np.arange(end - first) * config.interval_s)
    there = [place for place in range(n) if not np.isnan(loads[place, 0])]
    cores, ways = _partition(config, platform, there, has_job, rng)
    return Episode(kinds, loads, cores, ways, int(rng.integers(2**63)))


def episode_of(mix: Mix, config: EnvironmentConfig, platform: PlatformModel, rng: np.random.Generator) -> Episode:
    """An episode of a given mix under constant loads; InputError where the environment doesn't have it."""
    if len(mix.loads) > config.max_services or len(mix.jobs) > 1:
        raise InputError(
            f"mix has {len(mix.loads)} services and {len(mix.jobs)} jobs, expected at most {config.max_services} "
            "(max_services) and 1"
        )
    for name, known in [*((x, config.services) for x in mix.loads), *((x, config.jobs) for x in mix.jobs)]:
        if name not in known:
            raise InputError(f"mix: '{name}' is not part of this environment, known are {', '.join(known) or 'none'}")
    kinds = np.full(config.places, EMPTY, np.int64)
    loads = np.full((config.places, config.horizon + 1), np.nan)
    for place, (name, load) in enumerate(mix.loads.items()):
        kinds[place], loads[place] = config.services.index(name), load
    if mix.jobs:
        kinds[-1], loads[-1] = len(config.services) + config.jobs.index(mix.jobs[0]), 0.0
    cores, ways = _partition(config, platform, range(len(mix.loads)), bool(mix.jobs), rng)
    return Episode(kinds, loads, cores, ways, int(rng.integers(2**63)))
