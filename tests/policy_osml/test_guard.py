"""The guard of the osml policy: what no proposal may do, whichever rule it is of."""

from __future__ import annotations

from dataclasses import replace as replace_facts
from typing import Any

import pytest
from msgspec.structs import replace

from osml.domain import Counters
from osml.policies.osml.answers.models import Models
from osml.policies.osml.facts import Facts
from osml.policies.osml.guard import may_have, objection
from osml.policies.osml.memory.state import Correction
from osml.policies.osml.node import Cell
from osml.policies.osml.rule import Proposal
from tests.kit.fake_models import Fake, job, service
from tests.kit.osml_facts import facts


def _models() -> Models:
    """RCliff 5, 4 (at most 5.5, 5.5), OAA 6.1, 2 (at most 6.6, 2.5)."""
    fake: Any = Fake(lambda row: [5.0, 5.5, 6.1, 2.0, 1.0])
    return Models(a=fake, a2=fake)


def seen(ratio: float | None = 0.5, used: float | None = None, **limits: int) -> Facts:
    one = service("a", ratio, counters=Counters(cpu_usage_cores=used), **limits)
    return facts(one, service("b"), cells={"a": (10, 8), "b": (10, 8)}, models=_models())


def corrected(known: Facts, **more: int) -> Facts:
    tracks = {**known.tracks, "a": replace(known.tracks["a"], correction=Correction(**more))}
    return replace_facts(known, tracks=tracks)


def proposal(a: Cell, **more: Any) -> Proposal:
    return Proposal({"a": a, "b": Cell(10, 8)}, **more)


def test_what_is_above_the_bound_of_the_cliff_or_within_a_core_of_the_oaa_passes() -> None:
    known = seen()
    assert may_have(known, "a", Cell(5, 6))  # the bound of RCliff in both
    assert may_have(known, "a", Cell(6, 2))  # one less than the bound of the OAA, with its ways
    assert not may_have(known, "a", Cell(4, 6))
    assert not may_have(known, "a", Cell(5, 2))
    assert not may_have(known, "a", Cell(6, 1))
    assert "may be below its RCliff" in (objection(known, proposal(Cell(4, 6))) or "")
    assert objection(known, proposal(Cell(5, 6))) is None


def test_a_correction_counts_on_top_and_a_negative_one_does_not() -> None:
    assert not may_have(corrected(seen(), cores=1), "a", Cell(5, 6))
    assert may_have(corrected(seen(), cores=1), "a", Cell(6, 6))
    assert not may_have(corrected(seen(), ways=1), "a", Cell(5, 6))
    assert not may_have(corrected(seen(), cores=-2), "a", Cell(4, 6))


@pytest.mark.parametrize("ratio", [1.05, None])
def test_from_who_misses_its_target_or_was_not_measured_nothing_is_taken(ratio: float | None) -> None:
    assert not may_have(seen(ratio), "a", Cell(9, 8))
    assert objection(seen(ratio), proposal(Cell(9, 8))) is not None
    assert objection(seen(ratio), proposal(Cell(11, 8))) is None


@pytest.mark.parametrize("marked", [{"past_cliff": True}, {"set_aside": ["a"]}])
def test_a_proposal_may_say_that_it_goes_below(marked: dict[str, Any]) -> None:
    assert objection(seen(), proposal(Cell(2, 2))) is not None
    assert objection(seen(), proposal(Cell(2, 2), **marked)) is None


def test_cpu_time_in_use_has_to_fit_in_the_smaller_cell() -> None:
    assert may_have(seen(used=5.4), "a", Cell(6, 6))
    assert not may_have(seen(used=5.6), "a", Cell(6, 6))  # 93 % of six
    assert may_have(seen(used=float("nan")), "a", Cell(6, 6))


def test_limits_of_the_operator_and_of_the_machine_hold_for_every_proposal() -> None:
    limits = {"min_cores": 3, "max_cores": 12, "max_ways": 9}
    for cell in (Cell(2, 8), Cell(13, 8), Cell(10, 10)):
        assert "operator's limits" in (objection(seen(**limits), proposal(cell, past_cliff=True)) or "")
    assert objection(seen(**limits), proposal(Cell(12, 9))) is None
    assert objection(seen(), proposal(Cell(27, 8))) == "the cells are more than the node has"


def test_who_shares_what_cells_leave_has_to_be_able_to() -> None:
    assert objection(seen(), Proposal({"a": Cell(35, 19)})) is None
    assert "b can't share 0 cores" in (objection(seen(), Proposal({"a": Cell(36, 20)})) or "")
    small = facts(service("a"), service("b", min_cores=3, max_cores=9), cells={"a": (10, 8), "b": (9, 8)})
    assert objection(small, Proposal({"a": Cell(30, 10)})) is None
    assert "b can't share 2 cores" in (objection(small, Proposal({"a": Cell(34, 10)})) or "")
    assert "b can't share 26 cores" in (objection(small, Proposal({"a": Cell(10, 10)})) or "")
    assert "b can't share 36 cores" in (objection(small, Proposal({})) or "")


def test_jobs_keep_what_they_have_to_have() -> None:
    known = facts(service("a"), job(), cells={"a": (10, 8), "job": (1, 2)})
    assert objection(known, Proposal({"a": Cell(35, 18)})) is None
    assert objection(known, Proposal({"a": Cell(36, 18)})) is not None
    assert objection(known, Proposal({"a": Cell(35, 19)})) is not None
