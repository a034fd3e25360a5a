"""Readiness for rates that jump: nothing where none did, and a bounded wait where one did."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.bandwidth.jumps import MEMORY_S, WAIT_SHARE, Jumps, crept, ready_qps, watched


def after(rates: list[float], interval_s: float = 1.0) -> Jumps:
    jumps = Jumps()
    for i, qps in enumerate(rates):
        jumps = watched(jumps, i * interval_s, qps, interval_s)
    return jumps


def test_steady_and_growing_rates_keep_nothing_ready():
    sine = [5000.0 + 4000.0 * math.sin(i / 48.0) for i in range(600)]
    for rates in ([300.0] * 50, [1000.0 * 1.1**i for i in range(20)], sine):
        assert ready_qps(after(rates), 200.0, 1.0, 10_000.0) == 0.0


def test_the_noise_of_a_small_count_is_no_jump():
    # 20 requests an interval: 4 standard deviations are 18 more.
    assert after([100.0, 180.0], interval_s=0.2).seen == []
    assert after([100.0, 250.0], interval_s=0.2).seen == [(0.2, 250.0)]


def test_a_fall_is_no_jump():
    assert after([9000.0, 1000.0, 900.0]).seen == []


def test_one_jump_lets_expect_twice_as_much_and_many_what_was_seen():
    once = after([1000.0, 2000.0])
    assert ready_qps(once, 1e-6, 1.0, 10_000.0) == pytest.approx(4000.0)
    often = after([1000.0, 2000.0] * 20)
    assert ready_qps(often, 1e-6, 1.0, 10_000.0) == pytest.approx(2000.0 * (1 + 1 / 20))


def test_no_more_is_expected_than_was_profiled():
    assert ready_qps(after([1000.0, 9000.0]), 1e-6, 1.0, 10_000.0) == pytest.approx(10_000.0)


@given(slo_ms=st.floats(1.0, 1e4), interval_s=st.floats(0.05, 10.0), high=st.floats(2000.0, 9000.0))
def test_the_wait_after_the_expected_jump_stays_within_its_share_of_the_slo(slo_ms, interval_s, high):
    jumps = Jumps(1000.0, [(0.0, high)] * 1000)
    ready = ready_qps(jumps, slo_ms, interval_s, 10_000.0)
    wait_s = interval_s * (high * 1.001 / ready - 1.0)
    assert wait_s == pytest.approx(WAIT_SHARE * slo_ms / 1e3, abs=1e-6)


def test_a_shorter_interval_and_a_wider_slo_need_less():
    jumps = after([1000.0, 9000.0])
    usual = ready_qps(jumps, 200.0, 1.0, 10_000.0)
    assert ready_qps(jumps, 200.0, 0.1, 10_000.0) < usual
    assert ready_qps(jumps, 2000.0, 1.0, 10_000.0) < usual


def test_a_jump_is_forgotten_in_time_and_when_the_clock_starts_anew():
    jumps = watched(Jumps(1000.0), 100.0, 5000.0, 1.0)
    assert watched(jumps, 100.0 + MEMORY_S, 5000.0, 1.0).seen
    assert not watched(jumps, 101.0 + MEMORY_S, 5000.0, 1.0).seen
    assert not watched(jumps, 0.0, 5000.0, 1.0).seen


def test_no_more_than_so_many_jumps_are_remembered():
    assert len(after([1000.0, 5000.0] * 100).seen) == 32


def test_what_was_answered_while_requests_queued_is_no_jump_afterwards():
    crept_up = crept(Jumps(5000.0), 8000.0)
    assert watched(crept_up, 1.0, 9000.0, 1.0).seen == []
    assert watched(Jumps(5000.0), 1.0, 9000.0, 1.0).seen == [(1.0, 9000.0)]
    assert crept(crept_up, 100.0) == crept_up
    assert crept(Jumps(), 100.0) == Jumps()
