"""Event simulation of a farm, server by server: it shares nothing with the chain of `phases` but the policy.

Times between events are drawn for single servers; nothing is uniformised, lumped or cut off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.dispatch.mdp.model import Farm
from osml.dispatch.mdp.phases import Phases
from osml.dispatch.mdp.policy import Policy
from osml.lab.dispatch.events import run

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BATCHES = 32
STUDENT_95 = 2.0395
"""Two-sided 95 % quantile of Student's t with 31 degrees of freedom."""
_MAX_CODES = 1 << 24
_WARM_UP = 4
"""Batches that are thrown away first."""


@dataclass(frozen=True)
class Simulated:
    """Mean number in system with the half-width of its 95 % confidence interval (batch means)."""

    mean: float
    half_width: float
    batches: FloatArray

    def agrees_with(self, value: float, widths: float = 1.0) -> bool:
        """Whether a value lies within so many half-widths."""
        return abs(value - self.mean) <= widths * self.half_width


def simulate(farm: Farm, phases: Phases, policy: Policy, *, time: float, seed: int) -> Simulated:
    """Simulate `time` units after an eighth of it as warm-up, from an empty farm. Raises InputError for time <= 0."""
    if not time > 0:
        raise InputError(f"time is {time}, expected more than 0")
    kinds = np.array([k for k, kind in enumerate(farm.kinds) for _ in range(kind.count)], dtype=np.int64)
    n_modes = max(len(kind.rates) for kind in farm.kinds)
    rates = np.zeros((len(farm.kinds), n_modes))
    switching = np.zeros((len(farm.environment), len(farm.kinds), n_modes, n_modes))
    classes = np.full((len(farm.kinds), n_modes), -1, dtype=np.int64)
    for k, kind in enumerate(farm.kinds):
        rates[k, : len(kind.rates)] = kind.rates
        for e, matrix in enumerate(kind.switching):
            switching[e, k, : len(kind.rates), : len(kind.rates)] = matrix
            np.fill_diagonal(switching[e, k], 0.0)
    for j, (k, mode) in enumerate(phases.classes):
        classes[k, mode] = j
    environment = np.array(farm.environment, dtype=np.float64)
    np.fill_diagonal(environment, 0.0)
    choice = np.vstack([policy.choice, policy.tail])
    areas = run(
        farm.arrival,
        kinds,
        rates,
        switching,
        environment,
        classes,
        _codes(farm, phases),
        choice,
        farm.epochs == "anytime",
        time / BATCHES,
        BATCHES,
        _WARM_UP,
        seed,
    )
    means = areas / (time / BATCHES)
    return Simulated(float(means.mean()), float(STUDENT_95 * means.std(ddof=1) / np.sqrt(BATCHES)), means)


def _codes(farm: Farm, phases: Phases) -> IntArray:
    """From the state of the servers, as digits to the base servers + 1, to the row of the policy."""
    base, n_classes = farm.servers + 1, len(phases.classes)
    length = len(farm.environment) * base ** (2 * n_classes - 1)
    if length > _MAX_CODES:
        raise InputError(f"{n_classes} classes of {farm.servers} servers are too many to simulate")
    codes = np.full(length, -1, dtype=np.int64)
    for s, (environment, counts, busy) in enumerate(phases.listed):
        code = environment
        for digit in (*counts, *busy):
            code = code * base + digit
        codes[code] = s
    return codes
