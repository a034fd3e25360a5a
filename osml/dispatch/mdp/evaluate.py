"""What a policy costs: mean number in system, relative values, stationary distribution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.dispatch.mdp.elimination import recurrent_state, relative_values, stationary
from osml.dispatch.mdp.phases import MEMORY_LIMIT, Phases, memory_needed
from osml.dispatch.mdp.policy import Policy, resolve
from osml.dispatch.mdp.sweeps import eliminate, spread_probabilities, spread_values
from osml.dispatch.mdp.tail import Tail, build_tail, linear_solve

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass
class Evaluation:
    """One policy, evaluated exactly. top: levels above it are the tail. mean: number in system in the long run.

    values: relative value h[n, s] of levels 0 to top, only differences mean anything. sizes: phases that exist on each
    level. first_sums: (jobs x time, time) from level top + 1 until top, by phase.
    """

    phases: Phases
    policy: Policy
    top: int
    tail: Tail
    mean: float
    values: FloatArray
    sizes: IntArray
    first_sums: FloatArray
    _centre: int
    _centre_shares: FloatArray
    _post: IntArray
    _lu: FloatArray
    _pivots: FloatArray
    _shares: FloatArray | None = field(default=None)

    def shares(self) -> FloatArray:
        """Stationary probabilities of levels 0 to top. (levels, phases)"""
        if self._shares is None:
            shares = np.zeros((self.top + 1, self.phases.size))
            shares[self._centre] = self._centre_shares
            spread_probabilities(
                self.top, self._centre, self.sizes, *_chain(self.phases, self._post), self._lu, self._pivots, shares
            )
            self._shares = shares
        return self._shares

    def mean_by_distribution(self) -> float:
        """Mean number in system from the stationary distribution: another way to the same figure."""
        shares = self.shares()
        rate = self.tail.rate_matrix()
        rest = np.eye(len(rate)) - rate
        above = linear_solve(rest.T, rate.T @ shares[self.top])  # sum of the tail's levels
        weighted = linear_solve(rest.T, above)  # sum of (level - top) times the level
        total = shares.sum() + above.sum()
        levels = np.arange(self.top + 1) @ shares.sum(axis=1)
        return float((levels + self.top * above.sum() + weighted.sum()) / total)

    def distribution(self, levels: int) -> FloatArray:
        """Probabilities of 0 to levels - 1 jobs in system."""
        marginal = list(self.shares().sum(axis=1)[:levels])
        rate, row = self.tail.rate_matrix(), self.shares()[self.top]
        while len(marginal) < levels:
            row = row @ rate
            marginal.append(row.sum())
        return np.array(marginal, dtype=np.float64)


class _Chain(NamedTuple):
    """The chain as the compiled sweeps take it: its events in arrays, sizes of the phases, decisions after events."""

    first: IntArray
    unit: FloatArray
    weight: IntArray
    delta: IntArray
    decides: IntArray
    target: IntArray
    n_fastest: IntArray
    n_slow_busy: IntArray
    post: IntArray


def _chain(phases: Phases, post: IntArray) -> _Chain:
    events = phases.events
    return _Chain(
        events.first,
        events.unit,
        events.weight,
        events.delta,
        events.decides,
        events.target,
        phases.n_fastest,
        phases.n_slow_busy,
        post,
    )


def evaluate(
    phases: Phases, policy: Policy, *, repeated: bool = False, centre: int | None = None, tail: Tail | None = None
) -> Evaluation:
    """Solve the chain under a policy.

    repeated: decisions until no more job is sent (epochs `anytime`). centre: a likely level, found when None.
    tail: of an earlier evaluation with the same decisions in the tail. Raises InputError when the queue isn't stable
    under the policy, or its table is too long for the memory.
    """
    if centre is None:
        rough = evaluate(phases, policy, repeated=repeated, centre=0, tail=tail)
        centre = int(np.argmax(rough.shares().sum(axis=1)))
        tail = rough.tail
        if centre == 0:
            return rough
    top = max(phases.servers, len(policy.choice))
    if memory_needed(phases.size, top + 1) > MEMORY_LIMIT:
        raise InputError(
            f"thresholds up to {top} with {phases.size} states a level need "
            f"{memory_needed(phases.size, top + 1) / 2**30:.1f} GiB, limit {MEMORY_LIMIT / 2**30:g} GiB; "
            "solve for fewer servers, or remove servers that are too slow to help"
        )
    post = resolve(phases, policy.rows(top + 2), repeated)
    if tail is None:
        tail = build_tail(phases, post[-1])
    m = phases.size
    sizes = np.searchsorted(phases.n_slow_busy, np.arange(top + 2), side="right").astype(np.int64)
    lu, pivots, sums = np.zeros((top + 1, m, m)), np.zeros((top + 1, m)), np.zeros((top + 1, m, 2))
    middle, middle_sums = np.zeros((m, m)), np.zeros((m, 2))
    first_sums = tail.first_sums(top + 1)
    chain = _chain(phases, post)
    eliminate(top, centre, sizes, *chain, tail.passage, first_sums, lu, pivots, sums, middle, middle_sums)
    size = int(sizes[centre])
    closed = np.ascontiguousarray(middle[:size, :size])
    shares = stationary(closed, recurrent_state(closed))
    likely = int(np.argmax(shares))
    shares = stationary(closed, likely)
    cost, time = middle_sums[:size].T
    mean = float(shares @ cost / (shares @ time))
    values = np.zeros((top + 1, m))
    values[centre, :size] = relative_values(closed, likely, cost - mean * time)
    spread_values(top, centre, sizes, *chain, lu, pivots, sums, mean, values)
    centre_shares = np.zeros(m)
    centre_shares[:size] = shares / (shares @ time)
    return Evaluation(
        phases, policy, top, tail, mean, values, sizes, first_sums, centre, centre_shares, post, lu, pivots
    )
