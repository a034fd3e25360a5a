"""The TLT theorem on arbitrary latencies, against closed forms, and where it does not hold."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.base.failure import InputError
from osml.lab.theory.tlt import check_tlt, predicted, tail_and_shares

LATENCIES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=60)
TIES = st.lists(st.integers(1, 4).map(float), min_size=1, max_size=60)
THETA = st.floats(0.001, 0.999)


@given(st.one_of(LATENCIES, TIES), THETA)
def test_the_bound_holds_for_every_distribution(latencies, theta):
    found = check_tlt(latencies, [theta])
    assert found.holds
    assert found.rows[0].bound_any_f_per_s >= found.rows[0].bound_per_s


@given(st.one_of(LATENCIES, TIES), THETA)
def test_the_tail_is_the_least_latency_that_a_share_of_theta_does_not_exceed(latencies, theta):
    tail, below, up_to = tail_and_shares(np.sort(latencies), theta)
    values = np.array(latencies)
    assert (values <= tail).mean() >= theta - 1e-9
    assert (values < tail).mean() < theta or tail == values.min()
    assert 0.0 <= below < up_to <= 1.0 + 1e-12


def test_with_the_f_of_the_theorems_text_the_bound_fails_where_requests_share_the_tail_latency():
    row = check_tlt([5.0] * 20, [0.95]).rows[0]
    assert row.share_up_to == 1.0
    assert row.bound_text_per_s == 0.0
    assert not row.holds_as_text
    assert row.holds


@pytest.mark.parametrize("theta", [0.5, 0.9, 0.99])
def test_exponential_latencies_leave_the_room_that_the_formula_says(theta):
    # f = 1 - (1 - theta)(1 + t) with t = -ln(1 - theta), so bound over observed throughput is 1 + 1/t.
    row = check_tlt(np.random.default_rng(1).exponential(10.0, 1_000_000), [theta]).rows[0]
    t = -math.log(1.0 - theta)
    assert row.tail_ms == pytest.approx(10.0 * t, rel=0.01)
    assert row.share_below == pytest.approx(1.0 - (1.0 - theta) * (1.0 + t), abs=0.003)
    assert row.looseness == pytest.approx(1.0 + 1.0 / t, rel=0.02)


def test_the_bound_is_reached_where_all_of_the_tail_is_one_latency():
    row = check_tlt([1.0] * 95 + [20.0] * 5, [0.951]).rows[0]
    assert row.looseness == pytest.approx(0.05 / 0.049)
    assert check_tlt([1.0] * 95 + [20.0] * 5, [0.95]).rows[0].tail_ms == 1.0


def test_what_is_not_given_follows_from_littles_law():
    alone, rate, both = (
        check_tlt([10.0, 30.0], [0.5], **given)
        for given in ({}, {"throughput_per_s": 100.0}, {"throughput_per_s": 100.0, "outstanding": 1.0})
    )
    assert (alone.outstanding, alone.throughput_per_s, alone.little_ratio) == (1.0, 50.0, 1.0)
    assert (rate.outstanding, rate.little_ratio) == (2.0, 1.0)
    assert both.little_ratio == 0.5
    assert both.rows[0].bound_per_s == pytest.approx(rate.rows[0].bound_per_s / 2.0)


def test_without_littles_law_the_bound_can_fail():
    assert not check_tlt([10.0] * 10, [0.5], throughput_per_s=1000.0, outstanding=1.0).holds


def test_as_a_forecast_the_bound_holds_as_long_as_latencies_stay_and_fails_when_they_fall():
    rng = np.random.default_rng(2)
    first, second = rng.lognormal(0.0, 0.5, (2, 50_000))
    assert all(row.holds for row in predicted(first, second))
    assert not all(row.holds for row in predicted(first, second / 4.0))


@pytest.mark.parametrize(
    ("latencies", "thetas", "said"),
    [
        ([], [0.5], "no latencies, expected at least one"),
        ([1.0, float("nan")], [0.5], "1 of 2 latencies are not finite times above 0 ms, such as nan"),
        ([1.0, -3.0], [0.5], "such as -3.0"),
        ([1.0], [1.0], "theta is 1.0, expected a share between 0 and 1"),
    ],
)
def test_wrong_input_is_named(latencies, thetas, said):
    with pytest.raises(InputError, match=said):
        check_tlt(latencies, thetas)
