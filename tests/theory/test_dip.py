"""The experiment of Ah-Q section VIII in small, and what is made of it."""

import pytest

from osml.base.failure import InputError
from osml.lab.theory.experiments import dip_experiment, dip_observations
from osml.lab.theory.experiments.dip_experiment import APPLICATIONS, EVEN, PRIORITY, SHARED, Setup, run_experiment
from osml.lab.theory.experiments.dip_observations import caption_performances, observe
from osml.lab.theory.experiments.settled_runs import Settling

FEW = ("mysql", "redis", "stream", "swaption")
SETUP = Setup(applications=FEW, settling=Settling(5.0, 5.0))


@pytest.fixture(scope="module")
def results():
    return run_experiment(SETUP, ["round_robin"])


@pytest.fixture(scope="module")
def report(results):
    return observe(results)


def strategy(report, name):
    return next(found for found in report.strategies if found.strategy == name)


def test_ten_applications_make_the_papers_90_combinations_and_69_without_a_job_above_a_service(results):
    lc = set(APPLICATIONS[:3])
    pairs = [(a, b) for a in APPLICATIONS for b in APPLICATIONS if a != b]
    assert len(pairs) == 90
    assert sum(a in lc or b not in lc for a, b in pairs) == 69
    assert results.with_critical_first("mysql", "stream")
    assert not results.with_critical_first("stream", "mysql")


def test_every_strategy_is_run_on_every_ordered_pair(results):
    for name in (SHARED, EVEN, PRIORITY, "round_robin"):
        assert len(results.of(name)) == 12
    assert results.failed == []
    both = results.of(EVEN)
    assert both["mysql", "stream"].settled is both["stream", "mysql"].settled  # no order: one run
    own = results.of(PRIORITY)
    assert own["mysql", "stream"].performance["mysql"] < own["stream", "mysql"].performance["mysql"]


def test_grants_show_the_abilities_that_the_paper_gives_the_strategies(report):
    assert strategy(report, SHARED).cores.kind == "{}"
    assert strategy(report, EVEN).cores.kind == "{D, I}"
    assert strategy(report, PRIORITY).cores.kind == "{D, P}"
    assert strategy(report, "round_robin").cores.pa == 1.0  # over pairs of an LC service and a BE job


def test_tolerance_is_that_of_the_services_alone(report):
    assert set(report.tolerances) == {"mysql", "redis"}
    assert report.tolerance_ability == pytest.approx(sum(report.tolerances.values()))
    assert all(0.0 < value < 1.0 for value in report.tolerances.values())


def test_the_three_observations_hold_on_the_virtual_node(report):
    even, priority = strategy(report, EVEN), strategy(report, PRIORITY)
    assert even.uncertainty_ratio < 0.5 < priority.uncertainty_ratio  # observation 1
    assert priority.high.better_pct > 70 > even.applications.better_pct  # observation 2
    assert even.utilisation.worse > 0 == priority.utilisation.worse  # observation 3
    assert (priority.lc_beside_be.better, priority.lc_beside_be.same, priority.lc_beside_be.worse) == (4, 0, 0)


def test_shared_against_itself_is_no_change(report):
    found = strategy(report, SHARED)
    assert found.applications.same == found.applications.total == 24
    assert found.uncertainty_ratio == 1.0


def test_published_numbers_stand_beside_ours_where_the_applications_are_the_papers(results, monkeypatch):
    assert observe(results).published == []
    monkeypatch.setattr(dip_observations, "APPLICATIONS", FEW)
    report = observe(results)
    assert [row.published_pct for row in report.published] == [50.9, 94.2, 94.2, 96.4]
    assert report.published[1].ours_pct == strategy(report, PRIORITY).high.better_pct


def test_figure_13_takes_services_as_high_and_jobs_as_low(results):
    own = results.of(PRIORITY)
    assert caption_performances(results, PRIORITY, "mysql") == [
        own["mysql", other].performance["mysql"] for other in ("redis", "stream", "swaption")
    ]
    assert caption_performances(results, PRIORITY, "stream") == [
        own[other, "stream"].performance["stream"] for other in ("mysql", "redis", "swaption")
    ]


def test_performance_of_jobs_can_be_counted_per_cycle(results):
    by_cycle = run_experiment(Setup(applications=FEW, be_measure="ipc", settling=SETUP.settling))
    pair = by_cycle.of(SHARED)["stream", "swaption"]
    assert pair.performance == pair.settled.ipcs
    assert results.of(SHARED)["stream", "swaption"].performance == pair.settled.work_gips


def test_the_same_setup_gives_the_same_report(report):
    again = observe(run_experiment(SETUP, ["round_robin"]))
    assert again == report


def test_a_policy_that_fails_on_a_pair_costs_that_pair_alone(monkeypatch):
    real = dip_experiment.under_policy

    def fails(node, loads, policy, settling, ranks):
        if policy == "arq" and "swaption" in node.names:
            raise RuntimeError("no idea\nat all")
        return real(node, loads, policy, settling, ranks)

    monkeypatch.setattr(dip_experiment, "under_policy", fails)
    found = run_experiment(SETUP, ["arq"])
    assert len(found.of("arq")) == 6
    assert {failure.reason for failure in found.failed} == {"RuntimeError: no idea"}
    assert strategy(observe(found), "arq").applications.total == 12


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Setup(applications=("mysql",)), "applications are mysql, expected at least two"),
        (lambda: Setup(load=0.0), "load is 0.0, expected a share"),
        (lambda: run_experiment(SETUP, ["best"]), "policy 'best' is unknown, known are"),
        (lambda: run_experiment(Setup(applications=("mysql", "doom"))), "unknown application 'doom'"),
        (lambda: run_experiment(Setup(platform="vax")), "unknown platform 'vax'"),
        (lambda: run_experiment(Setup(cores=27)), "cores is 27, expected 1 to 26"),
        (lambda: Settling(1.0, 0.1, 0.5), "measure_s is 0.1, expected at least one interval_s"),
    ],
)
def test_wrong_setups_are_refused(call, said):
    with pytest.raises(InputError, match=said):
        call()
