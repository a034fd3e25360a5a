"""A second, plain way to a mean: a truncated chain of (jobs, under interference, busy ones of these), sparse LU."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix, csc_matrix
from scipy.sparse.linalg import splu

from osml.dispatch.mdp.parameters import FarmParameters
from osml.dispatch.mdp.thresholds import ThresholdTable, solve
from osml.dispatch.mdp.thresholds import mean_number as exact_mean


def mean_number(p, table, top):
    """Mean number in system under thresholds; arrivals are lost with `top` jobs in system. Epochs literal."""
    states = [(n, i, b) for n in range(top + 1) for i in range(p.servers + 1) for b in range(min(i, n) + 1)]
    index = {state: at for at, state in enumerate(states)}
    entries = []

    def waiting(n, i, b):
        return max(0, n - b - (p.servers - i))

    def decide(n, i, b):
        """n counts after the event."""
        return (n, i, b + 1) if waiting(n, i, b) and b < i and table.uses(n - 1, i, b) else (n, i, b)

    for n, i, b in states:
        free_busy = min(n - b, p.servers - i)
        free_idle = p.servers - i - free_busy
        moves = [((n, i - 1, b - 1), b * p.alpha_low), ((n, i - 1, b), (i - b) * p.alpha_low)]
        moves += [((n, i + 1, b + 1), free_busy * p.alpha_high), ((n, i + 1, b), free_idle * p.alpha_high)]
        moves.append(((n - 1, i, b), free_busy * p.mu_high))
        if n < top:
            moves.append((decide(n + 1, i, b), p.arrival))
        if b:
            moves.append((decide(n - 1, i, b - 1), b * p.mu_low))
        for to, rate in moves:
            if rate > 0:
                entries += [(index[to], index[n, i, b], rate), (index[n, i, b], index[n, i, b], -rate)]
    rows, columns, values = zip(*entries, strict=True)
    matrix = csc_matrix(coo_matrix((values, (rows, columns)), shape=(len(states),) * 2)).tolil()
    matrix[0, :] = 1.0
    right = np.zeros(len(states))
    right[0] = 1.0
    shares = splu(csc_matrix(matrix)).solve(right)
    return float(shares @ np.array([n for n, _, _ in states]))


PARAMETERS = [
    FarmParameters(1, 1.0, 4.0, 0.5, 0.4, 1.0),
    FarmParameters(2, 10.0, 50.0, 1.0, 4.75, 4.75),
    FarmParameters(3, 6.0, 5.0, 1.0, 0.3, 1.0),
    FarmParameters(4, 8.0, 6.0, 0.5, 1.0, 3.0),
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=lambda p: f"k{p.servers}")
def test_the_optimal_thresholds_cost_what_a_plain_truncated_chain_says(parameters):
    solved = solve(parameters)
    plain = mean_number(parameters, solved.table, 220)
    assert solved.solution.mean_optimal == pytest.approx(plain, rel=1e-9)
    idle = ThresholdTable.non_idling(parameters.servers)
    assert solved.solution.mean_non_idling == pytest.approx(mean_number(parameters, idle, 220), rel=1e-9)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_any_thresholds_cost_what_a_plain_truncated_chain_says(data):
    parameters = FarmParameters(2, 3.0, 4.0, 1.0, 0.5, 1.0)
    sizes = {state: data.draw(st.integers(0, 12), label=str(state)) for state in ((1, 0), (2, 0), (2, 1))}
    table = ThresholdTable(2, sizes)
    assert exact_mean(parameters, table) == pytest.approx(mean_number(parameters, table, 220), rel=1e-9)
