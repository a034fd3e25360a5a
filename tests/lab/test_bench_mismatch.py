"""The suite of nodes that nobody trained on: its mixes, who can satisfy them, and its report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from osml.domain import Decision, Forecast, Partition, Point, Region
from osml.lab.bench.bounds import Held, bounds_held, true_surface
from osml.lab.bench.episode import run_episode
from osml.lab.bench.feasible import asked
from osml.lab.bench.oracle_policy import Answers
from osml.lab.bench.report import build as reports
from osml.lab.bench.run import Settings, run
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suites import osml_arrivals
from osml.lab.bench.suites.osml_mismatch import SUITE, scenario
from osml.lab.bench.unit import run_unit
from osml.lab.bench.workers import in_this_process
from osml.simulator import catalogs
from osml.simulator.state import Node
from osml.simulator.surface import p99_surface
from osml.simulator.variation.conditions import CONDITIONS
from osml.simulator.variation.draw import UNSEEN

NOBODY: frozenset[str] = frozenset()


def short(one: Scenario) -> Scenario:
    return replace(one, limit_s=10.0, settle_s=2.0, hold_s=3.0)


def test_every_condition_has_as_many_mixes_beside_a_job_as_without() -> None:
    found = SUITE.scenarios()
    for condition in CONDITIONS:
        jobs = [len(one.mix.jobs) for one in found if one.part == condition]
        assert jobs == [0] * 6 + [1] * 6


def test_the_same_seed_gives_the_same_nodes() -> None:
    assert [one.node for one in SUITE.scenarios()] == [one.node for one in SUITE.scenarios()]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_mix_of_each_condition_runs_and_repeats(condition: str) -> None:
    one = short(scenario(condition, 1, beside_job=True))
    first, again = (run_episode(one, "staffing", 5, Answers()).row for _ in range(2))
    assert {k: v for k, v in first.items() if k != "wall_s"} == {k: v for k, v in again.items() if k != "wall_s"}
    assert first["faults"] == 0
    assert first["targets"] == 10 * len(one.mix.loads)


def test_a_job_that_nobody_observes_does_not_count_in_e_be() -> None:
    alone = run_episode(short(scenario("company", 1, beside_job=False)), "even", 1, Answers()).row
    assert alone["e_be"] is None
    assert UNSEEN not in alone["tenants"]
    beside = run_episode(short(scenario("company", 1, beside_job=True)), "even", 1, Answers()).row
    assert beside["e_be"] > 0.0
    assert UNSEEN not in beside["tenants"]


def test_a_mix_that_misses_its_targets_whatever_is_done_is_infeasible_and_one_that_some_partition_meets_is_not() -> (
    None
):
    assert asked(scenario("company-stream", 1, beside_job=False), Answers()).feasible is False
    many = scenario("machines", 4, beside_job=False)
    assert len(many.mix.loads) > 4
    assert asked(many, Answers()).feasible is True
    usual = asked(scenario("nominal", 5, beside_job=False), Answers())
    assert usual.feasible is True
    assert usual.cores is not None


def test_an_oracle_does_not_place_a_job_that_is_hidden_from_policies() -> None:
    one = short(scenario("company", 1, beside_job=True))
    [row] = run_unit(0, one, [("oracle", 0)]).rows
    assert row["fault"] is None


def test_a_drift_is_judged_when_there_is_most_work() -> None:
    one = scenario("drift", 3, beside_job=False)
    assert one.variant is not None
    assert one.variant.drift is not None
    heaviest = one.variant.heaviest(one.limit_s)
    instructions = sum(service.instructions for service in one.node.services)
    assert sum(service.instructions for service in heaviest.services) < instructions  # the catalog's is the most
    assert asked(one, Answers()).cores != asked(replace(one, variant=replace(one.variant, drift=None)), Answers()).cores


def test_a_drift_that_can_not_be_satisfied_at_the_peak_of_one_service_is_infeasible() -> None:
    """Together the services have most work at another moment, at which all targets can be met."""
    one = scenario("real", 5, beside_job=True)
    assert one.variant is not None
    assert asked(
        replace(one, variant=replace(one.variant, drift=None, node=one.variant.heaviest(one.limit_s))), Answers()
    ).feasible
    assert asked(one, Answers()).feasible is False


def test_the_true_surface_of_a_service_without_company_is_that_of_the_catalog() -> None:
    platform, service = catalogs.platform("i7-4770k"), catalogs.service("silo", "i7-4770k")
    node = Node(platform, (service,))
    alone = true_surface(node, {"silo": 0.4}, Partition([Region(["silo"], 4, 16)]), frozenset(), 0)
    assert alone == pytest.approx(p99_surface(platform, service, 0.4))


def test_company_takes_what_the_partition_gives_it_and_more_for_one_is_less_for_others() -> None:
    one = scenario("nominal", 5, beside_job=True)
    names = [*one.mix.loads, *one.mix.jobs]
    partition = Partition([Region([name], 9, 5) for name in names])
    surface = true_surface(one.node, one.mix.loads, partition, frozenset(), 0)
    assert surface.shape == (36 - 3, 20 - 3)
    assert surface[32, 16] < surface[0, 0]


def test_bounds_hold_where_they_are_above_the_cliff_and_only_there() -> None:
    one = scenario("nominal", 5, beside_job=False)
    partition = Partition([Region([name], 12, 6) for name in one.mix.loads])

    def held(upper: float, familiar: bool = True) -> Held:
        told = [
            Forecast(name, "a2", Point(1, 1), Point(upper, upper), Point(upper, upper), 0.9, familiar)
            for name in one.mix.loads
        ]
        return bounds_held(one.node, one.mix.loads, Decision("n", 0, "osml", partition, [], [], forecasts=told), NOBODY)

    assert held(99.0) == Held(3, 3, 3, 3)
    assert held(0.5) == Held(3, 0, 0, 0)
    assert held(99.0, familiar=False) == Held(unfamiliar=3)


def test_the_report_has_policies_by_condition_with_and_without_jobs(tmp_path: Path) -> None:
    suite = replace(SUITE, scenarios=lambda: [short(one) for one in SUITE.scenarios() if one.part in ("late", "blind")])
    run(Settings(suite, ["unmanaged", "staffing"], 1, tmp_path, limit=4), in_this_process, Console(quiet=True))
    summary = reports.build(tmp_path)
    text = (tmp_path / "report.md").read_text("utf-8")
    assert "| condition | what differs | feasible | infeasible | undecided |" in text
    assert "## Mixes without jobs, " in text
    assert "## Mixes beside a job, " in text
    assert "| condition | mixes | unmanaged | staffing |" in text
    assert sum(summary["mixes"].values()) == 4


def test_each_script_of_arrivals_is_a_scenario_of_its_own_and_the_same_each_time() -> None:
    first, again = (osml_arrivals.scenarios() for _ in range(2))
    assert [scenario.key for scenario in first] == [scenario.key for scenario in again]
    assert len({scenario.key for scenario in first}) == len(first) == 40
    assert {scenario.part for scenario in first} == {"services alone", "beside a job"}
