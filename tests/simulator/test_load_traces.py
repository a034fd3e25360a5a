"""Load traces: pure functions of time, each with its form."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osml.simulator import load_traces as lt
from osml.simulator.load_traces import Bursty, Churn, Constant, Diurnal, Stay, Steps, loads_at, random_trace, sample
from osml.simulator.state import NodeInputError

SECONDS = np.arange(0.0, 20_000.0)


@given(st.sampled_from(lt.TRACE_KINDS), st.integers(0, 2**32), st.lists(st.floats(0, 500), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_trace_does_not_depend_on_when_and_how_often_one_asks(kind, seed, times):
    trace = random_trace(kind, np.random.default_rng(seed), 0.1, 0.8, 120.0)
    together = sample(trace, np.array(times))
    assert [loads_at(trace, t) for t in reversed(times)] == list(reversed(together.tolist()))
    assert trace == random_trace(kind, np.random.default_rng(seed), 0.1, 0.8, 120.0)
    assert ((together >= 0.0) & (together <= 1.0)).all()


def test_steps_hold_from_their_time_on():
    trace = Steps(0.2, ((10.0, 0.6), (20.0, 0.1)))
    assert sample(trace, [0.0, 9.999, 10.0, 19.0, 20.0, 1e6]).tolist() == [0.2, 0.2, 0.6, 0.6, 0.1, 0.1]


def test_a_day_goes_around_its_mean_once_a_period():
    trace = Diurnal(0.5, 0.3, 100.0)
    assert loads_at(trace, 25.0) == pytest.approx(0.8)
    assert loads_at(trace, 75.0) == pytest.approx(0.2)
    assert sample(trace, SECONDS).mean() == pytest.approx(0.5, abs=1e-6)
    assert loads_at(Diurnal(0.5, 0.3, 100.0, phase=0.25), 0.0) == pytest.approx(0.8)


def test_the_noise_of_a_day_has_the_given_size_and_no_bias():
    trace, clean = Diurnal(0.5, 0.0, 100.0, noise=0.05, grain_s=1.0, seed=3), 0.5
    relative = sample(trace, SECONDS) / clean - 1.0
    assert relative.std() == pytest.approx(0.05, rel=0.05)
    assert abs(relative.mean()) < 0.002
    assert (sample(trace, SECONDS) != sample(Diurnal(0.5, 0.0, 100.0, noise=0.05, grain_s=1.0, seed=4), SECONDS)).any()


def test_bursts_take_their_share_of_time_and_last_as_long_as_they_should():
    loads = np.concatenate([sample(Bursty(0.2, 0.9, 60.0, 20.0, seed), SECONDS) for seed in range(10)])
    assert set(loads.tolist()) == {0.2, 0.9}
    assert (loads == 0.9).mean() == pytest.approx(0.25, abs=0.02)
    starts = ((loads[1:] == 0.9) & (loads[:-1] == 0.2)).sum()
    assert (loads == 0.9).sum() / starts == pytest.approx(20.0, rel=0.08)


def test_services_come_and_go_and_their_loads_count_from_their_arrival():
    script = Churn(
        (
            Stay("moses", Constant(0.4)),
            Stay("mysql", Steps(0.1, ((5.0, 0.3),)), 180.0, 200.0),
            Stay("mysql", Constant(0.2), 300.0),
        )
    )
    assert script.at(0.0) == {"moses": 0.4}
    assert script.at(184.0) == {"moses": 0.4, "mysql": 0.1}
    assert script.at(185.0) == {"moses": 0.4, "mysql": 0.3}
    assert script.at(200.0) == {"moses": 0.4}
    assert script.at(1e4) == {"moses": 0.4, "mysql": 0.2}
    assert np.isnan(script.sample([0.0, 190.0])["mysql"]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Constant(-0.1), "constant load: load is -0.1, expected a fraction of max load from 0 to 2"),
        (lambda: Constant(math.nan), "load is nan"),
        (lambda: Steps(0.1, ((5.0, 0.2), (5.0, 0.3))), "times must ascend"),
        (lambda: Diurnal(0.5, 0.1, 0.0), "period_s is 0.0, expected a number above 0"),
        (lambda: Bursty(0.1, 0.2, 5.0, math.inf), "high_s is inf"),
        (lambda: sample(Constant(0.1), [-1.0]), "seconds from 0"),
        (lambda: Stay("moses", Constant(0.1), 5.0, 5.0), "expected a start from 0 and a later end"),
        (lambda: Churn((Stay("a", Constant(0.1)), Stay("a", Constant(0.1), 9.0))), "'a' arrives at 9.0 s while"),
        (lambda: random_trace("square", np.random.default_rng(0), 0.1, 0.2, 1.0), "trace is 'square', expected one of"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(make, text):
    with pytest.raises(NodeInputError, match=text.replace("(", r"\(")):
        make()
