"""Online estimates of rates, and the tally of HAProxy's counters that they come from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osml.dispatch.haproxy.counters import EVERY_S, Tally
from osml.dispatch.haproxy.estimate import SEEN_ENOUGH, DecayedRate, Estimates, Priors, Sample
from osml.dispatch.haproxy.show_stat import BackendRows, ServerRow
from osml.dispatch.mdp.lookup import solved

COUNTS = st.lists(st.tuples(st.integers(0, 50), st.floats(0.01, 10)), min_size=1, max_size=30)
RATES = st.floats(0.01, 1000)


@given(COUNTS, RATES, st.floats(0.1, 100), st.floats(1, 1000))
def test_the_estimate_lies_between_prior_and_what_was_seen(
    seen: list[tuple[int, float]], prior: float, weight: float, half_life: float
) -> None:
    rate = DecayedRate(half_life, prior, weight)
    for events, exposure in seen:
        rate.add(events, exposure, exposure)
    raw = rate.events / rate.exposure_s
    assert rate.value is not None
    assert min(prior, raw) * (1 - 1e-9) <= rate.value <= max(prior, raw) * (1 + 1e-9)


@given(RATES, st.floats(1, 100))
def test_a_constant_rate_is_found_whatever_the_prior(true: float, half_life: float) -> None:
    rate = DecayedRate(half_life, true * 10, 1.0)
    for _ in range(2000):
        rate.add(true * half_life / 10, half_life / 10, half_life / 10)
    effective = true * half_life / np.log(2)  # events that are remembered
    assert rate.value == pytest.approx(true, rel=0.05 + 10 / effective)


@given(st.floats(0.1, 100), st.floats(0.1, 100), st.floats(1, 1000))
def test_ageing_in_two_steps_is_ageing_in_one(first: float, second: float, half_life: float) -> None:
    one, two = DecayedRate(half_life, events=8, exposure_s=4), DecayedRate(half_life, events=8, exposure_s=4)
    one.add(0, 0, first + second)
    two.add(0, 0, first)
    two.add(0, 0, second)
    assert one.events == pytest.approx(two.events)
    assert one.exposure_s == pytest.approx(two.exposure_s)


def test_a_rate_that_changed_is_followed_within_some_half_lives() -> None:
    rate = DecayedRate(5.0)
    for _ in range(100):
        rate.add(100, 1, 1)
    for _ in range(25):
        rate.add(10, 1, 1)
    assert rate.value == pytest.approx(10, rel=0.35)


def test_nothing_seen_and_no_prior_is_no_estimate() -> None:
    assert DecayedRate(5.0).value is None
    assert Estimates(Priors()).parameters(2) is None


def test_a_service_rate_without_prior_is_believed_after_enough_completions() -> None:
    estimates = Estimates(Priors())
    estimates.add(Sample(1.0, 50, (40, SEEN_ENOUGH - 1), (0.8, 1.0), (0, 0), (1, 1)))
    assert estimates.parameters(2) is None
    estimates.add(Sample(0.01, 0, (0, 2), (0, 0.1), (0, 0), (0, 0)))
    found = estimates.parameters(2)
    assert found is not None
    assert (found.mu_high, found.mu_low, found.arrival) == (50, pytest.approx(19, abs=1), pytest.approx(50, abs=1))


def test_completions_that_come_slowly_are_enough_and_stay_so() -> None:
    estimates = Estimates(Priors(mu_high=125))
    for _ in range(600):  # ten minutes at 0.05/s: never 20 at once that are not forgotten
        estimates.add(Sample(1.0, 5, (5, 0.05), (0.04, 0.01), (0, 0), (1, 1)))
    assert estimates.parameters(2) is not None
    for _ in range(600):  # no interference
        estimates.add(Sample(1.0, 5, (5, 0), (0.04, 0), (0, 0), (1, 0)))
    assert estimates.parameters(2) is not None


@settings(deadline=None)  # the first solution of a checkout compiles
@given(st.floats(0, 500), st.floats(0, 500), st.floats(0, 500))
def test_parameters_always_have_an_answer_or_a_reason(arrivals: float, high: float, low: float) -> None:
    estimates = Estimates(Priors(125, 30))
    estimates.add(Sample(1.0, arrivals, (high, low), (1.0, 1.0), (0, 0), (1, 1)))
    parameters = estimates.parameters(2)
    assert parameters is not None
    _, table, reason = solved(parameters)
    assert table.servers == 2
    assert (reason is None) == (parameters.load < 1 - 1e-9)


def test_overload_falls_back_to_non_idling_with_the_reason() -> None:
    estimates = Estimates(Priors(10, 1))
    estimates.add(Sample(1.0, 500))
    parameters = estimates.parameters(2)
    assert parameters is not None
    _, table, reason = solved(parameters)
    assert table.named() == {"N_i": 1, "N_ib": 1, "N_ii": 0}
    assert reason is not None
    assert "above the capacity of" in reason


def rows(arrivals: int, queued: int = 0, **servers: tuple[int, int]) -> BackendRows:
    """servers: name to (in service, ever sent)."""
    return BackendRows(
        queued, arrivals, {name: ServerRow(name, jobs, 0, 5, total, "UP") for name, (jobs, total) in servers.items()}
    )


def test_tally_counts_completions_and_busy_time_by_mode() -> None:
    tally = Tally()
    under = {"a": False, "b": True}
    assert tally.look(rows(0, a=(0, 0), b=(0, 0)), under, 10.0) is None
    tally.look(rows(4, a=(2, 2), b=(1, 1)), under, 10.1)  # came in between: half of the time counts as busy
    tally.look(rows(6, a=(1, 4), b=(1, 1)), under, 10.2)
    sample = tally.look(rows(6, a=(0, 4), b=(0, 1)), {"a": False, "b": False}, 10.0 + EVERY_S + 0.05)
    assert sample is not None
    assert (sample.arrivals, sample.completions) == (6, (4, 1))
    assert sample.busy_s == pytest.approx((0.05 + 0.1 + 0.05, 0.05 + 0.1 + 0.05))
    assert sample.switches == (0, 1), "b became free"
    assert sample.mode_s == pytest.approx((0.3, 0.3))


def test_counters_that_went_back_are_a_restart_not_negative_arrivals() -> None:
    tally = Tally()
    tally.look(rows(1000, a=(0, 1000)), {"a": False}, 0.0)
    assert tally.look(rows(3, a=(0, 3)), {"a": False}, 1.0) is None
    sample = tally.look(rows(5, a=(0, 5)), {"a": False}, 2.0)
    assert sample is not None
    assert (sample.arrivals, sample.completions) == (2, (2, 0))


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.floats(0.001, 0.3)), min_size=2, max_size=40))
def test_tally_never_gives_negative_figures_or_more_busy_time_than_time(steps: list[tuple[int, bool, float]]) -> None:
    tally, now, total = Tally(), 0.0, 0
    for jobs, mode, step in steps:
        now, total = now + step, total + jobs
        sample = tally.look(rows(total, a=(jobs, total)), {"a": mode}, now)
        if sample is not None:
            assert sample.arrivals >= 0
            assert min(sample.completions) >= 0
            assert sum(sample.busy_s) <= sum(sample.mode_s) + 1e-9
