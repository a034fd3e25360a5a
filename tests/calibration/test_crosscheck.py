"""The cross-check: what it compares, and that engine and event simulation agree on a small grid."""

import json
import sys
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from osml.base.failure import Failure
from osml.simulator import catalogs
from osml.simulator.calibration.crosscheck import crosscheck, flow_at, requests_for, workload_of
from osml.simulator.commands import app

PLATFORM = catalogs.platform("e5-2697v4")


def service(name):
    return catalogs.service(name, PLATFORM.id)


@pytest.fixture(scope="module")
def small():
    return crosscheck(PLATFORM, [service("moses"), service("xapian")], 1, [1, 4, 8], [4, 20], (0.1, 0.5, 0.8))


def test_stationary_p99_agree(small):
    assert len(small.cells) + small.unreached == 2 * 3 * 2 * 3
    assert small.unreached <= 4
    assert small.median_rel_error < 0.05
    assert small.worst_rel_error < 0.15
    assert max(cell.p99_error for cell in small.cells) < 0.05


def test_means_and_other_percentiles_agree(small):
    for cell in small.cells:
        assert cell.analytic.mean_ms == pytest.approx(cell.simulated.mean_ms, rel=0.06)
        assert cell.analytic.p50_ms == pytest.approx(cell.simulated.p50_ms, rel=0.10)
        assert cell.analytic.p95_ms == pytest.approx(cell.simulated.p95_ms, rel=0.10)


def test_fluid_backlogs_agree_in_overload():
    report = crosscheck(PLATFORM, [service("moses")], 2, [4], [20], (1.2, 1.5))
    assert len(report.cells) == 2
    for cell in report.cells:
        ours, theirs = cell.backlog
        assert ours == pytest.approx(theirs, rel=0.10)
        assert cell.p99_error is None


@pytest.mark.parametrize("utilisation", [0.2, 0.9, 1.3])
def test_both_sides_get_the_utilisation_asked_for_at_the_state_of_that_load(utilisation):
    flow, arrivals = flow_at(PLATFORM, service("moses"), 4, 6, utilisation, 2.0)
    assert flow.utilisation == pytest.approx(utilisation, rel=1e-5)
    workload = workload_of(service("moses"), 4, flow, arrivals)
    assert workload.utilisation == pytest.approx(utilisation, rel=1e-3)
    assert workload.servers == 4


def test_a_narrow_cache_shows_in_the_service_time_of_both():
    moses = service("moses")
    narrow, wide = (workload_of(moses, 4, *flow_at(PLATFORM, moses, 4, ways, 0.5, 2.0)) for ways in (2, 20))
    assert narrow.service_ms > 1.2 * wide.service_ms


def test_runs_grow_with_burstiness_and_towards_saturation_and_some_are_out_of_reach():
    assert requests_for(1.3, 0.98) > 10 * requests_for(1.3, 0.9) > requests_for(1.3, 0.1)
    bursty = replace(service("moses"), burstiness=500.0)
    report = crosscheck(PLATFORM, [service("moses"), bursty], 0, [4], [20], (0.5, 0.9))
    assert report.too_long == 1
    assert [cell.utilisation for cell in report.cells if cell.service == "moses"].count(0.9) > 0


def test_the_same_seed_gives_the_same_report():
    again = crosscheck(PLATFORM, [service("moses")], 1, [1], [20], (0.5,))
    assert again == crosscheck(PLATFORM, [service("moses")], 1, [1], [20], (0.5,))
    assert again != crosscheck(PLATFORM, [service("moses")], 2, [1], [20], (0.5,))


@pytest.fixture
def one_cell(monkeypatch):
    command = sys.modules["osml.simulator.commands.crosscheck"]  # the name in the package is that of the function
    monkeypatch.setattr(
        command,
        "compare",
        lambda *arguments, progress: crosscheck(*arguments, [2], [10], (0.5, 1.2), progress=progress),
    )


def test_the_command_prints_the_keys_that_others_rely_on(one_cell):
    result = CliRunner().invoke(app, ["crosscheck", "--json", "--service", "moses"], catch_exceptions=False)
    document = json.loads(result.stdout)
    assert {"cells", "median_rel_error", "worst_rel_error", "simulated", "seed", "distribution"} <= set(document)
    calm, overloaded = document["cells"]
    assert {
        "service",
        "cores",
        "ways",
        "utilisation",
        "p99_analytic_ms",
        "p99_simulated_ms",
        "rel_error",
        "mean_analytic_ms",
        "mean_simulated_ms",
        "p95_analytic_ms",
        "p95_simulated_ms",
    } <= set(calm)
    assert calm["rel_error"] == pytest.approx(calm["p99_analytic_ms"] / calm["p99_simulated_ms"] - 1)
    assert calm["backlog_simulated"] is None
    assert overloaded["backlog_simulated"] > 0


def test_the_command_prints_tables_for_people(one_cell):
    result = CliRunner().invoke(app, ["crosscheck", "--service", "moses"], catch_exceptions=False)
    assert "relative error of p99" in result.stdout
    assert "120%" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--service", "mosse"], "unknown LC service 'mosse', known are"),
        (["--platform", "vax"], "unknown platform 'vax', known are"),
    ],
)
def test_wrong_names_get_one_sentence(arguments, sentence):
    result = CliRunner().invoke(app, ["crosscheck", *arguments])
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == 2
    assert sentence in str(result.exception)
