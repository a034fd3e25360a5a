"""What a service has shown over the last minutes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.domain import Counters, Latency, Service
from osml.policies.osml.memory.past import FAST, NO_USE, SLOW, Past, after, wait_log, wait_of, whole


def seen(p99_ms: float | None = 5.0, cpus: float | None = 4.0, rate: float | None = 100.0) -> Service:
    latency = None if p99_ms is None else Latency(p99_ms=p99_ms, mean_ms=p99_ms / 4, requests_per_s=rate)
    return Service("a", "lc", target_ms=10.0, latency=latency, counters=Counters(cpu_usage_cores=cpus))


def test_the_first_interval_is_the_mean() -> None:
    past = after(Past(), seen(), 8.0)
    assert past.offset == pytest.approx((math.log(0.5) - wait_log(0.5, 8.0),) * 4)
    assert past.use == pytest.approx((math.log(4.0),) * 2)
    assert (past.latencies, past.uses) == (1, 1)


def test_a_fast_mean_forgets_sooner_than_a_slow_one() -> None:
    past = Past()
    for _ in range(60):
        past = after(past, seen(), 8.0)
    old = past.use[0]
    past = after(past, seen(cpus=7.0), 8.0)
    step = math.log(7.0) - old
    assert past.use == pytest.approx((old + FAST * step, old + SLOW * step))


def test_an_offset_is_the_same_in_a_smaller_cell_of_the_same_queue() -> None:
    """A tail that is exactly what the formula says has the same offset in every cell."""
    ratio = [0.1 * math.exp(wait_log(4.0 / cpus, cpus)) for cpus in (6.0, 12.0)]
    one, other = (after(Past(), seen(10.0 * r), cpus) for r, cpus in zip(ratio, (6.0, 12.0), strict=True))
    assert one.offset == pytest.approx(other.offset)


def test_what_is_not_measured_changes_nothing() -> None:
    past = after(Past(), seen(), 8.0)
    assert after(past, seen(None, None), 8.0) == past
    assert after(Past(), seen(cpus=None), 8.0).offset[0] == pytest.approx(math.log(0.5) - NO_USE)
    assert wait_of(None, 8.0) == NO_USE


def test_a_queue_waits_longer_the_fewer_its_servers_and_the_busier_they_are() -> None:
    by_use = [wait_log(rho / 10, 4.0) for rho in range(1, 10)]
    assert all(one <= other for one, other in pairwise(by_use))
    assert wait_log(0.9, 2.0) > wait_log(0.9, 20.0)
    assert wait_log(1.5, 4.0) == wait_log(0.985, 4.0)  # saturated is saturated


def test_a_past_from_other_hands_is_refused() -> None:
    assert whole(Past()) and whole(after(Past(), seen(), 8.0))
    unlike = Past(latencies=5)  # means of five intervals, and none there
    for damaged in (
        unlike,
        Past(offset=(1.0,)),
        Past(use=(math.nan, 0.0)),
        Past(offset=(1e9,) * 4, latencies=1),
        Past(mean=(math.inf, 0.0)),
    ):
        assert not whole(damaged)


@given(
    st.lists(
        st.tuples(
            st.none() | st.floats(0.0, 1e12), st.none() | st.floats(0.0, 1e5), st.none() | st.floats(0.0, 1e12),
            st.floats(0.1, 512.0),
        ),
        max_size=20,
    )
)  # fmt: skip
def test_whatever_is_measured_the_past_stays_whole(intervals: list[tuple[float, float, float, float]]) -> None:
    past = Past()
    for p99_ms, cpus, rate, cell in intervals:
        past = after(past, seen(p99_ms, cpus, rate), cell)
        assert whole(past)
