"""Requests one by one: against closed forms of queueing, against a naive queue, and the same in every run."""

import numpy as np
import pytest

from osml.base.failure import InputError
from osml.lab.theory.experiments.disciplines import DISCIPLINES, Stream, draw, simulate
from osml.lab.theory.experiments.inversion_runs import application_inversions, compare_disciplines, log_inversions
from osml.lab.theory.experiments.service_runs import run_service, workload_on
from osml.lab.theory.experiments.settled_runs import Settling
from osml.lab.theory.tlt import check_tlt
from osml.simulator import catalogs
from osml.simulator.cut_down import cut_down_node
from osml.simulator.mix import parse_mix
from osml.simulator.queueing.event_simulation import Workload

# Two services, each 0.4 of one server: service times of 1 ms, lognormal with E[S^2] = 2.
HALVES = [Stream("first", 0, 400.0, 1.0, 1.0), Stream("second", 1, 400.0, 1.0, 1.0)]
SHORT = Settling(5.0, 5.0)


def means(discipline, slice_ms=1.0):
    log = simulate(HALVES, discipline, 1, 400.0, slice_ms=slice_ms, seed=5)
    return [log.latency_ms[log.stream == k].mean() for k in range(2)]


def test_first_come_first_served_waits_as_pollaczek_and_khinchine_say():
    assert means("fcfs") == pytest.approx([5.0, 5.0], rel=0.05)  # 1 + 0.8 * 2 / (2 * 0.2)


def test_preemptive_priority_waits_as_the_formula_for_classes_says():
    assert means("priority") == pytest.approx([1.0 + 0.4 / 0.6, 1.0 / 0.6 + 0.8 / (0.6 * 0.2)], rel=0.05)


def test_round_robin_with_short_turns_is_processor_sharing():
    assert means("rr", slice_ms=0.02) == pytest.approx([5.0, 5.0], rel=0.05)  # 1 / (1 - 0.8)


def test_first_come_first_served_on_several_servers_is_the_textbook_recursion():
    streams = [Stream("a", 0, 900.0, 1.5, 0.5, 3.0), Stream("b", 1, 700.0, 1.0, 2.0, 0.5)]
    log = simulate(streams, "fcfs", 3, 5.0, seed=6)
    free = np.zeros(3)
    for arrival, service, finish in zip(log.arrival_ms, log.service_ms, log.finish_ms, strict=True):
        first = int(np.argmin(free))
        free[first] = max(arrival, free[first]) + service
        assert finish == pytest.approx(free[first])


def test_the_most_critical_service_does_not_notice_the_others_under_priority():
    alone = simulate(HALVES[:1], "priority", 1, 20.0, seed=7)
    together = simulate(HALVES, "priority", 1, 20.0, seed=7)
    assert together.finish_ms[together.stream == 0] == pytest.approx(alone.finish_ms)


@pytest.mark.parametrize("discipline", DISCIPLINES)
def test_every_discipline_does_the_same_work_on_the_same_requests(discipline):
    log, other = (simulate(HALVES, kind, 1, 10.0, seed=8) for kind in (discipline, "fcfs"))
    assert (log.service_ms == other.service_ms).all()
    assert log.finish_ms.max() == pytest.approx(other.finish_ms.max())  # one server is never idle while there is work
    assert (log.finish_ms - log.arrival_ms >= log.service_ms - 1e-6).all()
    assert (log.start_ms >= log.arrival_ms).all()


def test_arrivals_have_the_rate_and_the_burstiness_that_were_asked_for():
    for burstiness in (0.4, 1.0, 5.0):
        _, arrival, service = draw([Stream("a", 0, 1000.0, 2.0, 0.7, burstiness)], 200.0, 9)
        gaps = np.diff(arrival)
        assert gaps.mean() == pytest.approx(1.0, rel=0.03)
        assert gaps.var() / gaps.mean() ** 2 == pytest.approx(burstiness, rel=0.1)
        assert service.mean() == pytest.approx(2.0, rel=0.02)
        assert service.var() / 4.0 == pytest.approx(0.7, rel=0.1)


def test_the_same_seed_gives_the_same_log_and_another_one_does_not():
    logs = [simulate(HALVES, "rr", 2, 5.0, seed=seed).finish_ms for seed in (1, 1, 2)]
    assert (logs[0] == logs[1]).all()
    assert logs[0].size != logs[2].size or (logs[0] != logs[2]).any()


def test_priority_has_no_inversions_of_the_critical_service_and_the_others_have():
    node = cut_down_node(parse_mix("moses=0.3,img-dnn=0.3"), "e5-2630v4", 2)
    found = compare_disciplines(node, {"moses": 0.3, "img-dnn": 0.3}, 10.0, seed=1)
    critical = {discipline: rows[0] for discipline, rows in found.items()}
    assert critical["priority"].added_ms < 0.02 * min(critical["fcfs"].added_ms, critical["rr"].added_ms)
    assert critical["fcfs"].tail_over_ms > 0
    assert critical["priority"].tail_over_ms == 0.0


def test_on_one_server_wnoi_by_start_is_the_wait_for_the_less_critical():
    log = simulate(HALVES, "fcfs", 1, 20.0, seed=3)
    first, second = log_inversions(log, "start")
    assert second.passed == 0.0
    waits = (log.start_ms - log.arrival_ms)[log.stream == 0].mean()
    assert 0.3 * waits < first.added_ms < 0.7 * waits  # half of the work in front of it is of the other service


def test_inversions_of_applications_weigh_only_pairs_in_the_wrong_order():
    mix = parse_mix("xapian=0.2,moses=0.2,be:fluidanimate")
    node = cut_down_node(mix, "e5-2630v4", 6, None, 4)
    right = application_inversions(node, mix.loads, ["xapian", "moses", "fluidanimate"], SHORT)
    assert (right.count, right.added_ms.sum(), abs(right.measured_ms).sum()) == (0, 0.0, 0.0)
    wrong = application_inversions(node, mix.loads, ["fluidanimate", "xapian", "moses"], SHORT)
    assert wrong.count == 2
    assert wrong.added_ms[0] == pytest.approx(wrong.weights_ms[0, 2])
    assert wrong.weights_ms[0, 2] > 0
    assert wrong.measured_ms[0] > 0
    with pytest.raises(InputError, match="expected each of xapian, moses, fluidanimate once"):
        application_inversions(node, mix.loads, ["xapian"], SHORT)


@pytest.mark.parametrize(("service", "load"), [("moses", 0.6), ("nginx", 0.4), ("img-dnn", 0.9)])
def test_a_stationary_service_keeps_littles_law_and_the_tlt_bound(service, load):
    platform = catalogs.platform("e5-2697v4")
    run = run_service(workload_on(platform, catalogs.service(service, platform.id), load, 36, 20), 200_000, 1)
    found = check_tlt(run.latencies_ms, throughput_per_s=run.throughput_per_s, outstanding=run.outstanding)
    assert found.little_ratio == pytest.approx(1.0, abs=0.005)
    assert found.holds
    assert all(row.looseness < 3.0 for row in found.rows)


def test_overload_breaks_littles_law_because_more_come_than_are_answered():
    run = run_service(Workload(1.0, 1.0, 1500.0, 1), 20_000, 2)
    assert run.throughput_per_s == pytest.approx(1000.0, rel=0.05)
    found = check_tlt(run.latencies_ms, throughput_per_s=run.throughput_per_s, outstanding=run.outstanding)
    assert found.little_ratio > 1.2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: simulate(HALVES, "lifo", 1, 1.0), "discipline is 'lifo', expected one of fcfs, rr, priority"),
        (lambda: simulate([], "rr", 1, 1.0), "no service, expected at least one"),
        (lambda: simulate(HALVES, "rr", 1, 1e6), "expected at most 2000000: reduce the seconds or the load"),
        (lambda: simulate(HALVES, "rr", 1, 1.0, slice_ms=0.0), "slice_ms is 0.0, expected a number above 0"),
        (lambda: run_service(Workload(1.0, 1.0, 100.0, 1), 5), "requests is 5, expected 100 to"),
        (lambda: cut_down_node(parse_mix("moses=0.4"), "e5-2697v4", 7), "expected an even number"),
        (lambda: cut_down_node(parse_mix("moses=0.4"), "e5-2630v4", 11), "cores is 11, expected 1 to 10"),
        (lambda: cut_down_node(parse_mix("moses=0.4"), "pdp-11", 1), "unknown platform 'pdp-11'"),
    ],
)
def test_what_can_not_be_simulated_is_refused(call, said):
    with pytest.raises(InputError, match=said):
        call()
