"""A farm as the solver sees it: kinds of servers, modes of interference, and a common environment.

The paper's farm is the smallest case: one kind, two modes, one environment. Several levels of interference are more
modes, servers of different speed more kinds, correlated interference a common environment that sets the rates at which
all servers switch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.dispatch.mdp.elimination import recurrent_state, stationary
from osml.dispatch.mdp.parameters import MAX_LOAD, Epochs, FarmParameters

FloatArray = NDArray[np.float64]
Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ServerKind:
    """`count` servers that are alike.

    rates: service rate in each mode. switching: one matrix per environment; [a][b] is the rate from mode a to mode b,
    the diagonal is ignored.
    """

    count: int
    rates: tuple[float, ...]
    switching: tuple[Matrix, ...]


@dataclass(frozen=True)
class Farm:
    """Servers behind one queue with Poisson arrivals. environment[a][b]: rate from environment a to b."""

    arrival: float
    kinds: tuple[ServerKind, ...]
    environment: Matrix = ((0.0,),)
    epochs: Epochs = "literal"

    @property
    def servers(self) -> int:
        """All servers of all kinds."""
        return sum(kind.count for kind in self.kinds)

    def capacity(self) -> float:
        """Mean service rate with every server busy: the arrival rate must be below it."""
        return sum(kind.count * _mean_rate(kind, self.environment) for kind in self.kinds)

    def checked(self) -> Farm:
        """Itself, if shapes and rates have a meaning and the queue is stable. Raises InputError."""
        if not self.kinds or not math.isfinite(self.arrival) or self.arrival <= 0:
            raise InputError(
                f"arrival is {self.arrival} for {len(self.kinds)} kinds, expected a rate above 0 and kinds"
            )
        _check_square("environment", self.environment, len(self.environment))
        for index, kind in enumerate(self.kinds):
            where = f"kinds[{index}]"
            if kind.count < 1 or not kind.rates:
                raise InputError(f"{where} has {kind.count} servers and {len(kind.rates)} modes, expected at least 1")
            if not all(math.isfinite(rate) and rate > 0 for rate in kind.rates):
                raise InputError(f"{where}.rates is {kind.rates}, expected finite rates above 0")
            if len(kind.switching) != len(self.environment):
                raise InputError(f"{where}.switching has {len(kind.switching)} matrices, expected one per environment")
            for matrix in kind.switching:
                _check_square(f"{where}.switching", matrix, len(kind.rates))
        if not self.arrival < MAX_LOAD * self.capacity():
            raise InputError(f"arrival is {self.arrival:g}, expected less than the capacity, {self.capacity():.6g}")
        return self


def paper_farm(parameters: FarmParameters) -> Farm:
    """The farm of the paper: mode 0 without interference, mode 1 under it."""
    switching = ((0.0, parameters.alpha_high), (parameters.alpha_low, 0.0))
    kind = ServerKind(parameters.servers, (parameters.mu_high, parameters.mu_low), (switching,))
    return Farm(parameters.arrival, (kind,), epochs=parameters.epochs)


def _check_square(where: str, matrix: Matrix, size: int) -> None:
    if len(matrix) != size or any(len(row) != size for row in matrix):
        raise InputError(f"{where} isn't {size} by {size}")
    for a, row in enumerate(matrix):
        for b, rate in enumerate(row):
            if a != b and (not math.isfinite(rate) or rate < 0):
                raise InputError(f"{where}[{a}][{b}] is {rate}, expected a finite rate of at least 0")


def long_run_shares(kind: ServerKind, environment: Matrix) -> FloatArray:
    """Share of time that one server spends in each environment and mode. (environments, modes)"""
    n_modes = len(kind.rates)
    size = n_modes * len(environment)
    generator = np.zeros((size, size))
    for e, matrix in enumerate(kind.switching):
        for a in range(n_modes):
            row = e * n_modes + a
            for b in range(n_modes):
                if a != b:
                    generator[row, e * n_modes + b] += matrix[a][b]
            for other, rate in enumerate(environment[e]):
                if other != e:
                    generator[row, other * n_modes + a] += rate
    return stationary(generator, recurrent_state(generator)).reshape(len(environment), n_modes)


def _mean_rate(kind: ServerKind, environment: Matrix) -> float:
    """Long-run mean service rate of one server that is always busy."""
    return float((long_run_shares(kind, environment) @ np.array(kind.rates)).sum())
