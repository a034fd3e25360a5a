"""memcached beside antagonists, over threads, and beside jobs: small tables with known answers."""

import numpy as np
import pytest

from osml.simulator.calibration.measured.machines import Machine, Machines
from osml.simulator.calibration.measured.memcached import beside, colocation, threads
from osml.simulator.calibration.measured.memcached.turns import LEVELS, delayed, ends_of_turn, waiting_share

TOP = 50000.0
NAMES = ("min_us", "p5_us", "p50_us", "p75_us", "p90_us", "p95_us", "p99_us", "p999_us")
CFS = Machines.parse(["n2-highcpu-2: scheduler=cfs"])
WHOLE = Machines.parse(["n2-highcpu-2: siblings=no"])


def row(target, qps, tail, interference="none", n=1, cpus=1, name="part1", vm="n2-highcpu-2"):
    found = {"repo": "r", "vm": vm, "set": name, "threads": float(n), "cpus": float(cpus), "interference": interference}
    found |= {"qps_target": target, "qps": qps, "runs": None, "scheduler": "", "siblings": "", "tick_ms": ""}
    return found | dict(zip(NAMES, (80.0, 100.0, 200.0, 230.0, 260.0, tail, 1.2 * tail, 2.0 * tail), strict=True))


def alone():
    """300 us at p95, of which 100 us are network; saturated at 50,000 requests/s."""
    below = [row(load, load, 300.0) for load in (5e3, 10e3, 20e3, 30e3, 40e3)]
    return below + [row(load, TOP, 2000.0) for load in (60e3, 70e3)]


def found(rows, machines=None):
    return {test.name: test for test in beside.tests(rows, machines or Machines())}


def throughput(antagonist, machines=None):
    rows = [*alone(), row(60e3, 1.0, 4000.0, antagonist)]
    return found(rows, machines)["memcached throughput beside an antagonist, at saturation"].pairs[0].ours


def p95(antagonist, load=10e3, machines=None):
    rows = [*alone(), row(load, load, 300.0, antagonist)]
    return found(rows, machines)[f"memcached p95 beside {antagonist}"].pairs[0].ours


@pytest.mark.parametrize(
    ("antagonist", "share"),
    [("l1i", 1 / 1.92), ("cpu", 1 / 1.92), ("l2", 50 / 65), ("llc", 1 / 1.31), ("membw", 1 / 1.18)],
)
def test_throughput_at_saturation_is_what_the_mechanism_leaves(antagonist, share):
    assert throughput(antagonist) == pytest.approx(TOP * share, rel=1e-6)


def test_the_simplest_rule_is_the_service_alone_at_the_same_load():
    pair = found([*alone(), row(10e3, 10e3, 310.0, "llc")])["memcached p95 beside llc"].pairs[0]
    assert (pair.measured, pair.simplest) == (310.0, 300.0)


def test_a_streamer_slows_all_but_the_network():
    assert p95("llc") == pytest.approx(100.0 + 1.31 * 200.0, rel=0.05)
    assert p95("membw") == pytest.approx(100.0 + 1.18 * 200.0, rel=0.05)


def test_a_streamer_on_another_core_costs_less_than_on_the_sibling():
    assert p95("llc", machines=WHOLE) < 0.9 * p95("llc")
    assert throughput("llc", WHOLE) > 1.15 * throughput("llc")


def test_a_waker_costs_throughput_but_hardly_latency():
    assert p95("l1d") == pytest.approx(0.97 * 300.0, rel=0.05)


def test_behind_a_spinner_a_request_waits_a_turn_and_longer_under_cfs():
    turns = p95("l1i", 20e3)
    assert 1200.0 < turns < 3500.0
    assert p95("cpu", 20e3, CFS) > 1.4 * turns


def test_a_pod_of_equal_weight_preempts_under_cfs():
    equal = Machines.parse(["n2-highcpu-2: scheduler=cfs, weight=1"])
    assert p95("cpu", 5e3, equal) < 0.5 * p95("cpu", 5e3, CFS)


def test_cfs_ends_a_wakers_cost():
    assert throughput("l2", CFS) > 1.2 * throughput("l2")


def test_a_column_of_the_file_says_the_same_as_the_command_line():
    rows = [*alone(), row(10e3, 10e3, 300.0, "llc") | {"siblings": "no"}]
    assert found(rows)["memcached p95 beside llc"].pairs[0].ours == p95("llc", machines=WHOLE)


def test_a_second_pass_borrows_the_service_alone_and_a_stranger_has_none():
    rows = [*alone(), row(10e3, 10e3, 300.0, "llc", name="part1_second_pass")]
    assert len(found(rows)["memcached p95 beside llc"].pairs) == 1
    assert not found([row(10e3, 10e3, 300.0, "llc")])["memcached p95 beside llc"].pairs


def test_the_service_alone_may_come_from_known_rows():
    tests = beside.tests([row(10e3, 10e3, 300.0, "llc")], Machines(), alone())
    assert sum(len(test.pairs) for test in tests) == 2


def test_requests_that_find_no_turn_wait_for_nothing():
    base = np.full(len(LEVELS), 1.0)
    x, tail = ends_of_turn(Machine(2))
    assert tail[0] == 1.0
    assert tail[-1] == pytest.approx(0.0, abs=1e-9)
    assert delayed(base, 0.0, x, tail, 0.95) == pytest.approx(1.0, abs=1e-6)
    assert delayed(base, 1.0, x, tail, 0.95) == pytest.approx(
        1.0 + float(np.interp(0.05, tail[::-1], x[::-1])), abs=1e-3
    )


def test_a_service_without_load_never_waits_under_eevdf_and_always_under_cfs_at_a_small_weight():
    assert waiting_share(Machine(2), 0.0, 0.08) == 0.0
    assert waiting_share(Machine(2, eevdf=False), 0.0, 0.08) == 1.0
    assert waiting_share(Machine(2, eevdf=False, weight=1.0), 0.1, 0.08) == 0.0


def pinned(n, cpus, target, qps, tail):
    return row(target, qps, tail, n=n, cpus=cpus, name="part4", vm="n2d-highmem-4")


def one_thread():
    below = [pinned(1, 1, load, load, 340.0 + load / 400.0) for load in (5e3, 20e3, 40e3, 60e3)]
    return below + [pinned(1, 1, load, 80e3, 1500.0) for load in (100e3, 110e3)]


def thread_tests(rows, machines=None):
    return {test.name: test.pairs for test in threads.tests(rows, machines or Machines())}


def test_two_threads_on_two_siblings_serve_one_and_a_half_times_what_one_does():
    rows = [*one_thread(), pinned(2, 2, 150e3, 120e3, 900.0)]
    pair = thread_tests(rows)["threads: throughput at saturation"][0]
    assert (pair.ours, pair.simplest) == (pytest.approx(80e3 * 2 / 1.307), 150e3)
    cores = Machines.parse(["n2d-highmem-4: siblings=no"])
    assert thread_tests(rows, cores)["threads: throughput at saturation"][0].ours > 140e3


def test_threads_beyond_the_cpus_cost_turns_at_saturation_only():
    rows = [*one_thread(), pinned(3, 1, 20e3, 20e3, 390.0), pinned(3, 1, 110e3, 80e3, 6000.0)]
    pairs = thread_tests(rows)
    assert pairs["threads: p95 below the knee"][0].ours == pytest.approx(390.0, rel=0.1)
    assert pairs["threads: p95 at saturation"][0].ours == pytest.approx(
        2 * 3000.0 + 116.0 / 80.0 / 9.0 * 1000.0, rel=0.05
    )


def test_one_thread_alone_is_nothing_to_test():
    assert not any(thread_tests(one_thread()).values())


def interval(load, nice=-17, jobs=0, shared=0, p=(240.0, 330.0, 380.0)):
    found = {
        "repo": "r",
        "vm": "n2d-highmem-4",
        "memcached_nice": float(nice),
        "qps": load,
        "jobs": "x" if jobs else "",
    }
    found |= {"memcached_cpus": 4.0, "job_cpus": float(jobs), "shared_cpus": float(shared), "intervals": None}
    return (
        found
        | dict(zip(("p50_us", "p95_us", "p99_us"), p, strict=True))
        | {"scheduler": "", "siblings": "", "tick_ms": ""}
    )


def colocated(rows, machines=None):
    return {test.name: test.pairs for test in colocation.tests(rows, machines or Machines())}


def base():
    return [interval(load) for load in (15e3, 25e3, 35e3, 45e3, 55e3) for _ in range(5)]


def test_jobs_beside_cost_siblings_and_jobs_on_the_same_cpus_cost_turns():
    rows = base() + [interval(65e3, jobs=2) for _ in range(5)]
    rows += [interval(65e3, jobs=2, shared=2) for _ in range(5)] + [interval(65e3, 0, 2, 2) for _ in range(5)]
    ours = {pair.key.split(" ", 2)[2]: pair.ours for pair in colocated(rows)["colocation: p95 beside jobs"]}
    apart, weighted, equal = (ours[f"nice={n} cpus=4 shared={s} jobs=2 60k/s"] for n, s in ((-17, 0), (-17, 2), (0, 2)))
    assert apart == pytest.approx(130.0 + 1.28 * 200.0, rel=0.05)
    assert apart < weighted < equal


def test_few_intervals_are_no_bin_and_counted_rows_are_many():
    assert not colocated([interval(65e3, jobs=2) for _ in range(4)])["colocation: p95 beside jobs"]
    assert colocated([interval(65e3, jobs=2) | {"intervals": 5.0}])["colocation: p95 beside jobs"]


def test_jobs_on_whole_cores_cost_less():
    rows = base() + [interval(65e3, jobs=2) for _ in range(5)]
    name, cores = "colocation: p95 beside jobs", Machines.parse(["n2d-highmem-4: siblings=no"])
    assert colocated(rows, cores)[name][0].ours < colocated(rows)[name][0].ours


def test_the_simplest_rule_is_the_median_of_the_other_bins_of_the_same_nice():
    rows = (
        base()
        + [interval(65e3, jobs=2, p=(1, 500.0, 1)) for _ in range(5)]
        + [interval(45e3, jobs=2) for _ in range(5)]
    )
    assert [pair.simplest for pair in colocated(rows)["colocation: p95 beside jobs"]] == [500.0, 330.0]
