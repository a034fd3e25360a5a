"""The answer to whether a machine needs partitioning follows from blame and levers, and says when it can't be told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from osml.twin.advice.advise import Advice, answer, verdict
from osml.twin.advice.blame import Blame, Cause
from osml.twin.advice.levers import Lever
from osml.twin.advice.page import page

_CAUSE = Cause("batch", "cache", 4.0, 0.1, 0.9)
_BLAME = Blame("redis", 10.0, 10.0, 8.0, 12.0, 5.0, 5.0, 0.1, (_CAUSE,), explained=True)
_CAT = Lever("own cache ways (CAT)", 4.0, 2.0, 6.0, 6.0, 0.9, available=True)
_AWAY = Lever("move batch away", 5.0, 4.0, 6.0, 5.0, None, available=True)


def _advice(
    *levers: Lever, blame: Blame = _BLAME, missed: float = 0.3, target_ms: float = 8.0
) -> tuple[bool | None, list[str]]:
    return answer([Advice(blame, levers, target_ms, "p99", missed, missed)])


def test_a_sure_lever_that_divides_the_machine_is_a_yes() -> None:
    needed, said = _advice(_CAT, _AWAY)
    assert needed is True
    assert "batch costs it 4 ms through the cache." in said
    assert any("The target is then met." in text for text in said)


def test_a_lever_whose_bounds_hold_no_change_is_neither_yes_nor_no() -> None:
    needed, said = _advice(replace(_CAT, low=-1.0), _AWAY)
    assert needed is None
    assert any("not sure" in text for text in said)
    assert any("Sure to help it: move batch away" in text for text in said)


def test_its_own_limit_is_a_no_and_no_neighbour_is_named() -> None:
    own = replace(_BLAME, causes=(Cause("redis", "own limit", 4.0, 0.1, 1.0),))
    needed, said = _advice(replace(_CAT, gain=0.1, low=-0.1), blame=own)
    assert needed is False
    assert "batch" not in " ".join(said)


def test_a_neighbour_is_named_where_only_the_resource_cannot_be_told() -> None:
    spread = tuple(Cause("batch", resource, 1.5, 0.03, 1.0) for resource in ("cpu", "cache", "memory bandwidth"))
    _, said = _advice(_CAT, blame=replace(_BLAME, causes=spread))
    assert "batch costs it 4.5 ms; through CPUs, cache or memory bandwidth, that can't be told." in said
    unsure = tuple(replace(cause, confidence=0.2) for cause in spread)
    _, said = _advice(_CAT, blame=replace(_BLAME, causes=unsure))
    assert not any("batch" in text for text in said)


def test_who_meets_its_target_needs_nothing() -> None:
    needed, said = _advice(_CAT, missed=0.0, target_ms=20.0)
    assert needed is False
    assert said == ["No service misses its target in more than 1 % of the intervals."]


def test_what_the_twin_does_not_explain_is_not_answered() -> None:
    needed, said = _advice(_CAT, blame=replace(_BLAME, explained=False))
    assert needed is None
    assert any("does not explain" in text for text in said)


def test_without_a_service_nothing_can_be_told() -> None:
    assert answer([])[0] is None
    assert verdict(None, []).startswith("It can't be told")


@pytest.mark.parametrize("needed", [True, False, None])
def test_the_page_shows_names_as_text(needed: bool | None) -> None:
    shown = page({
        "node": "<b>n</b>", "platform": "p", "watched": True, "intervals": 3, "needs_partitioning": needed,
        "verdict": "x", "answer": ["<script>alert(1)</script>"], "services": [], "unknown": ["a & b"],
    })  # fmt: skip
    assert "<script" not in shown
    assert "&lt;b&gt;n" in shown
    assert "a &amp; b" in shown
