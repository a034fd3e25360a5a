"""Thresholds of the paper's farm: from a solution, and as a table that a live dispatcher asks at each decision."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from osml.base.failure import InputError
from osml.dispatch.mdp.evaluate import evaluate
from osml.dispatch.mdp.model import paper_farm
from osml.dispatch.mdp.parameters import FarmParameters
from osml.dispatch.mdp.phases import enumerate_phases
from osml.dispatch.mdp.policy import HOLD, threshold_policy
from osml.dispatch.mdp.policy_iteration import Solution, solve_farm

Thresholds = Mapping[tuple[int, int], int | None]

NEVER = None
"""As a threshold: a server under interference is never used."""


@dataclass(frozen=True)
class ThresholdTable:
    """N(i, b): the smallest number in system, before an arrival, at which the job goes to an idle server under
    interference, when i servers are under interference and b of these are busy. 0 <= b < i <= servers.

    Q(i, b) = N - b - (servers - i) is the same as a queue length (paper, section IV-B).
    """

    servers: int
    sizes: Thresholds

    @classmethod
    def non_idling(cls, servers: int) -> ThresholdTable:
        """Use whatever is idle."""
        return cls(servers, {(i, b): servers - i + b for i in range(1, servers + 1) for b in range(i)})

    @classmethod
    def avoid(cls, servers: int) -> ThresholdTable:
        """Never send a job to a server under interference."""
        return cls(servers, {(i, b): NEVER for i in range(1, servers + 1) for b in range(i)})

    def size(self, interfered: int, busy_interfered: int) -> int | None:
        """N(i, b). Raises InputError for a state without an idle server under interference."""
        if (interfered, busy_interfered) not in self.sizes:
            raise InputError(
                f"no threshold for {interfered} servers under interference, {busy_interfered} of them busy, expected "
                f"0 <= busy < interfered <= {self.servers}"
            )
        return self.sizes[interfered, busy_interfered]

    def queue(self, interfered: int, busy_interfered: int) -> int | None:
        """Q(i, b), jobs waiting."""
        size = self.size(interfered, busy_interfered)
        return None if size is None else size - busy_interfered - (self.servers - interfered)

    def uses(self, jobs: int, interfered: int, busy_interfered: int) -> bool:
        """Whether an arriving job that finds `jobs` in system goes to an idle server under interference.

        At a completion on such a server the same is asked with the jobs that were in system before it, less two, and
        the busy ones without it: the waiting job then counts as the arriving one.
        """
        size = self.size(interfered, busy_interfered)
        return size is not None and jobs >= size

    def named(self) -> dict[str, int | None]:
        """The paper's names for two servers; `N(i,b)` otherwise."""
        if self.servers == 2:
            return {"N_i": self.size(1, 0), "N_ib": self.size(2, 1), "N_ii": self.size(2, 0)}
        return {f"N({i},{b})": size for (i, b), size in sorted(self.sizes.items())}

    def named_queues(self) -> dict[str, int | None]:
        """The same as queue lengths: Q_i, Q_ib, Q_ii for two servers."""
        if self.servers == 2:
            return {"Q_i": self.queue(1, 0), "Q_ib": self.queue(2, 1), "Q_ii": self.queue(2, 0)}
        return {f"Q({i},{b})": self.queue(i, b) for i, b in sorted(self.sizes)}


@dataclass(frozen=True)
class FarmSolution:
    """The solved farm of the paper. Means are numbers in system; see Solution for error_bound and truncation."""

    parameters: FarmParameters
    table: ThresholdTable
    solution: Solution

    @property
    def is_threshold_policy(self) -> bool:
        """Whether in every state a server that is used is also used with more jobs waiting (proposition IV.2)."""
        return all(_switches_once(self.solution, s) for s in range(self.solution.phases.size))


def solve(parameters: FarmParameters, limit_s: float = math.inf) -> FarmSolution:
    """Solve the farm of the paper. Raises InputError for parameters without an answer, or without one in `limit_s`."""
    solution = solve_farm(paper_farm(parameters.checked()), limit_s)
    return FarmSolution(parameters, ThresholdTable(parameters.servers, _read_thresholds(solution)), solution)


@lru_cache(maxsize=1024)
def thresholds_for(parameters: FarmParameters, limit_s: float = math.inf) -> ThresholdTable:
    """The optimal thresholds, solved once per parameter set of this process. Raises InputError as `solve` does.

    Live estimates move all the time: ask with `parameters.rounded()`.
    """
    return solve(parameters, limit_s).table


def mean_number(parameters: FarmParameters, table: ThresholdTable) -> float:
    """Mean number in system under any thresholds, exact. Raises InputError when they make the queue unstable."""
    phases = enumerate_phases(paper_farm(parameters.checked()))
    policy = threshold_policy(phases, table.sizes)
    return evaluate(phases, policy, repeated=parameters.epochs == "anytime").mean


def _first_waiting(solution: Solution, s: int) -> int:
    """Fewest jobs in system with which one waits in phase s."""
    return int(solution.phases.n_slow_busy[s] + solution.phases.n_fastest[s]) + 1


def _read_thresholds(solution: Solution) -> dict[tuple[int, int], int | None]:
    found: dict[tuple[int, int], int | None] = {}
    choice = solution.policy.choice
    for s, (_, counts, busy) in enumerate(solution.phases.listed):
        if busy[0] < counts[1]:
            first = _first_waiting(solution, s)
            held = (n for n in range(first, len(choice)) if choice[n, s] != HOLD)
            # The level is after the arrival, the threshold before it.
            found[counts[1], busy[0]] = next(held, max(first, len(choice))) - 1
    return found


def _switches_once(solution: Solution, s: int) -> bool:
    used = solution.policy.choice[_first_waiting(solution, s) :, s] != HOLD
    return bool((used[1:] >= used[:-1]).all())
