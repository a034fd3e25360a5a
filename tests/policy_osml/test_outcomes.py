"""The osml policy where what it decided does not come about: refused, rolled back, lost, not enough."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from osml.decide.state import open_state, seal_state
from osml.domain import Outcome, Partition, Region
from osml.policies.osml import Osml
from osml.policies.osml.agent_refuses import LONGEST, part_of_the_way
from osml.policies.osml.memory.state import Correction, OsmlState, Refused
from osml.policies.osml.node import Cell
from osml.policies.osml.rule import Proposal
from tests.kit.fake_models import Run, needs, service
from tests.kit.osml_facts import facts

APPLIED = Partition([Region(["a"], 18, 10), Region(["b"], 18, 10)])


class Obstinate(Run):
    """An agent that keeps APPLIED and carries nothing else out, with such an outcome."""

    status: Any = "refused"
    asked = 0

    def tick(self, *services: Any) -> Any:
        status = self.status if self.decision is not None and self.decision.partition != APPLIED else "unchanged"
        outcome = None if self.decision is None else Outcome(self.decision.seq, status, "cpuset: busy")
        decision = self(*services, partition=APPLIED, outcome=outcome)
        self.asked += decision.partition != APPLIED
        return decision


@pytest.mark.parametrize("status", ["refused", "rolled_back", "failed"])
def test_what_the_agent_does_not_carry_out_is_asked_for_ever_more_rarely(status: str) -> None:
    run = Obstinate(Osml(needs(rate_10=4.0), without=["probe"]))
    run.status = status
    for _ in range(200):
        run.tick(service("a"), service("b"))
    assert 5 <= run.asked <= 200 / LONGEST + 6
    assert f"the last decision was {status.replace('_', ' ')}: cpuset: busy" in " ".join(
        _until_held(run, service("a"), service("b"))
    )


def _until_held(run: Obstinate, *services: Any) -> list[str]:
    found: list[str] = []
    for _ in range(2 * LONGEST):
        found += [reason.text for reason in run.tick(*services).reasons]
    return found


@pytest.mark.parametrize("refused", [Refused(10**9, 1), Refused(1, 10**9), Refused(0, 1), Refused(1, -1)])
def test_a_patience_that_no_decision_can_have_left_is_discarded(refused: Refused) -> None:
    run = Run(Osml(needs(rate_10=4.0), without=["probe"]))
    run(service("a"), service("b"), times=3)
    state, _ = open_state(run.decision.policy_state, run.policy)
    run(service("a"), service("b"), policy_state=seal_state(run.policy, replace(state, refused=refused)))
    assert "the state of 'osml' cannot be read and is discarded" in run.decision.reasons[0].text


def test_an_agent_that_carries_decisions_out_again_is_asked_at_once_again() -> None:
    run = Obstinate(Osml(needs(rate_10=4.0), without=["probe"]))
    for _ in range(20):
        run.tick(service("a"), service("b"))
    while run.decision.partition == APPLIED:
        run.tick(service("a"), service("b"))
    for _ in range(3):  # from here on all that is decided is applied
        run(service("a"), service("b"), outcome=Outcome(run.decision.seq, "applied"))
    state, _ = open_state(run.decision.policy_state, run.policy)
    assert state.refused is None
    assert run.cores() == {"a": 4, "b": 4}


def test_a_step_that_was_refused_is_not_withdrawn_when_a_target_is_missed_after_it() -> None:
    run = Obstinate(Osml(needs(rate_10=4.0), without=["probe"]))
    while run.decision is None or run.decision.partition == APPLIED:
        run.tick(service("a"), service("b"))
    for _ in range(4):
        run.tick(service("a", 1.5), service("b"))
        assert "withdrawn" not in run.words()
    state, _ = open_state(run.decision.policy_state, run.policy)
    assert state.tracks["a"].before is None


def test_what_a_refused_decision_supposed_is_not_remembered() -> None:
    run = Run(Osml(needs(rate_1000=4.0, rate_5000=16.0, rate_12000=30.0)))
    many = [service("a", 2.0, 1000.0), service("b", 3.0, 5000.0), service("c", 4.0, 12000.0)]
    while run.decision is None or not _state(run).set_aside:
        run(*many)
    cells = Partition([Region(["a"], 6, 6), Region(["b"], 12, 7), Region(["c"], 18, 7)])
    outcome = Outcome(run.decision.seq, "refused", "busy")
    for _ in range(12):
        decision = run(*[replace(one, latency=service("x").latency) for one in many], partition=cells, outcome=outcome)
        outcome = Outcome(decision.seq, "unchanged")
        assert _state(run).set_aside == []
        assert "these services only have what the others leave" not in str(decision.infeasible)


def test_steps_that_never_came_are_no_corrections() -> None:
    run = Obstinate(Osml(needs(rate_10=4.0), without=["probe"]))
    for _ in range(200):
        run.tick(service("a", 1.3), service("b"))
    assert {name: track.correction for name, track in _state(run).tracks.items()} == {
        "a": Correction(),
        "b": Correction(),
    }


@pytest.mark.parametrize("most", [2, 4])
def test_an_agent_that_limits_how_much_changes_at_once_is_asked_for_less(most: int) -> None:
    run = Run(Osml(needs(rate_10=4.0), without=["probe"]))
    applied, outcome = APPLIED, None
    for _ in range(400):
        decision = run(service("a"), service("b"), partition=applied, outcome=outcome)
        far = max(abs(decision.partition.cores_of(name) - applied.cores_of(name)) for name in "ab")
        far = max(far, *(abs(decision.partition.ways_of(name) - applied.ways_of(name)) for name in "ab"))
        outcome = Outcome(decision.seq, "applied" if far <= most else "refused", "max_core_step")
        applied = decision.partition if far <= most else applied
    assert run.cores() == {"a": 4, "b": 4}


class Limited(Run):
    """An agent that carries nothing out by which a service gets or gives more than `most` units at once."""

    most = 0
    applied = APPLIED
    outcome: Outcome | None = None

    def tick(self, *services: Any) -> None:
        after = self(*services, partition=self.applied, outcome=self.outcome).partition
        new, old = after.reach(), self.applied.reach()
        far = max(abs(new[name][part] - old[name][part]) for name in "ab" for part in (0, 1))
        self.outcome = Outcome(self.decision.seq, "applied" if far <= self.most else "refused", "max_core_step")
        self.applied = after if far <= self.most else self.applied

    def held(self) -> dict[str, int]:
        return {name: self.applied.cores_of(name) for name in "ab"}


@pytest.mark.parametrize(("most", "intervals"), [(1, 60), (2, 60), (4, 30)])
def test_a_length_that_was_accepted_is_not_searched_for_again(most: int, intervals: int) -> None:
    run = Limited(Osml(needs(rate_10=4.0), without=["probe"]))
    run.most = most
    for _ in range(intervals):
        run.tick(service("a"), service("b"))
    assert run.held() == {"a": 4, "b": 4}


def test_a_shortened_step_down_is_withdrawn_when_a_target_is_missed_after_it() -> None:
    run = Limited(Osml(needs(rate_10=4.0), without=["probe"]))
    run.most = 8
    while run.held()["a"] == 18:
        run.tick(service("a"), service("b"))
    assert run.held()["a"] == 11
    run.tick(service("a", 1.3), service("b"))
    run.tick(service("a", 1.3), service("b"))
    assert run.held()["a"] >= 18


@pytest.mark.parametrize("halvings", [1, 2, 3, 6])
def test_of_several_that_get_more_some_wait_for_what_one_gives_in_parts(halvings: int) -> None:
    cells = {"a": (18, 5), "b": (6, 5), "c": (6, 5), "d": (6, 5)}
    wanted = Proposal({"a": Cell(15, 5), "b": Cell(7, 5), "c": Cell(7, 5), "d": Cell(7, 5)}, past_cliff=True)
    before = OsmlState(refused=Refused(halvings, 0), halvings=halvings)
    part = part_of_the_way(facts(*map(service, "abcd"), cells=cells, before=before), wanted)
    assert part.cells["a"].cores == 17
    assert sorted(part.cells[name].cores for name in "bcd") == [6, 6, 7]


@pytest.mark.parametrize("ratio", [0.5, 1.5])
def test_a_newcomer_is_placed_though_the_agent_refuses_what_that_takes_from_others_at_once(ratio: float) -> None:
    run = Run(Osml(needs(rate_10=12.0), without=["probe"]))
    run(service("a"), service("b"))
    first, outcome = run.decision.partition, Outcome(run.decision.seq, "applied")
    for _ in range(10):  # somebody came, so nobody knows of a partition for all
        after = run(service("a"), service("b"), service("c", ratio), partition=None, outcome=outcome)
        far = max(abs(after.partition.cores_of(name) - first.cores_of(name)) for name in "ab")
        if far <= 2:
            break
        outcome = Outcome(after.seq, "refused", "max_core_step")
    assert far <= 2
    assert run.cores()["c"] >= 1
    assert not any({"a", "c"} <= set(region.owners) for region in after.partition.regions)


def test_what_a_request_supposes_stays_while_it_is_repeated_and_may_still_come_true() -> None:
    run = Run(Osml(needs(rate_1000=4.0, rate_5000=16.0, rate_12000=30.0)))
    many = [service("a", 2.0, 1000.0), service("b", 3.0, 5000.0), service("c", 4.0, 12000.0)]
    while run.decision is None or not _state(run).set_aside:
        run(*many)
    wanted, undo = run.decision.partition, _state(run).undo
    assert undo is not None
    for _ in range(6):
        run(*many, partition=None, outcome=Outcome(run.decision.seq, "failed", "busy"))
        assert run.decision.partition == wanted
        assert (_state(run).set_aside, _state(run).undo) == (["c"], undo)
    run(*many, outcome=Outcome(run.decision.seq, "applied"))
    assert _state(run).set_aside == ["c"]


def test_what_a_repeated_request_supposed_is_forgotten_when_it_is_refused() -> None:
    run = Run(Osml(needs(rate_1000=4.0, rate_5000=16.0, rate_12000=30.0)))
    many = [service("a", 2.0, 1000.0), service("b", 3.0, 5000.0), service("c", 4.0, 12000.0)]
    while run.decision is None or not _state(run).set_aside:
        run(*many)
    cells = Partition([Region(["a"], 6, 6), Region(["b"], 12, 7), Region(["c"], 18, 7)])
    run(*many, partition=None)
    run(*many, partition=cells, outcome=Outcome(run.decision.seq, "refused", "busy"))
    assert _state(run).set_aside == []


def test_an_agent_that_refuses_all_is_named_to_the_scheduler_above() -> None:
    run = Obstinate(Osml(needs(rate_10=4.0), without=["probe"]))
    told = [run.tick(service("a"), service("b")).infeasible for _ in range(60)]
    assert told[0] is None
    assert told[-1] is not None
    assert told[-1].message == "the agent does not apply this policy's request: cpuset: busy"


def _state(run: Run) -> Any:
    return open_state(run.decision.policy_state, run.policy)[0]


def test_nothing_is_learned_while_nobody_knows_what_is_applied_and_the_same_is_asked_for() -> None:
    run = Run(Osml(needs(rate_10=4.0), without=["probe"]))
    run(service("a"), service("b"), times=6)
    before, _ = open_state(run.decision.policy_state, run.policy)
    wanted = run.decision.partition
    for _ in range(5):
        run(service("a", 3.0), service("b"), partition=None)
        assert run.decision.partition == wanted
    after, _ = open_state(run.decision.policy_state, run.policy)
    assert after.tracks == before.tracks
    assert "the same request is repeated" in run.words()


def test_a_newcomer_is_placed_though_nobody_knows_what_is_applied() -> None:
    run = Run(Osml(needs(rate_10=4.0), without=["probe"]))
    run(service("a"), service("b"), times=6)
    run(service("a", 3.0), service("b"), service("c"), partition=None)
    assert run.cores()["c"] >= 4
    state, _ = open_state(run.decision.policy_state, run.policy)
    assert state.tracks["a"].correction == Correction()


def test_a_dry_run_is_told_what_would_be_done_for_the_load_of_now() -> None:
    run = Run(Osml(needs(rate_1000=4.0, rate_5000=9.0), without=["probe"]))
    outcome = None
    for rate in (1000.0, 1000.0, 5000.0):
        run(service("a", rate=rate), service("b", rate=1000.0), partition=None, assignments=[], outcome=outcome)
        outcome = Outcome(run.decision.seq, "dry_run")
    assert run.cores()["a"] > run.cores()["b"]


def test_targets_missed_while_nothing_is_known_to_be_applied_are_told_to_the_scheduler_above() -> None:
    run = Run(Osml(needs(rate_10=4.0), without=["probe"]))
    run(service("a"), service("b"), times=3)
    run(service("a", 2.0), service("b"), partition=None, times=50)
    assert run.decision.infeasible is None
    run(service("a", 2.0), service("b"), partition=None, times=20)
    assert run.decision.infeasible is not None
    assert run.decision.infeasible.services == ["a"]
    assert "the same request is repeated" in run.words()


def test_a_first_decision_that_is_carried_out_after_some_refusals_is_not_held_like_a_refused_one() -> None:
    run = Run(Osml(needs(rate_10=4.0), without=["probe"]))
    first = run(service("a"), service("b"))
    for _ in range(5):
        run(service("a"), service("b"), partition=None, outcome=Outcome(run.seq - 1, "refused", "cpuset: busy"))
        assert run.decision.partition == first.partition
    run(service("a"), service("b"), outcome=Outcome(run.seq - 1, "applied"))
    assert "the applied partition stays for" not in run.words()
    run(service("a"), service("b"), times=4)
    assert run.cores() == {"a": 4, "b": 4}


def test_while_an_agent_is_not_asked_the_reason_does_not_say_that_the_machine_differs() -> None:
    run = Obstinate(Osml(needs(rate_10=4.0), without=["probe"]))
    said = _until_held(run, service("a"), service("b"))
    held = [text for text in said if "the applied partition stays for" in text]
    assert not any("is not the last decision" in text for text in held)
    assert any("the agent did not apply the last decision (2 in a row)" in text for text in held)


def test_targets_missed_while_an_agent_is_not_asked_are_told_to_the_scheduler_above() -> None:
    run = Obstinate(Osml(needs(rate_10=4.0), without=["probe"]))
    _until_held(run, service("a"), service("b"))
    told = [run.tick(service("a", 1.05), service("b")) for _ in range(90)]
    held = [one for one in told[62:] if "the applied partition stays for" in one.reasons[0].text]
    assert held
    assert all(one.infeasible is not None and one.infeasible.services == ["a"] for one in held)
