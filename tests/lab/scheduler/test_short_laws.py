"""The short laws against one simulated case each; their errors over whole sweeps: osml.lab.studies.scheduler.sweep."""

from dataclasses import replace

import numpy as np
import pytest

from osml.lab.studies.scheduler import laws
from osml.lab.studies.scheduler.analytic import law_quantile, node_flows
from osml.lab.studies.scheduler.model import Job, Machine, Service, cfs, eevdf
from osml.lab.studies.scheduler.simulation import simulate

CV2 = 0.3


def simulated(level, machine, kernel, *tenants, seconds=20.0):
    return simulate(machine, kernel, tenants, seconds, seconds / 10.0).tenants[0].quantile(level)


def test_time_sharing_lengthens_the_tail():
    service = Service(36, rate=0.85 * 4 / 5e-3, work_ms=5.0, cv2=CV2)
    law = law_quantile(0.99, 5.0, CV2, laws.time_sharing(4, 36, 0.85, 5.0, CV2))
    assert law == pytest.approx(simulated(0.99, Machine(4), cfs(36), service, seconds=40.0), rel=0.2)
    assert law > 2.0 * law_quantile(0.99, 5.0, CV2, laws.first_come(4, 0.85, 5.0, CV2))


@pytest.mark.parametrize("period", [10.0, 100.0])
def test_a_quota_costs_more_the_shorter_its_period(period):
    service = Service(8, rate=0.8 * 2.0 / 1.3e-3, work_ms=1.3, cv2=CV2, grouped=True, quota=2.0, period_ms=period)
    law = law_quantile(0.99, 1.3, CV2, laws.throttled(2.0, period, 0.8, 1.3, CV2, 8))
    assert law == pytest.approx(simulated(0.99, Machine(16), cfs(16), service, seconds=40.0), rel=0.15)


def test_a_quota_has_no_step_at_whole_cpus():
    below, above = (laws.throttled(quota, 20.0, 0.9, 1.3, CV2, 8).mean_ms for quota in (2.0, 2.01))
    assert below > above == pytest.approx(below, rel=0.02)


@pytest.mark.parametrize("first, rel", [(False, 0.2), (True, 0.25)])
def test_threads_meet_their_siblings_by_chance(first, rel):
    kernel = replace(cfs(36), core_first=first)
    service = Service(36, rate=9.0 / 1e-3, work_ms=1.0, cv2=CV2)
    seen = simulate(Machine(18, True, 1.0), kernel, [service], 5.0, 0.5).tenants[0]
    assert laws.sibling_share(0.5, 9, first, 1.0) == pytest.approx(seen.sibling_busy, rel=rel)


def test_the_wait_beside_jobs_has_no_cliff():
    waits = [laws.beside_jobs(36, jobs, 2.5, 6, 0.03, CV2, False).mean_ms for jobs in range(1, 41)]
    assert max(waits) < 1.0
    service = Service(6, rate=2.5 / 0.03e-3, work_ms=0.03, cv2=CV2)
    for jobs in (32, 34, 36):
        seen = simulate(Machine(36), cfs(36), [service, Job(jobs)], 1.5, 0.3).tenants[0]
        assert waits[jobs - 1] == pytest.approx(max(seen.mean_ms - 0.03, 0.0), rel=0.5, abs=0.01)


def test_under_eevdf_weight_shortens_the_wait():
    found = []
    for weight in (1.0, 44.0):
        tenants = Service(4, rate=400.0, work_ms=1.0, cv2=CV2, grouped=True, weight=weight), Job(2, grouped=True)
        law = law_quantile(0.95, 1.0, CV2, laws.eevdf_wake_up(2, 2, 0.4, 4, 1.0, CV2, weight, True))
        assert law == pytest.approx(simulated(0.95, Machine(2), eevdf(36, 1.0), *tenants), rel=0.2)
        found.append(law)
    assert found[0] > 1.3 * found[1]


@pytest.mark.parametrize("now", [0.97, 1.2])
def test_waits_build_up_after_a_step_of_load(now):
    waits = [laws.wait_after_step(0.95, seconds, 8, 0.3, now, 1000.0, CV2) for seconds in (1.0, 4.0, 16.0, 64.0)]
    assert waits == sorted(waits)
    service = Service(8, rate=2.4, work_ms=1000.0, cv2=CV2, steps=((10.0, now * 8.0),))
    found = []
    for seed in range(200):
        seen = simulate(Machine(8), cfs(8), [service], 40.0, seed=seed, bin_s=1.0).tenants[0]
        found += (seen.response_ms - seen.work_ms)[(seen.arrived_s > 22.0) & (seen.arrived_s < 26.0)].tolist()
    law = laws.wait_after_step(0.95, 14.0, 8, 0.3, now, 1000.0, CV2)
    assert law == pytest.approx(np.nanquantile(found, 0.95), rel=0.2)


def test_the_analytic_node_takes_the_same_case():
    alone = node_flows([0.5], 4, 2000.0, 1.0, CV2, 4)[0]
    assert alone.requests == pytest.approx(1000.0, rel=0.01)
    assert alone.service_ms == pytest.approx(1.0, rel=0.01)
