"""The simulated kernel where the answer is known: queues without sharing, conservation, siblings, determinism."""

import math
from dataclasses import replace

import numpy as np
import pytest

from osml.lab.studies.scheduler import columns as c
from osml.lab.studies.scheduler.model import Job, Machine, Service, cfs, eevdf
from osml.lab.studies.scheduler.simulation import simulate

KERNELS = [cfs(8), eevdf(8)]
NAMES = ["cfs", "eevdf"]


def erlang_wait_ms(servers, offered, work_ms):
    """Mean wait of M/M/n, written out here so that nothing of the simulator judges itself."""
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) / (1.0 - offered / servers)
    return last / (sum(terms) + last) * work_ms / (servers - offered)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_one_cpu_and_fixed_work_wait_as_in_m_d_1(kernel):
    outcome = simulate(Machine(1), kernel, [Service(1, rate=700.0, cv2=0.0)], 150.0, 2.0).tenants[0]
    assert outcome.mean_ms == pytest.approx(1.0 + 0.7 / 2.0 / 0.3, rel=0.03)
    assert outcome.cpus == pytest.approx(0.7, rel=0.01)


def test_one_cpu_waits_by_pollaczek_and_khinchin():
    outcome = simulate(Machine(1), cfs(1), [Service(1, rate=600.0, cv2=2.0)], 300.0, 2.0, seed=3).tenants[0]
    assert outcome.mean_ms == pytest.approx(1.0 + 0.6 * 3.0 / 2.0 / 0.4, rel=0.05)


def test_threads_of_a_service_alone_are_servers_of_one_queue():
    """Lognormal work with cv2 1 waits within a few percent of M/M/n (Lee and Longton: (1 + cv2)/2 of it)."""
    outcome = simulate(Machine(4), cfs(4), [Service(4, rate=3200.0, cv2=1.0)], 150.0, 2.0).tenants[0]
    assert outcome.mean_ms - 1.0 == pytest.approx(erlang_wait_ms(4, 3.2, 1.0), rel=0.08)


def test_a_closed_loop_of_one_client_never_waits():
    service = Service(2, clients=1, think_ms=3.0, work_ms=1.0, cv2=0.5)
    outcome = simulate(Machine(2), cfs(2), [service], 100.0, 1.0).tenants[0]
    assert outcome.throughput == pytest.approx(1000.0 / 4.0, rel=0.03)
    assert np.nanmax(outcome.response_ms - outcome.work_ms) < 1e-6


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_work_is_conserved(kernel):
    tenants = [
        Service(6, rate=2500.0, work_ms=1.5, cv2=1.0, grouped=True, quota=2.5),
        Service(3, rate=300.0, work_ms=0.5, cv2=0.5, bound=True),
        Job(5, grouped=True, weight=0.5),
        Job(2),
    ]
    machine = Machine(4, smt=True, speeds=0.6)
    run = simulate(machine, kernel, tenants, 5.0)
    for outcome in run.tenants[:2]:
        assert outcome.work_ms.sum() == pytest.approx(outcome.sums[c.A_WORK] + outcome.left_ms, rel=1e-9)
        done = np.isfinite(outcome.response_ms)
        assert done.sum() == outcome.sums[c.A_COMPLETED]
        assert np.all(outcome.response_ms[done] >= outcome.work_ms[done] - 1e-6)
    assert sum(outcome.cpus for outcome in run.tenants) == pytest.approx(4.0, rel=1e-6)  # jobs leave no CPU idle
    assert sum(outcome.work_rate for outcome in run.tenants) == pytest.approx(4.0 * 0.6, rel=1e-6)


def test_the_same_seed_gives_the_same_result():
    tenants = [Service(4, rate=900.0, cv2=1.0, burstiness=4.0, grouped=True), Job(6, grouped=True)]
    first, again, other = (simulate(Machine(4), eevdf(4), tenants, 3.0, seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(first.tenants[0].response_ms, again.tenants[0].response_ms, equal_nan=True)
    assert first.events == again.events != other.events


def test_a_busy_sibling_slows_each_pair_of_tenants_as_it_is_told():
    speeds = ((0.8, 0.5), (0.7, 0.6))
    run = simulate(Machine(2, smt=True, speeds=speeds), cfs(2), [Job(1, cpus=(0,)), Job(1, cpus=(1,))], 2.0)
    assert [outcome.work_rate for outcome in run.tenants] == pytest.approx([0.5, 0.7])
    assert [outcome.sibling_busy for outcome in run.tenants] == pytest.approx([1.0, 1.0])


def test_threads_spread_over_cores_before_siblings():
    run = simulate(Machine(8, smt=True), cfs(8), [Job(4)], 1.0)
    assert run.tenants[0].sibling_busy == 0.0
    run = simulate(Machine(8, smt=True), cfs(8), [Job(5)], 1.0)
    assert run.tenants[0].sibling_busy == pytest.approx(2 / 5)


def test_a_load_step_shows_in_the_bins():
    service = Service(2, rate=200.0, cv2=0.5, steps=((4.0, 1200.0),))
    outcome = simulate(Machine(2), cfs(2), [service], 8.0, bin_s=1.0).tenants[0]
    assert outcome.bins[:4, c.A_COMPLETED].mean() == pytest.approx(200.0, rel=0.15)
    assert outcome.bins[4:, c.A_COMPLETED].mean() == pytest.approx(1200.0, rel=0.1)


def test_switches_and_lost_caches_cost_time():
    tenants = [Job(1, cpus=(0,)), Service(1, cpus=(0,), rate=100.0, work_ms=1.0, cv2=0.0)]
    costly = replace(cfs(1), switch_us=10.0, refill_ms=0.5)
    outcome = simulate(Machine(1), costly, tenants, 20.0).tenants[0]
    # The job is preempted by every request, and pays a switch and its cache when it comes back.
    assert outcome.sums[c.A_LOST] == pytest.approx(outcome.sums[c.A_SWITCHES] * 0.51, rel=0.02)
