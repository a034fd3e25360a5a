"""Beyond the paper: several levels of interference, servers of different speed, correlated interference.

Each farm is solved exactly, and beside it the paper's two-level model of the same farm: its thresholds are applied to
the real farm, so that one sees what the simplification costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from osml.base.failure import InputError
from osml.dispatch.mdp.evaluate import evaluate
from osml.dispatch.mdp.model import Farm, Matrix, ServerKind, long_run_shares, paper_farm
from osml.dispatch.mdp.parameters import FarmParameters
from osml.dispatch.mdp.policy import threshold_policy
from osml.dispatch.mdp.policy_iteration import Solution, solve_farm
from osml.dispatch.mdp.thresholds import ThresholdTable, thresholds_for


@dataclass(frozen=True)
class Comparison:
    """A farm, its two-level model and its mean numbers in system: optimal, and under the thresholds of the model."""

    farm: Farm
    model: FarmParameters
    table: ThresholdTable
    solution: Solution
    mean_two_level: float

    @property
    def loss_pct(self) -> float:
        """How much worse the two-level thresholds are than the optimum, percent."""
        return 100.0 * (self.mean_two_level / self.solution.mean_optimal - 1.0)

    @property
    def kept_pct(self) -> float | None:
        """Share of the optimum's gain over non-idling that the two-level thresholds bring; None without such a gain."""
        gain = self.solution.mean_non_idling - self.solution.mean_optimal
        if gain <= 1e-6 * self.solution.mean_optimal:
            return None
        return 100.0 * (self.solution.mean_non_idling - self.mean_two_level) / gain


def several_levels(parameters: FarmParameters, rates: Sequence[float], shares: Sequence[float]) -> Farm:
    """Interference of several strengths: it strikes at alpha_high and is of strength j with probability shares[j].

    rates: service rate under each strength, in place of mu_low. Raises InputError when shares don't add up to 1.
    """
    if len(rates) != len(shares) or abs(sum(shares) - 1.0) > 1e-9:
        raise InputError(f"shares are {list(shares)} for {len(rates)} rates, expected as many that add up to 1")
    size = len(rates) + 1
    switching = [[0.0] * size for _ in range(size)]
    for j, share in enumerate(shares, start=1):
        switching[0][j] = parameters.alpha_high * share
        switching[j][0] = parameters.alpha_low
    kind = ServerKind(parameters.servers, (parameters.mu_high, *rates), (_frozen(switching),))
    return Farm(parameters.arrival, (kind,), epochs=parameters.epochs)


def different_speeds(parameters: FarmParameters, counts: Sequence[int], speeds: Sequence[float]) -> Farm:
    """counts[j] servers whose rates are speeds[j] times the paper's, with and without interference."""
    if len(counts) != len(speeds) or sum(counts) != parameters.servers:
        raise InputError(
            f"counts are {list(counts)}, expected {len(speeds)} that add up to {parameters.servers} servers"
        )
    base = paper_farm(parameters)
    kinds = [
        replace(base.kinds[0], count=count, rates=tuple(speed * rate for rate in base.kinds[0].rates))
        for count, speed in zip(counts, speeds, strict=True)
    ]
    return replace(base, kinds=tuple(kinds))


def correlated(parameters: FarmParameters, strength: float, switching: float) -> Farm:
    """Interference that comes in waves: a common environment, quiet or noisy for equal times, switches at `switching`.

    strength from 0 (the paper's farm) to 1: in quiet times interference strikes at (1 - strength) alpha_high and leaves
    at (1 + strength) alpha_low, in noisy times the other way round.
    """
    if not 0 <= strength <= 1:
        raise InputError(f"strength is {strength}, expected 0 to 1")
    less, more = 1.0 - strength, 1.0 + strength
    high, low = parameters.alpha_high, parameters.alpha_low
    quiet: Matrix = ((0.0, less * high), (more * low, 0.0))
    noisy: Matrix = ((0.0, more * high), (less * low, 0.0))
    kind = ServerKind(parameters.servers, (parameters.mu_high, parameters.mu_low), (quiet, noisy))
    return Farm(parameters.arrival, (kind,), ((0.0, switching), (switching, 0.0)), parameters.epochs)


def two_level_model(farm: Farm) -> FarmParameters:
    """The paper's farm with the same mean rates: what an observer sees who only tells interference from none.

    Mode 0 of each kind is free of interference. Rates are long-run means over servers, modes and environments.
    """
    free = under = free_work = under_work = struck = 0.0
    for kind in farm.kinds:
        shares = long_run_shares(kind, farm.environment)  # (environments, modes)
        rates = np.array(kind.rates)
        free += kind.count * float(shares[:, 0].sum())
        under += kind.count * float(shares[:, 1:].sum())
        free_work += kind.count * float(shares[:, 0].sum() * rates[0])
        under_work += kind.count * float((shares[:, 1:] @ rates[1:]).sum())
        for e, matrix in enumerate(kind.switching):
            struck += kind.count * float(shares[e, 0]) * sum(matrix[0][1:])
    if free <= 0 or under <= 0:
        raise InputError("a farm that is never, or always, under interference has no two-level model")
    mu_high, mu_low = free_work / free, under_work / under
    return FarmParameters(farm.servers, farm.arrival, mu_high, mu_low, struck / free, struck / under, farm.epochs)


def compare(farm: Farm) -> Comparison:
    """Solve a farm and its two-level model, and apply the thresholds of the model to the farm."""
    solution, model = solve_farm(farm), two_level_model(farm)
    table = thresholds_for(model)
    policy = threshold_policy(solution.phases, table.sizes)
    mean = evaluate(solution.phases, policy, repeated=farm.epochs == "anytime").mean
    return Comparison(farm, model, table, solution, mean)


def _frozen(rows: Sequence[Sequence[float]]) -> Matrix:
    return tuple(tuple(row) for row in rows)
