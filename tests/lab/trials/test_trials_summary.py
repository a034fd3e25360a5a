"""Figures of a trial, from hand-made records."""

import pytest

from osml.domain import Counters, Decision, Entropy, Latency, Observation, Partition, Platform, Region, Service
from osml.lab.trials import summary
from osml.lab.trials.records import Record

PLATFORM = Platform(id="p", cores=8, cpus="0-7", ways=10)
SHARED = Partition([Region(["web", "job"], cores=8, ways=10)])
SPLIT = Partition([Region(["web"], cores=2, ways=3), Region(["web", "job"], cores=6, ways=7)])


def record(second, latency_ms, partition=SHARED, ipc=1.0, e_s=0.5, platform=PLATFORM):
    latency = None if latency_ms is None else Latency(p99_ms=latency_ms)
    services = [
        Service(name="web", kind="lc", target_ms=10.0, latency=latency),
        Service(name="job", kind="be", ipc_solo=2.0, counters=Counters(ipc=ipc)),
    ]
    observation = Observation(
        node="n", seq=second, time_s=100.0 + second, interval_s=1.0, platform=platform, services=services
    )
    decision = Decision("n", second, "arq", partition, [], entropy=Entropy(e_s, 0.0, e_s))
    return Record(observation, decision)


def test_convergence_counts_from_the_first_of_five_met_intervals():
    latencies = [20, 20, 9, 20, 9, 9, 9, 9, 9, 9]
    assert summary.convergence_s([record(i, value) for i, value in enumerate(latencies)]) == 4.0


def test_four_met_intervals_are_not_convergence():
    assert summary.convergence_s([record(i, value) for i, value in enumerate([20, 9, 9, 9, 9, 20])]) is None


def test_a_phase_that_starts_inside_its_targets_converged_at_once():
    assert summary.convergence_s([record(i, 5) for i in range(5)]) == 0.0


def test_convergence_after_the_limit_is_failure():
    latencies = [20] * 181 + [5] * 10
    assert summary.convergence_s([record(i, value) for i, value in enumerate(latencies)]) is None


def test_an_interval_without_latency_is_not_a_met_one():
    assert summary.convergence_s([record(i, v) for i, v in enumerate([9, 9, None, 9, 9, 9, 9])]) is None


def test_actions_count_changes_of_the_partition():
    partitions = [SHARED, SHARED, SPLIT, SPLIT, SHARED]
    assert summary.actions([record(i, 5, p) for i, p in enumerate(partitions)]) == 2


def test_phase_takes_its_figures_from_the_last_ten_intervals():
    records = [record(i, 100, e_s=0.9) for i in range(20)] + [record(20 + i, 8, SPLIT, e_s=0.1) for i in range(10)]
    phase = summary.phase(records)
    assert phase["e_s"] == pytest.approx(0.1)
    assert phase["e_s_mean"] == pytest.approx((20 * 0.9 + 10 * 0.1) / 30)
    assert phase["violations"] == pytest.approx(20 / 30)
    web, job = phase["services"]
    assert (web["p99_ms"], web["met"], web["cores"], web["cores_isolated"], web["ways"]) == (8, True, 8, 2, 10)
    assert (job["class"], job["met"], job["cores"], job["ways"], job["ipc_ratio"]) == ("be", None, 6, 7, 0.5)


def test_slices_of_quota_are_reported_as_cpus_and_missing_ways_as_null():
    sliced = Platform(id="p", cores=20, cpus="0-1", core_quantum=0.1)
    partition = Partition([Region(["web"], cores=7), Region(["job"], cores=13)])
    web, job = summary.phase([record(i, 5, partition, platform=sliced) for i in range(3)])["services"]
    assert (web["cores"], web["ways"]) == (0.7, None)
    assert job["cores"] == 1.3


def test_an_unmeasured_service_is_neither_met_nor_violated():
    phase = summary.phase([record(i, None) for i in range(3)])
    [web, _] = phase["services"]
    assert (web["p99_ms"], web["met"]) == (None, None)
    assert phase["violations"] is None
