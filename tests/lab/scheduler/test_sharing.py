"""Who gets how much CPU time in the simulated kernel, and when."""

from dataclasses import replace

import numpy as np
import pytest

from osml.lab.studies.scheduler import columns as c
from osml.lab.studies.scheduler.model import Job, Kernel, Machine, Service, Tenant, cfs, eevdf
from osml.lab.studies.scheduler.simulation import simulate

KERNELS = [cfs(4), eevdf(4)]
NAMES = ["cfs", "eevdf"]
NICE_5, NICE_LESS_3 = 335 / 1024, 1991 / 1024
"""Weights of nice 5 and -3 beside nice 0 (kernel/sched/core.c: sched_prio_to_weight)."""


def cpus(machine, kernel, *tenants, seconds=20.0):
    return [outcome.cpus for outcome in simulate(machine, kernel, tenants, seconds, 1.0).tenants]


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_threads_share_a_cpu_by_their_weights(kernel):
    found = cpus(Machine(1), kernel, Job(1), Job(1, weight=NICE_5), Job(2, weight=NICE_LESS_3))
    weights = [1.0, NICE_5, 2 * NICE_LESS_3]
    assert found == pytest.approx([weight / sum(weights) for weight in weights], rel=0.02)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_groups_share_by_their_weights_whatever_their_threads(kernel):
    found = cpus(Machine(1), kernel, Job(1, grouped=True, weight=3.0), Job(5, grouped=True))
    assert found == pytest.approx([0.75, 0.25], rel=0.02)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_the_weight_of_a_group_is_split_over_its_cpus(kernel):
    """On each CPU the first group has a quarter of its weight; the second, of one thread, has all of it on CPU 0.

    The periodic balance then takes the first group off that CPU, as its weight is too much there.
    """
    tenants = Job(4, grouped=True), Job(1, grouped=True, cpus=(0,))
    assert cpus(Machine(4), replace(kernel, balance_ms=0.0), *tenants)[1] == pytest.approx(1.0 / 1.25, rel=0.05)
    assert cpus(Machine(4), kernel, *tenants)[1] == pytest.approx(1.0, rel=0.02)


def test_three_threads_share_two_cpus_in_turns():
    """Balances in vain let threads swap places; without them two of the three share one CPU for ever."""
    jobs = [Job(1), Job(1), Job(1)]
    assert cpus(Machine(2), cfs(2), *jobs) == pytest.approx([2 / 3] * 3, rel=0.25)
    still = cpus(Machine(2), replace(cfs(2), balance_ms=0.0), *jobs)
    assert sorted(still) == pytest.approx([0.5, 0.5, 1.0], rel=0.02)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_nobody_leaves_a_cpu_idle_while_threads_wait(kernel):
    assert sum(cpus(Machine(4), kernel, Job(3, cpus=(0, 1, 2)), Job(4))) == pytest.approx(4.0, rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
@pytest.mark.parametrize("quota, period", [(1.5, 100.0), (0.4, 20.0), (2.25, 100.0)])
def test_a_quota_is_used_to_the_full_and_not_exceeded(kernel, quota, period):
    used = cpus(Machine(4), kernel, Job(4, grouped=True, quota=quota, period_ms=period))[0]
    assert used == pytest.approx(quota, rel=0.01)


def test_throttled_threads_run_at_the_start_of_each_period():
    """Two threads with a quota of one CPU: both run for about 50 ms, then both stand still for 50 ms."""
    outcome = simulate(Machine(2), cfs(2), [Job(2, grouped=True, quota=1.0)], 2.0, bin_s=0.01).tenants[0]
    used = outcome.bins[20:, c.A_CPU].reshape(-1, 10) / 10.0  # (periods, tenths of a period), CPUs
    assert used.mean(axis=0)[1:4] == pytest.approx([2.0] * 3, abs=0.05)
    assert used.mean(axis=0)[6:9] == pytest.approx([0.0] * 3, abs=0.05)
    assert outcome.throttled_s == pytest.approx(2.0, rel=0.1)


def test_a_service_within_its_quota_is_not_throttled():
    service = Service(4, rate=400.0, cv2=0.2, grouped=True, quota=3.0)
    outcome = simulate(Machine(4), cfs(4), [service], 10.0).tenants[0]
    assert outcome.sums[c.A_THROTTLES] == 0


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_a_throttled_service_does_not_run_though_its_threads_wake(kernel):
    """Its threads wake all the time beside jobs. In no period it has more than its quota and a tick a CPU."""
    quota, period, n = 0.5, 100.0, 2
    service = Service(4, rate=2000.0, work_ms=0.5, grouped=True, quota=quota, period_ms=period)
    tenants = [service, Job(4, grouped=True), Job(4, grouped=True)]
    outcome = simulate(Machine(n), kernel, tenants, 10.0, bin_s=0.01).tenants[0]
    assert outcome.sums[c.A_THROTTLES] > 50  # also those that wake up without quota
    used = np.convolve(outcome.bins[:, c.A_CPU], np.ones(10))[10:-10]  # ms in any 100 ms
    assert used.max() <= 2 * quota * period + n * kernel.tick_ms  # the end of a period and the begin of the next
    assert outcome.cpus == pytest.approx(quota, rel=0.02)


def test_the_least_weight_of_a_group_on_a_cpu_is_tiny():
    """A hundredth of a weight over 8 CPUs: each has an eighth of it, far above the kernel's least."""
    tenants = Job(8, grouped=True, weight=0.01), Job(8, grouped=True)
    found = cpus(Machine(8), replace(cfs(8), balance_ms=0.0), *tenants, seconds=60.0)
    assert found[0] == pytest.approx(8 * 0.01 / 1.01, rel=0.15)


@pytest.mark.parametrize("steps", [((5.0, 10.0), (3.0, 20.0)), ((-1.0, 10.0),), ((1.0, -5.0),)])
def test_steps_that_make_no_sense_are_refused(steps):
    with pytest.raises(ValueError, match="steps is"):
        Service(1, rate=1.0, steps=steps)


def test_speeds_of_other_tenants_are_refused():
    with pytest.raises(ValueError, match="speeds is"):
        simulate(Machine(2, True, ((1.0, 0.5),)), cfs(2), [Job(1), Job(1)], 1.0)


@pytest.mark.parametrize("robin", [False, True])
def test_a_realtime_service_sees_no_job(robin):
    service = Service(4, rate=2000.0, cv2=0.5, priority=1, robin=robin)
    alone = simulate(Machine(4), cfs(4), [service], 10.0).tenants[0]
    beside = simulate(Machine(4), cfs(4), [service, Job(8)], 10.0)
    assert beside.tenants[0].quantile(0.99) == pytest.approx(alone.quantile(0.99), rel=0.05)
    assert beside.tenants[1].cpus == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
@pytest.mark.parametrize("grouped", [False, True])
def test_sched_idle_jobs_cost_a_service_nothing(kernel, grouped):
    service = Service(4, rate=2000.0, cv2=0.5, grouped=grouped)
    alone = simulate(Machine(4), kernel, [service], 10.0).tenants[0]
    beside = simulate(Machine(4), kernel, [service, Job(8, grouped=grouped, idle=True)], 10.0).tenants[0]
    # EEVDF: a thread that slept with a debt is not eligible until even the idle job has run for a moment.
    assert beside.mean_ms == pytest.approx(alone.mean_ms, rel=0.12 if kernel.eevdf else 0.05)


def test_a_plain_thread_that_wakes_preempts_a_job_under_cfs():
    tenants = [Service(1, cpus=(0,), rate=50.0, work_ms=0.2, cv2=0.0), Job(1, cpus=(0,))]
    outcome = simulate(Machine(1), cfs(1), tenants, 20.0, 1.0).tenants[0]
    assert outcome.quantile(0.99) < 0.5


def test_under_eevdf_it_waits_for_the_slice_of_the_job():
    tenants = [Service(1, cpus=(0,), rate=50.0, work_ms=0.2, cv2=0.0), Job(1, cpus=(0,))]
    kernel = Kernel(eevdf=True, tick_ms=1.0, base_ms=3.0)
    outcome = simulate(Machine(1), kernel, tenants, 20.0, 1.0).tenants[0]
    assert 1.0 < outcome.quantile(0.95) < 4.5


def test_impossible_descriptions_are_refused():
    with pytest.raises(ValueError, match="a quota needs a group"):
        Job(1, quota=1.0)
    with pytest.raises(ValueError, match="either a rate or clients"):
        Service(1)
    with pytest.raises(ValueError, match="threads is 0"):
        Tenant(0)
    with pytest.raises(ValueError, match="machine has 0 to 1"):
        simulate(Machine(2), cfs(2), [Job(1, cpus=(2,))], 1.0)
