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

from osml.domain import Decision, Experience, Latency, Outcome, Partition, Region
from osml.predictors.actions import ACTION_NAMES, legal_actions
from tests.placement.two_domains import be, lc, observation, platform

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


def _asked(e: Experience) -> Experience:
    """Many ask the first LC service before."""
    return _before(e, latency=replace(e.before.services[0].latency, requests_per_s=500.0))


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
    "unread latency": (
        lambda e: _after(_first(_asked(e), latency=None), missing={f"latency.{e.before.services[0].name}": "HTTP 500"}),
        "latency is missing",
    ),
    "old latency": (
        lambda e: _first(e, latency=replace(e.before.services[0].latency, age_s=e.after.interval_s)),
        "latency is from before the decision",
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
    found = recorded([_first(_asked(good), latency=None)], STATE, Reward(price=0.0, cliff=0.2))
    assert found.left_out == {}
    assert (bool(found.before_met[0]), bool(found.after_met[0])) == (True, False)
    assert found.tuples.reward[0] == pytest.approx(-1.2)
    assert np.isnan(found.tuples.after[0, STATE.index("latency_over_target")])


def test_a_latency_of_the_interval_after_the_decision_is_learned_from(experiences: list[Experience]) -> None:
    """Also one that was a part of the interval old when the agent read it."""
    good = next(e for e in experiences[30:] if recorded([e], STATE, Reward()).left_out == {})
    latency = replace(good.after.services[0].latency, age_s=0.9 * good.after.interval_s)
    assert recorded([_first(good, latency=latency)], STATE, Reward()).left_out == {}


def of_two_domains(before: Partition, decided: Partition) -> Experience:
    """Of a node whose two cache domains have 8 CPUs and 20 ways each."""
    node, services = platform(ways=20), [lc("web", 2.0), lc("db", 1.0), be("job", 4.0)]
    done = Outcome(seq=0, status="applied")
    return Experience(
        observation(services, node, partition=before),
        Decision("n", 0, "osml", decided, []),
        observation(services, node, seq=1, time_s=1.0, partition=decided, outcome=done),
    )


def in_domains(ways: int) -> Partition:
    web, job = Region(["web"], 4, ways, domain=0), Region(["job"], 4, 20 - ways, domain=0)
    return Partition([web, job, Region(["db"], 3, 15, domain=1)])


def test_each_cache_domain_of_a_node_teaches_by_itself() -> None:
    """15 ways of one domain and 15 of another leave 5 of each, not -10 of the node."""
    found = recorded([of_two_domains(in_domains(15), in_domains(17))], STATE, Reward())
    assert found.left_out == {}
    assert [ACTION_NAMES[action] for action in found.tuples.action] == ["<0,2>", "<0,0>"]
    before, after = ([legal_actions(*web), legal_actions(3, 15, 5, 5)] for web in ((4, 15, 4, 5), (4, 17, 4, 3)))
    assert (found.legal_before == before).all()
    assert (found.tuples.legal_after == after).all()
    assert found.tuples.before[:, STATE.index("neighbour_ways")].tolist() == [5, 0]


def test_regions_that_came_to_domains_or_that_no_machine_has_teach_nothing() -> None:
    whole = Partition([Region(["web"], 4, 10), Region(["db"], 3, 8), Region(["job"], 4, 2)])
    found = recorded([of_two_domains(whole, in_domains(15)), of_two_domains(in_domains(15), whole)], STATE, Reward())
    assert found.left_out == {"regions were of the node and became those of cache domains, or the reverse": 2}
    too_many = Partition([Region(["web"], 4, 15), Region(["db"], 3, 15), Region(["job"], 4, 2)])
    found = recorded([of_two_domains(too_many, too_many)], STATE, Reward())
    assert found.left_out == {"regions sum up to more than the machine has": 2}
