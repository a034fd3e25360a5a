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
from osml.policies.osml.memory.state import CELLS, SHARED
from osml.policies.osml.node import Cell
from osml.policies.osml.rule import Proposal
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


def test_far_above_its_target_units_are_too_slow_and_all_share_but_not_beside_a_job() -> None:
    assert moved(full(taker=2.5)) is None
    assert moved(full(taker=1.9)) is not None
    seen = full(taker=2.5)
    assert move_a_unit(replace_facts(seen, node=seen.node._replace(be=("job",)))) is not None


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
    assert go_back(replace_facts(seen, before=replace(seen.before, good={"a": HALF, "gone": HALF}))) is None


def calm(seen: Facts) -> Facts:
    tracks = {name: replace(one, settled=5, streak=5, level=0.8) for name, one in seen.tracks.items()}
    return replace_facts(seen, tracks=tracks, missed=[], alarmed=[], way=CELLS)


def test_cells_are_good_once_all_have_met_their_targets_in_them_for_a_while() -> None:
    seen = calm(full())
    held = Proposal(dict(seen.cells))
    assert after_return(seen, held) == ({"a": HALF, "b": HALF}, 0)
    late = replace_facts(seen, tracks={**seen.tracks, "a": replace(seen.tracks["a"], settled=4)})
    assert after_return(late, held) == ({}, 0)
    unmeasured = replace_facts(seen, tracks={**seen.tracks, "a": replace(seen.tracks["a"], level=None)})
    assert after_return(unmeasured, held) == ({}, 0)
    unknown = replace_facts(seen, observation=replace(seen.observation, partition=None))
    assert after_return(unknown, held) == ({}, 0)


def test_returns_are_counted_and_cells_that_fail_for_long_or_by_far_are_forgotten() -> None:
    seen = after_good(full())
    back = go_back(seen)
    assert back is not None
    assert after_return(seen, back) == (GOOD, 1)
    assert after_return(replace_facts(seen, changed=True), back) == ({}, 0)
    in_them = replace_facts(seen, cells={name: Cell(*cell) for name, cell in GOOD.items()})
    assert after_return(in_them, Proposal({})) == (GOOD, 0)
    long = {**seen.tracks, "a": replace(seen.tracks["a"], streak=-DEFAULT.patience)}
    assert after_return(replace_facts(in_them, tracks=long), Proposal({})) == ({}, 0)
