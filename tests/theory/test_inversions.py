"""Weighted inversions against brute force over all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.base.failure import InputError
from osml.lab.theory import inversions as module
from osml.lab.theory.inversions import inversions, request_inversions, weighted_inversions

PERMUTATIONS = st.integers(0, 9).flatmap(lambda n: st.permutations(range(n)))


def pairs_of(positions):
    n = len(positions)
    return [(i, j) for i in range(n) for j in range(i + 1, n) if positions[i] > positions[j]]


@given(PERMUTATIONS)
def test_inversions_of_a_permutation_are_counted_as_by_brute_force(positions):
    assert inversions(positions) == len(pairs_of(positions))


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_the_right_order_has_none_and_the_reverse_has_all(n):
    assert inversions(range(n)) == 0
    assert inversions(range(n)[::-1]) == n * (n - 1) // 2


@given(PERMUTATIONS, st.integers(0, 2**32 - 1))
def test_each_application_bears_the_weights_of_those_that_went_before_it(positions, seed):
    weights = np.random.default_rng(seed).random((len(positions), len(positions)))
    wanted = np.zeros(len(positions))
    for i, j in pairs_of(positions):
        wanted[i] += weights[i, j]
    assert weighted_inversions(positions, weights) == pytest.approx(wanted)


def brute_force(rank, arrival, start, finish, service, by, servers):
    """(NoI, wNoI) of each request from the definition, pair by pair."""
    turn, begin = (start, start) if by == "start" else (finish, finish - service)
    waited = turn - arrival - (0.0 if by == "start" else service)
    passed, added = np.zeros(len(rank), int), np.zeros(len(rank))
    for i in range(len(rank)):
        for j in range(len(rank)):
            outranks = (rank[i], arrival[i]) < (rank[j], arrival[j])
            if waited[i] > 1e-9 * (turn[i] - arrival[i]) and outranks and arrival[i] < turn[j] < turn[i]:
                passed[i] += 1
                added[i] += max(0.0, min(begin[j] + service[j], turn[i]) - max(begin[j], arrival[i])) / servers
        added[i] = min(added[i], max(waited[i], 0.0))
    return passed, added


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.sampled_from(["start", "finish"]), st.integers(1, 3))
def test_inversions_of_requests_are_counted_as_by_brute_force(n, seed, by, servers):
    rng = np.random.default_rng(seed)
    rank = rng.integers(0, 3, n)
    arrival = np.round(rng.random(n) * 10, 1)  # ties
    start = arrival + np.round(rng.random(n) * 5, 1)
    service = np.round(rng.random(n) * 3, 1)
    finish = start + service + rng.choice([0.0, 1.0], n)
    found = request_inversions(rank, arrival, start, finish, service, by=by, servers=servers)
    passed, added = brute_force(rank, arrival, start, finish, service, by, servers)
    assert (found.passed == passed).all()
    assert found.added_ms == pytest.approx(added)


def test_large_logs_are_counted_in_parts(monkeypatch):
    rng = np.random.default_rng(3)
    n = 400
    rank, arrival = rng.integers(0, 3, n), np.sort(rng.random(n))
    start = 10.0 + rng.permutation(n)
    whole = request_inversions(rank, arrival, start, start + 1.0)
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 500)
    parts = request_inversions(rank, arrival, start, start + 1.0)
    assert (whole.passed == parts.passed).all()
    assert whole.added_ms == pytest.approx(parts.added_ms)


def test_who_came_after_the_others_turn_was_not_passed_over():
    rank, arrival = np.array([1, 0, 0]), np.array([0.0, 5.0, 20.0])
    found = request_inversions(rank, arrival, np.array([0.0, 10.0, 20.0]), np.array([10.0, 12.0, 22.0]))
    assert found.passed.tolist() == [0, 0, 0]


def test_on_one_server_the_weight_is_the_time_spent_on_those_that_passed():
    # Request 0 comes first and is critical, but 1 and 2 are served before it.
    rank, arrival = np.array([0, 1, 1]), np.array([0.5, 0.0, 0.2])
    found = request_inversions(rank, arrival, np.array([7.0, 1.0, 3.0]), np.array([8.0, 3.0, 7.0]))
    assert found.passed.tolist() == [2, 0, 0]
    assert found.added_ms.tolist() == [6.0, 0.0, 0.0]


def test_first_come_first_served_among_equals_has_no_inversion():
    rng = np.random.default_rng(4)
    arrival = np.sort(rng.random(200) * 100)
    start = np.maximum.accumulate(arrival + rng.random(200))
    found = request_inversions(np.zeros(200, int), arrival, start, start + 0.1)
    assert found.passed.sum() == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"start_ms": np.array([0.0, 0.5])}, "request 1: start_ms 0.5 is before arrival_ms 1"),
        ({"finish_ms": np.array([0.5, 1.0])}, "request 1: finish_ms 1 is before start_ms 2"),
        ({"arrival_ms": np.array([0.0])}, "arrival_ms has the shape"),
        ({"finish_ms": np.array([np.inf, 3.0])}, "finish_ms of request 0 is not a finite number"),
        ({"service_ms": np.array([-1.0, 1.0])}, "service_ms of request 0 is -1, expected at least 0"),
        ({"servers": 0}, "servers is 0, expected at least 1"),
    ],
)
def test_a_log_that_can_not_be_is_refused(change, said):
    log = {
        "arrival_ms": np.array([0.0, 1.0]),
        "start_ms": np.array([0.0, 2.0]),
        "finish_ms": np.array([1.0, 3.0]),
    }
    with pytest.raises(InputError, match=said):
        request_inversions(np.array([0, 1]), **{**log, **change})


def test_what_is_no_permutation_is_refused():
    with pytest.raises(InputError, match="expected each of 0 to 2 once"):
        inversions([0, 1, 1])
    with pytest.raises(InputError, match=r"weights have the shape \(1, 2\)"):
        weighted_inversions([0, 1], np.zeros((1, 2)))
