"""The rules that follow Model-C': more before a miss, less where that is known to be enough."""

from __future__ import annotations

import math
from dataclasses import replace as replace_facts
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from osml.domain import Counters
from osml.policies.osml.ahead import less_ahead, more_ahead
from osml.policies.osml.answers.models import Models
from osml.policies.osml.facts import Facts, expected_of
from osml.policies.osml.guard import objection
from osml.policies.osml.memory.past import Past, after
from osml.policies.osml.node import Cell
from osml.policies.osml.settings import DEFAULT
from osml.predictors import Margin, Prediction
from osml.predictors.outlook import OUTLOOK_INPUTS, OUTLOOK_OUTPUT
from tests.kit.fake_models import job, metadata, needs, service
from tests.kit.osml_facts import facts

_CPUS, _OFFSET, _WAIT = (OUTLOOK_INPUTS.index(name) for name in ("log_cpus", "offset", "wait_there"))


class Knows:
    """A Model-C' that knows: a service has `enough` cores, and its latency goes with the inverse of what it has."""

    def __init__(self, enough: float, *, broken: str = "") -> None:
        margins = {key: Margin([1.0], [1.0]) for key in ("0.95",)}
        self.metadata = metadata((OUTLOOK_OUTPUT,), OUTLOOK_INPUTS, margins=margins, kind="c2")
        self.enough, self.broken = enough, broken

    def predict(self, rows: np.ndarray[Any, Any]) -> Prediction:
        if self.broken == "raises":
            raise ValueError("no")
        if self.broken == "short":
            rows = rows[:1]
        level = math.log(self.enough) - rows[:, _CPUS]
        points = (level - rows[:, _OFFSET] - rows[:, _WAIT])[:, None]
        return Prediction(points.astype(np.float32), np.full_like(points, 1e-6, np.float32), self.metadata)


def shown(enough: float, cells: dict[str, tuple[int, int]], *, met: int = 9, broken: str = "") -> Facts:
    """Services in these cells for a while, beside a job."""
    counters = Counters(cpu_usage_cores=3.0)
    known: Any = Knows(enough, broken=broken)
    given = replace_models(needs(rate_10=4.0), known)
    services = [service(name, 0.9, counters=counters) for name in cells]
    found = facts(*services, job(), cells=cells, models=given)
    tracks = dict(found.tracks)
    for one in services:
        past = Past()
        for _ in range(5):
            past = after(past, one, float(cells[one.name][0]))
        tracks[one.name] = replace(tracks[one.name], past=past, settled=9, streak=met)
    return expecting(replace_facts(found, tracks=tracks))


def expecting(seen: Facts) -> Facts:
    return replace_facts(seen, expected=expected_of(seen))


def replace_models(models: Models, known: Any) -> Models:
    return Models(a=models.a, a2=models.a2, c2=known)


def cells_of(proposal: Any) -> dict[str, Cell] | None:
    return None if proposal is None else proposal.cells


def test_a_service_that_will_miss_its_target_gets_the_first_cell_that_is_enough() -> None:
    seen = shown(10.0, {"a": (8, 4), "b": (12, 4)})
    assert seen.expected
    proposal = more_ahead(seen)
    assert cells_of(proposal) == {"a": Cell(11, 4), "b": Cell(12, 4)}  # 10 / 11 is below the goal, 10 / 10 is not
    assert proposal is not None and objection(seen, proposal) is None
    assert "Model-C' expects" in proposal.reasons[0].text


def test_no_more_is_given_than_there_is() -> None:
    assert cells_of(more_ahead(shown(10.0, {"a": (8, 4), "b": (26, 4)}))) == {"a": Cell(9, 4), "b": Cell(26, 4)}
    assert more_ahead(shown(30.0, {"a": (8, 4), "b": (27, 4)})) is None


def test_where_nothing_in_reach_is_enough_all_of_the_reach_is_given() -> None:
    reach = DEFAULT.reach[0] + int(DEFAULT.reach[1] * 8)
    assert cells_of(more_ahead(shown(30.0, {"a": (8, 4)}))) == {"a": Cell(8 + reach, 4)}


def test_the_smallest_cell_that_is_safe_is_taken_at_once() -> None:
    seen = shown(6.0, {"a": (10, 4)})
    proposal = less_ahead(seen)
    assert cells_of(proposal) == {"a": Cell(7, 4)}  # log(6 / 7) is -0.154, log(6 / 6) is 0
    assert proposal is not None
    assert proposal.tracks["a"].before == (10, 4)  # a miss takes the step back
    assert objection(seen, proposal) is None


@pytest.mark.parametrize("met", [0, DEFAULT.safe_after - 1])
def test_nothing_is_taken_from_who_has_not_met_its_target_for_a_while(met: int) -> None:
    assert less_ahead(shown(6.0, {"a": (10, 4)}, met=met)) is None


def test_between_the_two_thresholds_nothing_changes() -> None:
    seen = shown(9.5, {"a": (10, 4)})
    assert more_ahead(seen) is None
    assert less_ahead(seen) is None


@pytest.mark.parametrize("how", ["raises", "short"])
def test_a_broken_model_and_a_short_past_change_nothing(how: str) -> None:
    broken = shown(10.0, {"a": (8, 4), "b": (8, 4)}, broken=how)
    assert more_ahead(broken) is None
    assert less_ahead(broken) is None
    seen = shown(10.0, {"a": (8, 4)})
    short = {"a": replace(seen.tracks["a"], past=Past())}
    assert expecting(replace_facts(seen, tracks=short)).expected == {}


def test_an_answer_that_is_no_number_is_none() -> None:
    seen = shown(math.nan, {"a": (8, 4)})
    assert seen.expected == {}
    assert more_ahead(seen) is None
    assert less_ahead(seen) is None


def test_the_operators_limits_hold() -> None:
    seen = shown(20.0, {"a": (8, 4)})
    limited = replace_facts(seen, node=seen.node._replace(mosts={**seen.node.mosts, "a": Cell(9, 20)}))
    assert cells_of(more_ahead(limited)) == {"a": Cell(9, 4)}
