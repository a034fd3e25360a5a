"""Whose pages stay where the memory is too small: formulas against sums, a list of pages, and the kernel's numbers."""

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import exp1

from osml.simulator import catalogs
from osml.simulator.physics.residency import exponential_integral, inactive_seconds, late_share, touched_share
from osml.simulator.state import Grant, Node
from osml.simulator.steady import steady

PLATFORM = catalogs.platform("e5-2699v4")
MEMORY_MIB = (PLATFORM.memory_gib - PLATFORM.reserved_gib) * 1024.0


@settings(deadline=None)  # the first call may compile
@given(st.floats(1e-9, 700.0))
def test_the_exponential_integral_is_that_of_scipy(x):
    assert exponential_integral(x) == pytest.approx(float(exp1(x)), rel=1e-12)


@pytest.mark.parametrize(
    ("pages", "touches", "seconds"), [(5_000, 1e4, 20.0), (600_000, 2e5, 20.0), (600_000, 2e4, 5.0)]
)
def test_shares_of_pages_and_of_touches_are_the_sums_over_all_pages(pages, touches, seconds):
    rates = touches / np.log(pages) / np.arange(1, pages + 1)
    assert touched_share(touches, pages, seconds) == pytest.approx(
        float((1 - np.exp(-rates * seconds)).mean()), rel=1e-3
    )
    late = float((rates * np.exp(-rates * seconds)).sum() / rates.sum())
    assert late_share(touches, pages, seconds) == pytest.approx(late, rel=0.1, abs=1e-6)


def test_an_age_tells_what_a_list_of_least_recently_used_pages_misses():
    pages, touches, kept = 2000, 100.0, 500
    rng = np.random.default_rng(7)
    weights = 1.0 / np.arange(1, pages + 1)
    drawn = rng.choice(pages, 200_000, p=weights / weights.sum())
    young: OrderedDict[int, None] = OrderedDict()
    missed = 0
    for n, page in enumerate(drawn.tolist()):
        missed += n >= 50_000 and page not in young
        young[page] = None
        young.move_to_end(page)
        if len(young) > kept:
            young.popitem(last=False)
    ages = np.logspace(-1, 4, 2000)
    age = next(float(s) for s in ages if touched_share(touches, pages, float(s)) * pages >= kept)
    assert late_share(touches, pages, age) == pytest.approx(missed / 150_000, rel=0.1)


@settings(deadline=None)  # the first call may compile
@given(st.floats(1.0, 1e6), st.floats(10.0, 1e7), st.floats(0.01, 1e5))
def test_more_time_keeps_more_pages_and_sends_fewer_touches_to_the_disk(touches, pages, seconds):
    assert (
        0.0
        <= touched_share(touches, pages, seconds)
        <= touched_share(touches, pages, 2.0 * seconds) + 1e-12
        <= 1.0 + 1e-9
    )
    assert 0.0 <= late_share(touches, pages, 2.0 * seconds) <= late_share(touches, pages, seconds) + 1e-12 <= 1.0 + 1e-9
    assert touched_share(0.0, pages, seconds) == 0.0
    assert late_share(0.0, pages, seconds) == 1.0


def test_the_inactive_list_is_as_long_as_the_kernel_says():
    # the comment above inactive_list_is_low: 1 GB 250 MB, 10 GB 0.9 GB, 100 GB 3 GB, 1 TB 10 GB
    for memory_gib, inactive_gib in ((1.0, 0.25), (10.0, 0.9), (100.0, 3.0), (1024.0, 10.0)):
        seconds = inactive_seconds(memory_gib * 1024.0, 2**30 / 1e6)  # at 1 GiB/s
        assert seconds == pytest.approx(inactive_gib, rel=0.05)


def beside_a_hog(name, load, hog_mib=None):
    """Flows of a service and of the job of PARTIES that streams over 120 GB, on CPUs of their own."""
    hog = catalogs.job("memory-hog")
    if hog_mib is not None:
        hog = replace(hog, memory=replace(hog.memory, footprint_mib=hog_mib))
    service, ways = replace(catalogs.service(name, PLATFORM.id), threads=8), (1 << PLATFORM.ways) - 1
    grants = [Grant(frozenset(range(8)), ways), Grant(frozenset({8}), ways)]
    return service, steady(Node(PLATFORM, (service,), (hog,)), grants, {name: load})


def test_pages_that_are_touched_all_the_time_stay_and_those_of_a_large_store_go():
    service, (flow, _) = beside_a_hog("xapian", 0.2)
    assert flow.resident_mib == pytest.approx(service.memory.footprint_mib, rel=1e-3)
    assert flow.p99_ms is not None
    assert flow.p99_ms < service.target_ms
    service, (flow, _) = beside_a_hog("memcached", 0.2)
    assert flow.resident_mib < 0.9 * service.memory.footprint_mib
    assert flow.p99_ms is not None
    assert flow.p99_ms > 100.0 * service.target_ms


@pytest.mark.parametrize("name", ["xapian", "sphinx", "moses", "nginx", "memcached", "mongodb"])
def test_no_more_is_resident_than_there_is_memory(name):
    for load in (0.01, 0.1, 0.4):
        _, flows = beside_a_hog(name, load)
        assert sum(flow.resident_mib for flow in flows) <= MEMORY_MIB * (1.0 + 1e-9)


def test_a_job_that_waits_for_the_disk_does_not_run():
    _, (_, hog) = beside_a_hog("memcached", 0.2)
    assert hog.cpu_s < 0.05 * hog.dt
    assert hog.memory_bytes / hog.dt < 2.0 * PLATFORM.disk_mbps * 1e6
    _, (flow, small) = beside_a_hog("memcached", 0.2, hog_mib=100_000.0)  # both fit
    assert small.cpu_s == pytest.approx(small.dt)
    assert flow.resident_mib == catalogs.service("memcached", PLATFORM.id).memory.footprint_mib


def test_a_small_job_keeps_its_pages_beside_a_hog():
    service, ways = replace(catalogs.service("xapian", PLATFORM.id), threads=8), (1 << PLATFORM.ways) - 1
    jobs = (catalogs.job("memory-hog"), replace(catalogs.job("cpu-burner"), threads=1))
    grants = [Grant(frozenset(range(8)), ways), Grant(frozenset({8}), ways), Grant(frozenset({9}), ways)]
    flows = steady(Node(PLATFORM, (service,), jobs), grants, {"xapian": 0.2})
    assert flows[2].resident_mib == jobs[1].memory.footprint_mib
    assert flows[2].cpu_s == pytest.approx(flows[2].dt)
    assert flows[1].cpu_s < 0.05 * flows[1].dt


def test_services_that_do_not_fit_together_keep_the_pages_that_they_touch_most():
    tight = replace(PLATFORM, memory_gib=PLATFORM.reserved_gib + 10.0)
    pair = tuple(replace(catalogs.service(name, PLATFORM.id), threads=8) for name in ("memcached", "moses"))
    grants = [Grant(frozenset(range(8 * k, 8 * k + 8)), (1 << tight.ways) - 1) for k in range(2)]
    for load in (0.05, 0.3):
        flows = steady(Node(tight, pair), grants, {"memcached": load, "moses": 0.1})
        assert sum(flow.resident_mib for flow in flows) == pytest.approx(10.0 * 1024.0, rel=1e-3)
        assert flows[1].resident_mib > 0.9 * pair[1].memory.footprint_mib  # 560,000 touches/s on 2.5 GB
