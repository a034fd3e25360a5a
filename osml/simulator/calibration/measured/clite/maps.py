"""CLITE's figures from calibrated services: regions of one service, and what an oracle reaches with several."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from osml.simulator.calibration.measured.clite.law import NODE, Service, meets_target
from osml.simulator.columns import FloatArray, IntArray

NONE = 99
"""No number of ways is enough."""

LOADS = [(i + 1) / 10 for i in range(10)]
"""Fractions of max load of the rows and columns of all maps."""

CACHE_LOSS = 0.08
"""What all ways but none would cost streamcluster: read off figure 12."""


def least_ways(p: Service, loads: Sequence[float]) -> IntArray:
    """Least ways for each load and number of physical cores, NONE where no number is enough; more cores never hurt."""
    table = np.full((len(loads), NODE.cores), NONE, dtype=np.int64)
    for i, load in enumerate(loads):
        for cores in range(1, NODE.cores + 1):
            enough = (ways for ways in range(1, NODE.ways + 1) if meets_target(p, cores, ways, load))
            table[i, cores - 1] = next(enough, NONE)
    return np.minimum.accumulate(table, axis=1)


def oracle_map(rows: Service, columns: Service, third: Service, jobs: int = 0) -> FloatArray:
    """Most load of `third` in % beside each load of the other two, 0 where none; `jobs` take a core and a way each."""
    a, b, c = (least_ways(p, LOADS) for p in (rows, columns, third))
    cores, ways = NODE.cores - jobs, NODE.ways - jobs
    best = np.zeros((10, 10))
    for n in range(1, cores - 1):
        for m in range(1, cores - n):
            needs = a[:, n - 1][:, None, None] + b[:, m - 1][None, :, None] + c[:, cores - n - m - 1][None, None, :]
            best = np.maximum(best, np.where(needs <= ways, np.arange(1, 11) * 10.0, 0.0).max(axis=2))
    return best


def rounds(cores: int, threads: int) -> float:
    """Speed of a job whose `threads` meet at barriers, on so many cores, over that on the whole machine."""
    return math.ceil(threads / (2 * NODE.cores)) / math.ceil(threads / (2 * cores))


def job_map(rows: Service, columns: Service, threads: int) -> FloatArray:
    """Most performance in % of a barrier job beside two services, 0 where they leave it nothing."""
    a, b = least_ways(rows, LOADS), least_ways(columns, LOADS)
    best = np.zeros((10, 10))
    for n in range(1, NODE.cores - 1):
        for m in range(1, NODE.cores - n):
            left = NODE.ways - a[:, n - 1][:, None] - b[:, m - 1][None, :]
            lost = CACHE_LOSS * (NODE.ways - left) / (NODE.ways - 1)
            speed = 100.0 * rounds(NODE.cores - n - m, threads) * (1.0 - lost)
            best = np.maximum(best, np.where(left >= 1, speed, 0.0))
    return best
