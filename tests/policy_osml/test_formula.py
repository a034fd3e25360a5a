"""The osml policy without any model: needs are those of square-root staffing, and all rules hold as ever."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from osml.domain import Counters, Partition, Region, Service
from osml.policies.osml import OsmlFormula
from osml.policies.osml.answers.forecast import NO_MODEL
from osml.policies.osml.answers.models import Models
from osml.policies.osml.formula import staffed
from osml.policies.osml.node import Cell, node_of
from tests.kit.fake_models import PLATFORM, Run, job, needs, observe, service


def using(name: str, cpus: float | None, ratio: float | None = 0.5) -> Service:
    return service(name, ratio, counters=Counters(cpu_usage_cores=cpus))


TWO = node_of(observe(service("a"), service("b")))


@pytest.mark.parametrize("used", [0.0, 1.0, 4.0, 9.0])
def test_a_need_is_what_is_used_and_its_root_and_one(used: float) -> None:
    answer = staffed(TWO, using("a", used), Cell(30, 4), 1.0)
    assert answer.oaa == (used + math.sqrt(used) + 1.0, 10.0)
    assert answer.cliff[0] == used
    assert answer.upper == answer.oaa
    assert answer.model == NO_MODEL


@pytest.mark.parametrize("used", [None, float("nan"), -3.0, float("inf")])
def test_where_cpu_time_is_missing_a_service_needs_what_it_has_else_an_equal_part(used: float | None) -> None:
    assert staffed(TWO, using("a", used), Cell(7, 4), 1.0).oaa[0] == 7.0
    assert staffed(TWO, using("a", used), None, 1.0).oaa[0] == 18.0
    assert staffed(TWO, using("a", used), Cell(7, 4), 0.1).oaa[0] == pytest.approx(0.7)
    alone = node_of(observe(service("a"), platform=replace(PLATFORM, ways=None)))
    assert staffed(alone, using("a", used), None, 1.0).oaa == (36.0, 0.0)


def test_it_asks_no_model_and_divides_the_node_by_cpu_time() -> None:
    run = Run(OsmlFormula(needs(rate_10=30.0)))
    run(using("a", 4.0), using("b", 9.0), job(), times=40)
    assert run.decision.forecasts == []
    assert 5 <= run.cores()["a"] <= 7  # 4 + 2 + 1, less a probe or two
    assert 10 <= run.cores()["b"] <= 13
    assert run.cores()["job"] >= 16
    assert "square-root staffing" in run.words()


def test_without_cpu_time_nobody_loses_what_it_has() -> None:
    run = Run(OsmlFormula(Models()))
    parts = Partition([Region(["a"], 20, 10), Region(["b"], 10, 10)])
    run(using("a", None), using("b", None), partition=parts)
    run(using("a", None), using("b", None), times=3)
    assert run.cores() == {"a": 20, "b": 10}


def test_without_any_counter_and_latency_the_node_is_divided_evenly() -> None:
    run = Run(OsmlFormula(Models()))
    run(using("a", None, None), using("b", None, None), times=20)
    assert run.cores() == {"a": 18, "b": 18}


def test_a_missed_target_gets_more_than_the_formula_says() -> None:
    run = Run(OsmlFormula(Models()))
    run(using("a", 4.0), using("b", 4.0), times=5)
    before = run.cores()["a"]
    run(using("a", 4.0, 1.5), using("b", 4.0), times=2)
    assert run.cores()["a"] > before
