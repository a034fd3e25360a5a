"""Placement on the CCX of a simulated AMD machine, on CCX of different size, and of a service that no CCX holds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from osml.decide.decide import decide
from osml.domain import CacheDomain, partition_error
from osml.domain.cpulist import parse_cpulist
from osml.layout import assign
from osml.placement.sites import sites_of
from osml.simulator import catalogs
from osml.simulator.board import cpus_of
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.models import on_platform
from osml.simulator.state import Node
from tests.placement.two_domains import answered, be, homes, lc, observation, platform

LOADS = {"moses": 0.4, "xapian": 0.3, "img-dnn": 0.4, "memcached": 0.4}


def node_of(platform_id: str) -> Node:
    model = catalogs.platform(platform_id)
    return Node(
        model,
        tuple(catalogs.service(name, platform_id) for name in LOADS),
        tuple(on_platform(catalogs.job(name), model) for name in ("stream", "fluidanimate")),
    )


@pytest.mark.parametrize("platform_id", ["epyc-7763", "epyc-7742"])
@pytest.mark.parametrize("policy", ["staffing", "parties", "arq", "osml", "unmanaged"])
def test_policies_run_on_it_and_keep_each_service_in_one_ccx(policy: str, platform_id: str) -> None:
    node = node_of(platform_id)
    loop = ClosedLoop(node, LOADS, policy)
    domains = [set(cpus_of(node.platform, 1, number)) for number in range(node.platform.domains)]
    for interval in loop.run(12):
        if interval.decision is None:
            continue
        assert partition_error(interval.decision.partition, loop.platform, node.names) is None
        for one in interval.decision.assignments:
            inside = any(set(parse_cpulist(one.cpus or "")) <= domain for domain in domains)
            assert inside is (policy != "unmanaged")


def test_a_service_that_no_ccx_holds_gets_the_whole_node() -> None:
    node = node_of("epyc-7763")
    big = replace(node.services[3], threads=64)  # memcached
    node = replace(node, services=(*node.services[:3], big), jobs=())
    loop = ClosedLoop(node, LOADS | {"memcached": 2.0}, "staffing")
    intervals = loop.run(40)
    said = "the node is divided as a whole: memcached is too large for a cache domain, the largest has 16 CPUs"
    assert not any(said in reason.text for reason in intervals[5].decision.reasons)  # it has to show it first
    assert said in [reason.text for reason in intervals[-1].decision.reasons]
    [cpus] = [one.cpus for one in intervals[-1].decision.assignments if one.service == "memcached"]
    assert len(parse_cpulist(cpus)) > 16
    assert intervals[8].tail_ms(3, big.percentile) > big.target_ms > intervals[-1].tail_ms(3, big.percentile)


UNEQUAL = platform(
    cores=14, cpus="0-13", domains=[CacheDomain(0, "0-7"), CacheDomain(1, "8-13")], siblings=[[0, 4], [8, 11]]
)


def test_domains_of_different_size_are_taken_as_they_are() -> None:
    assert {domain: len(site.cpus) for domain, site in sites_of(UNEQUAL).items()} == {0: 8, 1: 6}
    seen = observation([lc("large", 4.0), lc("small", 1.0), be("job", 5.0)], UNEQUAL, policy="staffing")
    for _ in range(12):
        decision = decide(seen)
        assert homes(decision.partition) == {"large": 0, "small": 1, "job": 1}
        regions = decision.partition.by_domain
        assert 4 < sum(one.cores for one in regions[0]) <= 8  # staffing leaves cores idle where there is no job
        assert sum(one.cores for one in regions[1]) == 6
        assert assign(decision.partition, UNEQUAL, seen.services)
        seen = answered(seen, decision)


def test_the_largest_domain_decides_who_is_too_large() -> None:
    seven, nine = (
        decide(observation([lc("a", 1.0, min_cores=least), lc("b", 1.0)], UNEQUAL, policy="even")) for least in (7, 9)
    )
    assert homes(seven.partition)["a"] == 0
    assert homes(nine.partition) == {}
    said = "the node is divided as a whole: a has min_cores 9, the largest cache domain has 8 CPUs"
    assert nine.reasons[0].text == said
