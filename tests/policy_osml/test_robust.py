"""The osml policy where models, neighbours or states are odd: it stays legal, says so, and forgets what is over."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from osml.decide.decide import decide_by
from osml.decide.state import open_state, seal_state
from osml.domain import MbaRange, Outcome
from osml.policies.osml import Osml, OsmlFormula
from osml.policies.osml.answers.models import Models
from osml.policies.osml.memory.state import Correction, OsmlState, sound
from osml.predictors import Prediction
from tests.kit.fake_models import PLATFORM, Fake, Run, job, needs, observe, service


@pytest.mark.parametrize("spread", [float("nan"), float("inf")])
def test_a_bound_that_is_no_number_leaves_needs_to_the_formula(spread: float) -> None:
    fake: Any = Fake(lambda row: [3.0, 1.0, 4.0, 1.0, 1.0], spread=spread)
    decision = decide_by(Osml(Models(a2=fake)), observe(service("a"), service("b")))
    assert "an impossible value: a bound of rcliff_cores that is" in decision.reasons[0].text
    assert decision.forecasts == []


def test_throttles_stay_where_a_need_of_bandwidth_is_not_predicted_for_once() -> None:
    gbps = [5.0]
    fake: Any = Fake(lambda row: [3.0, 1.0, 4.0, 1.0, gbps[0]])
    run = Run(Osml(Models(a=fake, a2=fake)), replace(PLATFORM, mba=MbaRange(10, 100, 10)))
    run(service("a"), service("b"), times=6)
    before = run.decision.partition
    assert before.mba == {"a": 50, "b": 50}
    gbps[0] = -0.1
    run(service("a"), service("b"))
    assert run.decision.partition == before


def test_nobody_is_throttled_to_nothing_where_the_range_begins_there() -> None:
    platform = replace(PLATFORM, mba=MbaRange(0, 20, 1), bandwidth_gbps=10.0)
    run = Run(Osml(needs(rate_10=0.5, rate_50=30.0)), platform)
    decision = run(service("a", rate=10.0), service("b", rate=50.0), job())
    assert decision.partition.mba == {"a": 1, "b": 20, "job": 1}


def test_a_state_with_numbers_that_are_none_is_decided_on_without_them() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=3)
    state, _ = open_state(run.decision.policy_state, run.policy)
    nan = float("nan")
    odd = [
        replace(state, tracks={**state.tracks, "a": replace(state.tracks["a"], oaa=(nan, nan), count=9)}),
        replace(state, tracks={**state.tracks, "a": replace(state.tracks["a"], cliff_upper=(float("inf"), 1.0))}),
        replace(state, tracks={**state.tracks, "a": replace(state.tracks["a"], count=-1)}),
    ]
    for one in odd:
        assert "a" not in sound(one, math.inf).tracks
        assert run(service("a"), service("b"), policy_state=seal_state(run.policy, one)).reasons
    assert sound(state, math.inf) is state


def test_a_state_with_a_need_that_no_machine_has_is_decided_on_without_it() -> None:
    slices = replace(PLATFORM, cores=360, core_quantum=0.1)
    run = Run(Osml(needs(rate_10=4.0)), slices)
    run(service("a"), service("b"), times=3)
    before = run.decision.partition
    state, _ = open_state(run.decision.policy_state, run.policy)
    odd = replace(state, tracks={**state.tracks, "a": replace(state.tracks["a"], oaa=(1e308, 1.0), count=9)})
    run(service("a"), service("b"), policy_state=seal_state(run.policy, odd))
    assert run.decision.partition == before


def test_a_model_that_answers_for_one_service_only_leaves_needs_to_the_formula() -> None:
    class OneRow(Fake):
        def predict(self, features: np.ndarray[Any, Any]) -> Prediction:
            return super().predict(features[:1])

    fake: Any = OneRow(lambda row: [3.0, 1.0, 4.0, 1.0, 1.0])
    decision = decide_by(Osml(Models(a2=fake)), observe(service("a"), service("b")))
    assert "model 'fake' answers (1, 5) for 2 services" in decision.reasons[0].text


def test_the_state_is_the_same_after_a_way_through_json() -> None:
    run = Run(Osml(needs(rate_10=14.0)))
    outcome = None
    for k in range(30):
        run(service("a", 1.5 + k % 3), service("b", 1.2), service("c"), outcome=outcome)
        state, why = open_state(run.decision.policy_state, run.policy)
        assert why is None
        assert msgspec.json.decode(msgspec.json.encode(state), type=OsmlState) == state
        outcome = Outcome(run.decision.seq, "refused", "busy") if k % 5 == 0 else None


def test_the_state_does_not_grow_whoever_comes_and_goes() -> None:
    run, sizes = Run(Osml(needs(rate_10=3.0))), []
    for k in range(120):
        run(*(service(f"{name}{k // 4}", 1.2 if k % 3 else 0.5) for name in "abcdefgh"))
        sizes.append(len(run.decision.policy_state))
    assert max(sizes[60:]) <= 1.2 * max(sizes[:30])
    assert max(sizes) < 16_000
    state, _ = open_state(run.decision.policy_state, run.policy)
    assert set(state.tracks) == {f"{name}29" for name in "abcdefgh"}


def test_a_state_of_another_version_or_policy_is_discarded_with_a_reason() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=3)

    class Newer(Osml):
        version = Osml.version + 1

    for other in (Newer(needs(rate_10=4.0)), OsmlFormula(Models())):
        after = Run(other)
        after(service("a"), service("b"), policy_state=run.decision.policy_state, partition=run.decision.partition)
        assert "is discarded" in after.decision.reasons[0].text
        assert min(after.cores().values()) >= 1


def test_a_clock_that_begins_anew_keeps_no_timer_of_the_old_one() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a"), service("b"), times=4)
    state, _ = open_state(run.decision.policy_state, run.policy)
    late = replace(
        state,
        tracks={name: replace(one, correction=Correction(2, 0, 1e9, 3)) for name, one in state.tracks.items()},
        violated_since_s=1e9 - 200.0,
    )
    now = sound(late, 510.0)
    assert {one.correction for one in now.tracks.values()} == {Correction(2, 0, 510.0, 3)}
    assert sound(late, 1e9) is late
    decision = run(service("a", 2.0), service("b"), policy_state=seal_state(run.policy, late))
    assert decision.infeasible is None
