"""The optimal dispatch policy of a farm, by policy iteration with an exact tail (paper, section III).

Each round solves the chain under the current decisions exactly (evaluate) and takes in every state the decision that is
best against the relative values found (improve). Above the truncation jobs go to an idle server whenever one is there;
the truncation is moved with each round to just above the highest state in which waiting is better.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import Failure, InputError
from osml.dispatch.mdp.evaluate import Evaluation, evaluate
from osml.dispatch.mdp.improve import TIE, improve_levels
from osml.dispatch.mdp.model import Farm
from osml.dispatch.mdp.phases import MEMORY_LIMIT, Phases, enumerate_phases, memory_needed
from osml.dispatch.mdp.policy import HOLD, Policy, non_idling

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_MAX_ROUNDS = 5000
"""Mostly 2 to 20 are needed; with switching slower than service by 10^4, thresholds creep up by one a round."""
_QUIET_LEVELS = 32
"""Levels above the last exception, besides half its height, that have to agree with the tail."""


@dataclass(frozen=True)
class Solution:
    """What the policy iteration ends with.

    mean_optimal is right to error_bound: by no more can any policy be better, in exact arithmetic on the infinite
    chain; it includes the difference between two ways to compute the mean. truncation: the level from which on the
    tail decides. rounds: evaluations that were needed.
    """

    farm: Farm
    phases: Phases
    policy: Policy
    optimal: Evaluation
    mean_optimal: float
    mean_non_idling: float
    error_bound: float
    rounds: int
    seconds: float

    @property
    def improvement_pct(self) -> float:
        """How much lower the mean number in system is than under non-idling, percent."""
        return 100.0 * (self.mean_non_idling - self.mean_optimal) / self.mean_non_idling

    @property
    def truncation(self) -> int:
        """Level from which on every level decides alike."""
        return self.optimal.top


class TimeLimitError(Failure):
    """No solution within the limit."""


def solve_farm(farm: Farm, limit_s: float = math.inf) -> Solution:
    """Solve any farm. Raises InputError for a farm without an answer, too large for the memory, or not solved within
    about `limit_s`.
    """
    start = time.perf_counter()
    farm = farm.checked()
    phases = enumerate_phases(farm)
    repeated = farm.epochs == "anytime"
    rates = _decision_rates(phases)
    evaluation = evaluate(phases, non_idling(phases), repeated=repeated)
    mean_non_idling = evaluation.mean
    if repeated:  # waiting costs little when it can be ended at any event: from below, thresholds would creep up by one
        start_from = solve_farm(replace(farm, epochs="literal"), limit_s).policy
        evaluation = evaluate(phases, start_from, repeated=True)
    evaluation, rounds = _iterate(evaluation, repeated, rates, start, limit_s)
    checked_mean = evaluation.mean_by_distribution()
    overlooked = TIE * float(np.abs(evaluation.values).max()) * float(rates.max())
    return Solution(
        farm,
        phases,
        evaluation.policy,
        evaluation,
        evaluation.mean,
        mean_non_idling,
        abs(checked_mean - evaluation.mean) + overlooked,
        rounds,
        time.perf_counter() - start,
    )


def _iterate(
    evaluation: Evaluation, repeated: bool, rates: FloatArray, start: float, limit_s: float
) -> tuple[Evaluation, int]:
    """Policy iteration to its end, and the rounds it took."""
    for rounds in range(1, _MAX_ROUNDS + 1):
        policy, largest = _improve(evaluation, repeated, rates)
        if largest <= 0.0:
            return evaluation, rounds
        if time.perf_counter() - start > limit_s:
            raise TimeLimitError(
                f"no solution within {limit_s:g} s: after {rounds} rounds, thresholds reach {evaluation.top} jobs in "
                "system; allow more time, or give rates that are less far apart"
            )
        same_tail = np.array_equal(policy.tail, evaluation.policy.tail)
        centre = int(np.argmax(evaluation.shares().sum(axis=1)))
        tail = evaluation.tail if same_tail else None
        evaluation = evaluate(evaluation.phases, policy, repeated=repeated, centre=centre, tail=tail)
    raise Failure(f"policy iteration did not converge in {_MAX_ROUNDS} rounds; report the parameters")


def _decision_rates(phases: Phases) -> FloatArray:
    """An upper bound on how often a decision that leads out of each phase is taken: all events together."""
    events = phases.events
    sums = np.add.reduceat(events.unit * np.where(events.weight > 0, phases.servers, 1), events.first[:-1])
    return np.full(phases.size, float(sums.max()))


def _best_tail(evaluation: Evaluation) -> IntArray:
    """Far up, the class whose use costs least per waiting job; what was chosen before where that is no worse."""
    phases, growth, tail = evaluation.phases, evaluation.tail.growth, evaluation.policy.tail.copy()
    tie = 1e-9 * float(np.abs(growth).max())
    for s in range(phases.size):
        for j in range(1, phases.gain.shape[1]):
            to = phases.gain[s, j]
            if to >= 0 and (tail[s] == HOLD or growth[to] < growth[phases.gain[s, tail[s]]] - tie):
                tail[s] = j
    return tail


def _improve(evaluation: Evaluation, repeated: bool, rates: FloatArray) -> tuple[Policy, float]:
    """The improved policy, and the largest gain (0: nothing changed)."""
    phases, tail = evaluation.phases, _best_tail(evaluation)
    new_tail = 0.0 if np.array_equal(tail, evaluation.policy.tail) else 1.0
    known = len(evaluation.policy.choice)
    levels = 2 * max(known, phases.servers) + 2 * _QUIET_LEVELS
    while True:
        if memory_needed(phases.size, levels // 2) > MEMORY_LIMIT:
            raise InputError(
                f"mu_low is so small that the thresholds are above {levels // 2} jobs in system and need more than "
                f"{MEMORY_LIMIT / 2**30:g} GiB: use no servers under interference instead"
            )
        rows = np.vstack([evaluation.policy.choice, np.tile(tail, (levels - known, 1))])
        last, largest = improve_levels(
            evaluation.top,
            evaluation.sizes,
            evaluation.values,
            evaluation.tail.passage,
            evaluation.first_sums,
            evaluation.tail.time,
            evaluation.mean,
            phases.n_fastest,
            phases.n_slow_busy,
            phases.gain,
            repeated,
            tail,
            _QUIET_LEVELS,
            phases.servers,
            rows,
            rates,
        )
        if last >= 0:
            return Policy(rows[: last + 1].copy(), tail), max(largest, new_tail)
        levels *= 2
