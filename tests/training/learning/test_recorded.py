"""Tuples out of experiences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from osml_training.dqn.rewards import Reward
from osml_training.dqn.state import STATE
from osml_training.learning.recorded import recorded

from osml.domain import Experience, Latency, Outcome
from osml.predictors.actions import ACTION_NAMES

replace = msgspec.structs.replace


def test_a_tuple_is_what_happened_to_one_service(experiences: list[Experience]) -> None:
    def moves(e: Experience) -> bool:
        old, new = e.before.partition, e.decision.partition
        return old is not None and 0 < abs(new.cores_of("moses") - old.cores_of("moses")) < 3

    experience = next(
        e
        for e in experiences
        if moves(e) and all(s.latency_ms for o in (e.before, e.after) for s in o.services if s.name == "moses")
    )
    found = recorded([experience], STATE, Reward(price=0.1))
    place = [s.name for s in experience.before.services if s.kind == "lc"].index("moses")
    old, new = experience.before.partition, experience.decision.partition
    moved = new.cores_of("moses") - old.cores_of("moses"), new.ways_of("moses") - old.ways_of("moses")
    assert ACTION_NAMES[int(found.tuples.action[place])] == ACTION_NAMES[7 * (moved[0] + 3) + moved[1] + 3]
    cores = STATE.index("cores")
    assert found.tuples.before[place, cores] == old.cores_of("moses")
    assert found.tuples.after[place, cores] == new.cores_of("moses")

    def q(observation: Any) -> float:
        service = next(s for s in observation.services if s.name == "moses")
        return max(0.0, 1 - service.target_ms / service.latency_ms)

    share = 0.5 * (moved[0] / 36 + moved[1] / 20)
    expected = q(experience.before) - q(experience.after) - 0.1 * share
    assert found.tuples.reward[place] == pytest.approx(expected, abs=1e-5)
    free = 36 - sum(region.cores for region in new.regions if region.owners != ["stream"])
    gives_three = 7 * 6 + 3
    assert found.tuples.legal_after[place, gives_three] == (free >= 3)


def _after(e: Experience, **changes: Any) -> Experience:
    return replace(e, after=replace(e.after, **changes))


def _first(e: Experience, **changes: Any) -> Experience:
    """Change the first LC service of the observation after."""
    return _after(e, services=[replace(e.after.services[0], **changes), *e.after.services[1:]])


def _before(e: Experience, **changes: Any) -> Experience:
    """The same of the observation before."""
    services = [replace(e.before.services[0], **changes), *e.before.services[1:]]
    return replace(e, before=replace(e.before, services=services))


USELESS: dict[str, tuple[Callable[[Experience], Experience], str]] = {
    "refused": (lambda e: _after(e, outcome=Outcome(seq=e.decision.seq, status="refused")), "not carried out"),
    "no outcome": (lambda e: _after(e, outcome=None), "not carried out"),
    "dry run": (lambda e: _after(e, outcome=Outcome(seq=e.decision.seq, status="dry_run")), "not carried out"),
    "undone": (lambda e: _after(e, partition=e.before.partition), "allocation after it"),
    "nothing before": (lambda e: replace(e, before=replace(e.before, partition=None)), "before it are not known"),
    "no latency before": (lambda e: _before(e, latency=None), "latency is missing"),
    "few requests": (
        lambda e: _first(_before(e, latency=replace(e.before.services[0].latency, requests_per_s=5.0)), latency=None),
        "latency is missing",
    ),
    "new target": (lambda e: _first(e, target_ms=1.0), "target changed"),
    "gone": (lambda e: _after(e, services=e.after.services[1:]), "service vanished"),
    "absurd latency": (lambda e: _first(e, latency=Latency(mean_ms=1.0, p99_ms=1e20)), "beyond what a machine has"),
    "absurd counters": (
        lambda e: _first(e, counters=replace(e.after.services[0].counters, bandwidth_gbps=1e6)), "bandwidth_gbps",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USELESS)
def test_what_teaches_nothing_true_is_left_out(experiences: list[Experience], name: str) -> None:
    spoil, words = USELESS[name]
    good = next(
        e
        for e in experiences[30:]
        if recorded([e], STATE, Reward()).left_out == {} and e.before.partition != e.decision.partition
    )
    found = recorded([spoil(good)], STATE, Reward())
    assert any(words in why for why in found.left_out), found.left_out
    assert found.size < 2


def test_a_jump_is_none_of_the_49_actions(experiences: list[Experience]) -> None:
    found = recorded(experiences, STATE, Reward())
    assert found.left_out["moved by more than 3"] > 0
    assert found.size + sum(found.left_out.values()) >= len(experiences)


def test_a_service_that_many_ask_and_that_answers_nothing_any_more_has_fallen(experiences: list[Experience]) -> None:
    """Its Q_i is 1 then: what silenced it is learned from and judged."""
    good = next(
        e
        for e in experiences[30:]
        if recorded([e], STATE, Reward()).left_out == {} and (e.before.services[0].slack or -1.0) > 0
    )
    asked = _before(good, latency=replace(good.before.services[0].latency, requests_per_s=500.0))
    found = recorded([_first(asked, latency=None)], STATE, Reward(price=0.0, cliff=0.2))
    assert found.left_out == {}
    assert (bool(found.before_met[0]), bool(found.after_met[0])) == (True, False)
    assert found.tuples.reward[0] == pytest.approx(-1.2)
    assert np.isnan(found.tuples.after[0, STATE.index("latency_over_target")])
