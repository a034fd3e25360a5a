"""The rule that moves a unit from who has room to who misses its target, where predictions leave nothing to spare."""

from __future__ import annotations

from dataclasses import replace as replace_facts
from typing import Any

import pytest
from msgspec.structs import replace

from osml.domain import Counters
from osml.policies.osml.answers.models import Models
from osml.policies.osml.balance import after_return, go_back, level_with, move_a_unit
from osml.policies.osml.facts import Facts
from osml.policies.osml.guard import objection
from osml.policies.osml.memory.state import CELLS, SHARED, Track
from osml.policies.osml.node import Cell
from osml.policies.osml.rules import chosen
from osml.policies.osml.settings import DEFAULT
from tests.kit.fake_models import Fake, service
from tests.kit.osml_facts import facts

HALF = (18, 10)


def full(
    taker: float = 1.1, giver: float = 0.5, *, oaa: tuple[float, float] = (24.0, 12.0), used: float = 9.0
) -> Facts:
    """A node in two halves; both are predicted to need more than that. `a` misses its target, `b` has room."""
    fake: Any = Fake(lambda row: [oaa[0] - 1.0, oaa[1], oaa[0], oaa[1], 1.0])
    counters = Counters(cpu_usage_cores=used)
    seen = facts(
        service("a", taker, counters=counters),
        service("b", giver, counters=counters),
        cells={"a": HALF, "b": HALF},
        models=Models(a=fake, a2=fake),
    )
    tracks = {
        "a": replace(seen.tracks["a"], settled=5, streak=-3, level=taker),
        "b": replace(seen.tracks["b"], settled=5, streak=5, level=giver),
    }
    return replace_facts(seen, tracks=tracks, missed=["a"], alarmed=["a"])


def moved(seen: Facts) -> dict[str, Cell] | None:
    found = move_a_unit(seen)
    return None if found is None else found.cells


def test_one_unit_moves_and_all_that_there_is_stays_in_use() -> None:
    seen = full()
    assert move_a_unit(seen) is not None
    cells = moved(seen)
    assert cells == {"a": Cell(19, 10), "b": Cell(17, 10)}  # 18 of 24 cores is less than 10 of 12 ways
    proposal = move_a_unit(seen)
    assert proposal is not None
    assert objection(seen, proposal) is None
    assert "a changes by +1 cores" in proposal.reasons[0].text


def test_who_answers_in_no_time_has_most_room() -> None:
    assert moved(full(giver=0.0)) == {"a": Cell(19, 10), "b": Cell(17, 10)}


def test_cells_that_are_much_worse_than_sharing_are_given_up() -> None:
    seen = full()
    assert move_a_unit(replace_facts(seen, scores={CELLS: 0.12, SHARED: 0.1})) is not None
    assert move_a_unit(replace_facts(seen, scores={CELLS: 0.14, SHARED: 0.1})) is None


def test_ways_move_where_they_are_what_is_lacking() -> None:
    assert moved(full(oaa=(20.0, 16.0))) == {"a": Cell(18, 11), "b": Cell(18, 9)}


def test_nothing_moves_to_a_service_that_has_its_need() -> None:
    assert moved(full(oaa=(6.0, 2.0))) is None


@pytest.mark.parametrize(("taker", "giver"), [(1.1, 0.99), (1.01, 1.0)])
def test_who_is_as_near_to_its_target_gives_nothing(taker: float, giver: float) -> None:
    assert moved(full(taker, giver)) is None


def test_who_uses_its_cpus_gives_ways_and_no_core() -> None:
    cells = moved(full(used=17.5))
    assert cells == {"a": Cell(18, 11), "b": Cell(18, 9)}


def test_nobody_returns_to_a_cell_in_which_it_missed_its_target() -> None:
    seen = full()
    tracks = {**seen.tracks, "b": replace(seen.tracks["b"], missed_with=(17, 10))}
    assert moved(replace_facts(seen, tracks=tracks)) == {"a": Cell(18, 11), "b": Cell(18, 9)}
    tracks["b"] = replace(seen.tracks["b"], missed_with=(18, 10))
    assert moved(replace_facts(seen, tracks=tracks)) is None


def test_a_wait_grows_with_the_share_of_cpus_in_use() -> None:
    seen = full(used=9.0)
    assert level_with(seen, "b", 18) == pytest.approx(0.5)
    assert level_with(seen, "b", 12) == pytest.approx(0.5 * (1 - 9 / 18) / (1 - 9 / 12))
    assert level_with(seen, "b", 9) == float("inf")
    assert level_with(full(used=float("nan")), "b", 12) is None


def test_far_above_its_target_units_are_too_slow_and_all_share() -> None:
    assert moved(full(taker=1.9)) is not None
    assert chosen(full(taker=2.5)).rule == "share"


def test_where_sharing_is_no_better_units_move_for_who_is_far_above_its_target() -> None:
    seen = full(taker=2.5)
    tried = {SHARED: 0.32, CELLS: 0.3}
    assert chosen(replace_facts(seen, scores=tried)).rule == "balance"
    assert move_a_unit(replace_facts(seen, node=seen.node._replace(be=("job",)))) is not None
    mosts = {name: Cell(30, 20) for name in seen.node.mosts}
    assert chosen(replace_facts(seen, node=seen.node._replace(mosts=mosts))).rule == "balance"


def test_one_queue_that_grows_is_enough_whoever_is_worst_in_the_mean() -> None:
    seen = full(taker=1.1, giver=2.5)
    tracks = {**seen.tracks, "b": replace(seen.tracks["b"], level=0.9, streak=-1)}
    assert moved(replace_facts(seen, tracks=tracks, alarmed=["a", "b"])) is None


GOOD = {"a": (20, 10), "b": (16, 10)}


def after_good(seen: Facts, **more: Any) -> Facts:
    return replace_facts(seen, before=replace(seen.before, good=GOOD, **more))


def test_all_return_to_the_cells_in_which_they_met_their_targets() -> None:
    found = go_back(after_good(full()))
    assert found is not None
    assert found.cells == {"a": Cell(20, 10), "b": Cell(16, 10)}


def test_nobody_returns_without_a_miss_at_other_loads_for_ever_or_to_where_all_are() -> None:
    seen = full()
    assert go_back(seen) is None
    assert go_back(replace_facts(after_good(seen), alarmed=[])) is None
    assert go_back(replace_facts(after_good(seen), changed=True)) is None
    assert go_back(after_good(seen, returned=DEFAULT.returns)) is None
    assert go_back(replace_facts(seen, before=replace(seen.before, good={"a": HALF, "b": HALF}))) is None
    assert go_back(replace_facts(seen, before=replace(seen.before, good={"a": (17, 10), "b": (19, 10)}))) is None
    assert go_back(replace_facts(after_good(seen), cells={})) is not None  # all share
    assert go_back(replace_facts(seen, before=replace(seen.before, good={"a": HALF, "gone": HALF}))) is None


def calm(seen: Facts) -> Facts:
    tracks = {name: replace(one, settled=5, streak=5, level=0.8) for name, one in seen.tracks.items()}
    return replace_facts(seen, tracks=tracks, missed=[], alarmed=[], way=CELLS)


def test_cells_are_good_once_all_have_met_their_targets_in_them_for_a_while() -> None:
    seen = calm(full())
    assert after_return(seen) == ({"a": HALF, "b": HALF}, 0)
    late = replace_facts(seen, tracks={**seen.tracks, "a": replace(seen.tracks["a"], settled=4)})
    assert after_return(late) == ({}, 0)
    hangs = replace_facts(seen, services={**seen.services, "a": service("a", None)})
    assert after_return(hangs) == ({}, 0)
    unknown = replace_facts(seen, observation=replace(seen.observation, partition=None))
    assert after_return(unknown) == ({}, 0)


def test_returns_are_counted_and_cells_that_fail_for_long_or_by_far_are_forgotten() -> None:
    seen = after_good(full(taker=2.5))
    assert after_return(seen) == (GOOD, 0)
    assert after_return(replace_facts(seen, changed=True)) == ({}, 0)
    seen = replace_facts(seen, cells={name: Cell(*cell) for name, cell in GOOD.items()})
    arrived, long = replace(seen.tracks["a"], settled=0), replace(seen.tracks["a"], streak=-20, settled=4)

    def after(track: Track, **more: Any) -> object:
        return after_return(replace_facts(seen, tracks={**seen.tracks, "a": track}, **more))

    assert after(arrived) == (GOOD, 1)  # what is above the target is a queue of before
    assert after(seen.tracks["a"]) == ({}, 0)
    slight = {"services": {**seen.services, "a": service("a", 1.3)}}
    assert after(long, **slight) == (GOOD, 0)  # most of that was in other cells
    assert after(replace(long, settled=5), **slight) == ({}, 0)
    blind = {"observation": replace(seen.observation, partition=None)}
    assert after(replace(long, settled=5), **slight, **blind) == (GOOD, 0)
