"""The osml policy where not all needs fit: share, cells at RCliff, some set aside; and no thrash."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from osml.decide.state import open_state, seal_state
from osml.domain import Partition, Region
from osml.policies.osml import Osml
from osml.policies.osml.memory.state import CELLS, POOLED, SHARED, OsmlState
from osml.policies.osml.node import Cell
from osml.policies.osml.overcommit import set_some_aside
from osml.policies.osml.place import cells_for_all
from osml.policies.osml.rules import chosen
from osml.policies.osml.settings import DEFAULT, Settings
from tests.kit.fake_models import Run, job, needs, service
from tests.kit.osml_facts import facts

SERVICES = (service("a", 1.5), service("b", rate=50.0), service("c", rate=50.0))


def state_of(run: Run) -> OsmlState:
    state, why = open_state(run.decision.policy_state, run.policy)
    assert why is None
    return state


def owners(run: Run) -> list[int]:
    return sorted(len(region.owners) for region in run.decision.partition.regions)


def test_needs_that_do_not_fit_are_shared_while_all_targets_are_met() -> None:
    run = Run(Osml(needs(rate_10=14.0)))
    run(service("a"), service("b"), service("c"), times=30)
    assert run.cores() == {"a": 36, "b": 36, "c": 36}
    assert run.decision.infeasible is None


def test_sharing_is_left_only_after_patience() -> None:
    for patience in (5, 12):
        run = Run(Osml(needs(rate_10=4.0, rate_50=17.0), Settings(patience=patience)))
        shared = 0
        while run.decision is None or owners(run) == [3]:
            run(*SERVICES)
            shared += 1
            assert shared < 30
        assert shared == patience + 1


POOLED_CELLS = Partition([Region(["a"], 4, 4), Region(["b", "c"], 32, 16)])
"""One in a cell and two on the rest: a policy before this one may have left it so."""


@pytest.mark.parametrize("scores", [{SHARED: 0.4}, {SHARED: 0.9, CELLS: 0.9}])
def test_a_service_that_is_not_measured_keeps_its_cell_where_needs_do_not_fit(scores: dict[str, float]) -> None:
    models, cells = needs(rate_10=4.0, rate_50=20.0), {"a": (16, 8)}
    late = service("b", 1.5, 50.0), service("c", 1.5, 50.0)
    seen = facts(service("a"), *late, cells=cells, models=models)
    for _ in range(6):
        before = OsmlState(tracks=seen.tracks, age=seen.age, scores=scores, wanted=seen.observation.partition)
        seen = facts(service("a", None), *late, cells=cells, before=before, models=models)
    found = chosen(seen)
    assert found.rule == "set-aside"  # cells of RCliff for all do not fit beside it
    assert not found.proposal.cells["a"].below(Cell(16, 8))


def _mixed(*services: Any) -> Run:
    run = Run(Osml(needs(rate_10=4.0, rate_50=20.0)))
    run(*services, times=4)
    return run


def test_a_service_that_is_far_behind_in_a_cell_beside_others_that_share_gets_more() -> None:
    run = _mixed(*SERVICES)
    for _ in range(3):
        run(service("a", 3.0), *SERVICES[1:], partition=POOLED_CELLS)
    assert run.cores()["a"] > 4
    assert run.cores()["b"] >= 1


@pytest.mark.parametrize("limit", [{"max_ways": 5}, {"min_cores": 33}, {"min_cores": 31, "max_cores": 31}])
def test_a_cell_beside_all_others_is_given_up_where_the_operators_new_limits_forbid_it(limit: dict[str, Any]) -> None:
    b = replace(SERVICES[1], **limit)
    run = _mixed(service("a"), SERVICES[1], SERVICES[2])
    run(service("a"), b, SERVICES[2], partition=POOLED_CELLS)
    cores, ways = run.decision.partition.cores_of("b"), run.decision.partition.ways_of("b")
    assert b.min_cores <= cores <= (b.max_cores or 36)
    assert b.min_ways <= ways <= (b.max_ways or 20)


def test_where_sharing_fails_one_is_set_aside_and_the_scheduler_above_hears_what_is_missing() -> None:
    run = Run(Osml(needs(rate_10=4.0, rate_50=16.0, rate_90=30.0)))
    worse = [service("a", 2.0), service("b", 3.0, rate=50.0), service("c", 4.0, rate=90.0)]
    run(*worse, times=5)
    assert set(run.cores().values()) == {36}
    while not state_of(run).set_aside and run.seq < 30:
        run(*worse)
    cores = run.cores()
    assert cores["a"] >= 4
    assert cores["b"] >= 16
    assert cores["c"] < 30
    assert sum(cores.values()) == 36
    assert state_of(run).set_aside == ["c"]
    assert run.decision.infeasible.services == ["c"]


def test_nobody_is_set_aside_where_sharing_misses_its_targets_by_little() -> None:
    """Two targets of three missed by 4 %: E_S is far below that of one service that has nothing."""
    run = Run(Osml(needs(rate_10=16.0)))
    for _ in range(60):
        run(service("a", 1.04), service("b", 1.04), service("c"))
        assert state_of(run).set_aside == []


def test_set_aside_that_turns_out_worse_is_given_up_for_sharing() -> None:
    run = Run(Osml(needs(rate_10=16.0)))

    def measured() -> list[Any]:
        aside = run.decision is not None and bool(state_of(run).set_aside)
        return [service(name, 30.0 if aside else 3.0) for name in "abc"]

    seen: list[bool] = []
    for _ in range(80):
        run(*measured())
        seen.append(bool(state_of(run).set_aside))
    assert any(seen)
    assert not any(seen[-20:])
    assert set(run.cores().values()) == {36}


@pytest.mark.parametrize("ratios", [(1.5, 1.8, 2.1, 2.4), (1.05, 0.7, 0.9, 1.2), (3.0, 0.5, 0.5, 0.5)])
@pytest.mark.parametrize("need", [8.0, 10.0, 14.0, 30.0])
def test_at_constant_loads_the_way_to_run_the_node_settles(ratios: tuple[float, ...], need: float) -> None:
    run = Run(Osml(needs(rate_10=need)))
    changes, before = 0, None
    for k in range(200):
        run(*(service(name, ratio) for name, ratio in zip("abcd", ratios, strict=True)))
        ways = [sorted(region.owners) for region in run.decision.partition.regions]
        changes += k > 40 and ways != before
        before = ways
    assert changes <= 4


def test_a_target_missed_here_and_there_does_not_move_the_node_between_cells_and_sharing() -> None:
    """What each way was worth is remembered as long as loads are the same."""
    run = Run(Osml(needs(rate_10=11.0)))
    changes, before = 0, None
    for k in range(300):
        shared = run.decision is None or owners(run) == [3]
        run(service("a", 1.3 if shared else 1.2), service("b"), service("c", 0.9 if k % 3 else 1.1))
        changes += owners(run) != before
        before = owners(run)
    assert changes <= 10


def test_what_was_tried_is_forgotten_when_loads_move() -> None:
    run = Run(Osml(needs(rate_1000=16.0, rate_100=4.0)))
    run(*(service(name, 1.5, rate=1000.0) for name in "abc"), times=30)
    assert state_of(run).scores
    run(*(service(name, 0.5, rate=100.0) for name in "abc"), times=20)
    assert min(len(region.owners) for region in run.decision.partition.regions) == 1
    run(*(service(name, 0.5, rate=100.0) for name in "abc"), times=int(DEFAULT.window_s))
    assert run.cores()["a"] <= 6


def test_what_the_node_can_not_satisfy_is_said_in_every_decision_while_that_lasts() -> None:
    run = Run(Osml(needs(rate_10=20.0)))
    run(service("a"), service("b"), times=3)
    for k in range(60):
        run(service("a", 1.6), service("b", 1.4))
        assert k < DEFAULT.patience + 3 or run.decision.infeasible is not None
    run(service("a"), service("b"), times=40)
    assert run.decision.infeasible is None


def test_a_state_by_which_services_are_set_aside_that_are_not_there() -> None:
    run = Run(Osml(needs(rate_10=40.0)))
    run(service("a"), job(), times=2)
    odd = seal_state(run.policy, replace(state_of(run), set_aside=["gone", "job", "a", "a"], scores={"x": 9.0}))
    run(service("a"), job(), partition=Partition([Region(["a"], 4, 2), Region(["job"], 1, 1)]), policy_state=odd)
    assert all(region.owners for region in run.decision.partition.regions)
    assert set(state_of(run).set_aside) <= {"a"}


TOO_MUCH = [service("a", 2.0, 1000.0), service("b", 3.0, 5000.0), service("c", 4.0, 12_000.0)]


def _set_aside(*others: Any) -> Run:
    run = Run(Osml(needs(rate_1000=4.0, rate_5000=16.0, rate_12000=30.0, rate_90=2.0)))
    while run.decision is None or not state_of(run).set_aside:
        run(*TOO_MUCH, *others)
        assert run.seq < 60
    return run


def test_who_is_set_aside_and_completes_no_request_counts_as_missed_completely() -> None:
    run = _set_aside()
    (aside,) = state_of(run).set_aside
    starved = [service(one.name, None if one.name == aside else 0.5, one.latency.requests_per_s) for one in TOO_MUCH]
    run(*starved, times=8)
    assert state_of(run).scores["some"] == pytest.approx(1 / 3)


def test_sharing_that_was_better_than_starving_one_comes_back() -> None:
    run = _set_aside()
    (aside,) = state_of(run).set_aside
    better = seal_state(run.policy, replace(state_of(run), scores={SHARED: 0.31}))
    starved = [service(one.name, None if one.name == aside else 0.5, one.latency.requests_per_s) for one in TOO_MUCH]
    run(*starved, policy_state=better)
    for _ in range(8):
        run(*starved)
        if owners(run) == [3]:
            break
    assert owners(run) == [3]
    assert state_of(run).set_aside == []


def test_a_job_that_comes_makes_scores_and_steps_below_the_need_worthless() -> None:
    run = Run(Osml(needs(rate_10=8.0)))
    run(service("a", 0.2), service("b", 0.2), times=40)
    assert any(track.correction.cores < 0 for track in state_of(run).tracks.values())
    assert state_of(run).scores
    run(service("a", 0.2), service("b", 0.2), job())
    assert not any(track.correction.cores < 0 for track in state_of(run).tracks.values())
    assert state_of(run).scores == {}
    run(service("a", 0.2), service("b", 0.2), job(), times=8)
    assert state_of(run).scores
    run(service("a", 0.2), service("b", 0.2))
    assert state_of(run).scores == {}


def test_nobody_is_set_aside_where_the_needs_fit() -> None:
    seen = facts(service("a", 1.5), service("b", 1.5), cells={"a": (9, 9), "b": (9, 9)})
    assert set_some_aside(seen) is None


def test_cells_for_all_are_tried_when_loads_have_fallen() -> None:
    run = _set_aside()
    rates = [one.latency.requests_per_s for one in TOO_MUCH]
    run(*(service(name, 0.6, rate) for name, rate in zip("abc", rates, strict=True)), times=4)
    run(*(service(name, 0.5, 90.0) for name in "abc"), times=5)
    assert owners(run) == [1, 1, 1]
    assert state_of(run).set_aside == []
    assert run.decision.infeasible is None


def test_a_way_is_judged_when_it_has_shown_what_it_is_worth_and_never_in_another_load() -> None:
    services = service("a", 1.5, 1000.0), service("b", 0.5, 1000.0)
    known = facts(*services).tracks
    for cells, way, after in ((None, SHARED, DEFAULT.patience), ({"a": (9, 9), "b": (9, 9)}, CELLS, DEFAULT.settle)):
        soon = OsmlState(tracks=known, age=after - 1)
        assert facts(*services, cells=cells, before=soon).scores == {}
        later = OsmlState(tracks=known, age=after, scores={POOLED: 0.5})
        assert set(facts(*services, cells=cells, before=later).scores) == {POOLED, way}
        other = service("b", 0.5, 5000.0)
        assert facts(services[0], other, cells=cells, before=later).scores == {}


def test_what_was_tried_of_other_ways_does_not_keep_cells_for_all_from_being_tried() -> None:
    services = service("a"), service("b"), service("c")
    cells = {"a": (9, 9)}
    seen = facts(*services, cells=cells)
    calm = OsmlState(tracks=seen.tracks, age=20, scores={POOLED: 0.0, SHARED: 0.1})
    assert cells_for_all(facts(*services, cells=cells, before=calm)) is not None
    tried = OsmlState(tracks=seen.tracks, age=20, scores={POOLED: 0.0, CELLS: 0.1})
    assert cells_for_all(facts(*services, cells=cells, before=tried)) is None


def test_an_arrival_beside_one_that_is_just_above_its_target_leaves_all_in_cells() -> None:
    run = Run(Osml(needs(rate_10=4.0)))
    run(service("a", 0.5), service("b", 0.5), times=8)
    cores = run.cores()["a"]
    run(service("a", 1.01), service("b", 0.5), service("c"))
    assert owners(run) == [1, 1, 1]
    assert run.cores()["a"] >= cores
