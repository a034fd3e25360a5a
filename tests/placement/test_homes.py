"""Where services are placed at first, and when they come."""

from typing import Any

import pytest
from msgspec.structs import replace

from osml.allocation.policy import Plan
from osml.decide.decide import decide, decide_by
from osml.domain import Assignment, CacheDomain, KnobRange, MbaRange, Observation, Platform, Service
from osml.placement.pack import packed
from osml.placement.part import seen_in
from osml.placement.sites import sites_of, with_parts
from osml.policies.even import Even, EvenState
from tests.placement.two_domains import answered, be, homes, lc, observation, platform


def first_homes(services: list[Service], **changes: Any) -> dict[str, int]:
    return homes(decide(observation(services, changes.pop("node", None), policy="even", **changes)).partition)


def test_services_come_before_jobs_and_the_largest_first_each_where_most_is_left() -> None:
    found = first_homes([be("job", 6.0), lc("small", 0.5), lc("large", 4.0), lc("middle", 1.0)])
    assert found == {"large": 0, "middle": 1, "small": 1, "job": 1}


def test_jobs_divide_what_is_left() -> None:
    found = first_homes([lc("a", 2.0), be("x", 8.0), be("y", 8.0), be("z", 1.0)])
    assert found["x"] != found["y"]


def test_who_has_all_cpus_in_one_domain_stays_there() -> None:
    services = [lc("a", 3.0), lc("b", 3.0), lc("c", 0.1)]
    held = [Assignment("a", cpus="8-9"), Assignment("b", cpus="10-15"), Assignment("c", cpus="0-15")]
    assert first_homes(services, assignments=held) == {"a": 1, "b": 1, "c": 0}


def test_the_cores_in_use_count_where_cpu_time_is_not_measured() -> None:
    services = [lc("a"), lc("b"), lc("c")]
    pool = platform(regions_in_domains=False)
    seen = observation(services, pool, policy="even")
    decision = decide(seen)
    seen = replace(answered(seen, decision), platform=platform(), policy="even", assignments=[], policy_state=None)
    [reason] = [one.text for one in decide(seen).reasons if one.service == "a" and "placed" in one.text]
    assert reason == "a is placed in cache domain 0: it has the most room, 8.0 idle CPUs"
    assert sorted(homes(decide(seen).partition).values()) == [0, 1, 1]


def test_an_operators_minimum_is_placed_where_it_fits() -> None:
    found = first_homes([lc("a", 0.1, min_cores=6), lc("b", 0.1, min_cores=5), lc("c", 0.1, min_cores=2)])
    assert (found["a"], found["b"]) == (0, 1)
    assert first_homes([lc("a", 0.1, min_ways=12), lc("b", 0.1, min_ways=12)]) == {"a": 0, "b": 1}


def test_a_new_service_goes_where_most_room_is_and_nobody_else_moves() -> None:
    seen = observation([lc("a", 4.0), lc("b", 1.0)], policy="even")
    decision = decide(seen)
    before = homes(decision.partition)
    decision = decide(answered(seen, decision, [lc("a", 4.0), lc("b", 1.0), lc("new", 0.1)]))
    assert homes(decision.partition) == before | {"new": before["b"]}
    assert "new is placed in cache domain 1: it has the most room" in decision.reasons[0].text


def test_reasons_say_of_which_domain_they_are() -> None:
    texts = [one.text for one in decide(observation([lc("a"), lc("b")], policy="even")).reasons]
    assert any(text.startswith("cache domain 0: even: equal parts of 8 cores") for text in texts)
    assert any(text.startswith("cache domain 1: even: equal parts of 8 cores") for text in texts)


def test_each_domain_has_its_part_of_what_all_divide() -> None:
    node = platform(
        memory_mib=KnobRange(1024, 10_000, 1024), disk_iops=KnobRange(10, 15, 10), memory_gib=64.0,
        mba=MbaRange(100, 50_000, 100, "mbps"), siblings=[[cpu, cpu + 4] for cpu in (0, 1, 2, 3, 8, 9, 10, 11)],
    )  # fmt: skip
    site = with_parts(sites_of(node)[1].platform, 1, 2, 2)
    assert (site.cores, site.cpus, site.ways, site.id) == (8, "8-15", 16, node.id)
    assert (site.bandwidth_gbps, site.memory_gib) == (50.0, 32.0)
    assert site.mba == MbaRange(100, 25_000, 100, "mbps")
    assert site.memory_mib == KnobRange(1024, 4096, 1024)
    assert site.disk_iops is None
    assert site.siblings == [[8, 12], [9, 13], [10, 14], [11, 15]]
    assert with_parts(sites_of(platform())[0].platform, 1, 2, 2).mba == MbaRange(10, 100, 10)


@pytest.mark.parametrize(("mba", "peak"), [(MbaRange(10, 100, 10), 50.0), (MbaRange(1, 2048, 1, "eighth_gbps"), 100.0)])
def test_a_throttle_in_percent_is_of_its_sockets_bandwidth_whoever_has_services(mba: MbaRange, peak: float) -> None:
    node = platform(mba=mba)
    services = [lc("a", 0.1)]
    site = sites_of(node)[0]
    assert seen_in(site, services, observation(services, node), n_domains=1).platform.bandwidth_gbps == peak


def test_nothing_is_kept_for_domains_without_services() -> None:
    n = 8
    domains = [CacheDomain(i, f"{2 * i}-{2 * i + 1}") for i in range(n)]
    node = platform(
        domains=domains, memory_mib=KnobRange(1024, 8192, 1024), disk_iops=KnobRange(10, 100, 10), memory_gib=64.0,
        mba=MbaRange(100, 50_000, 100, "mbps"),
    )  # fmt: skip
    held = [Assignment("a", cpus="0-1"), Assignment("b", cpus="2-3"), Assignment("c", cpus="2-3")]
    seen: list[Platform] = []

    class Looks(Even):
        def decide(self, observation: Observation, state: EvenState) -> tuple[Plan, EvenState]:
            seen.append(observation.platform)
            return super().decide(observation, state)

    decide_by(Looks(), observation([lc("a", 0.1), lc("b", 0.1), lc("c", 0.1)], node, assignments=held))
    first, second = seen
    assert (first.cpus, second.cpus) == ("0-1", "2-3")
    assert [each.bandwidth_gbps for each in seen] == [50.0, 50.0]
    assert [each.mba and each.mba.max for each in seen] == [25_000, 25_000]
    assert [each.memory_mib and each.memory_mib.max for each in seen] == [2048, 5120]
    assert [each.disk_iops and each.disk_iops.max for each in seen] == [30, 60]
    assert sum(each.memory_gib or 0 for each in seen) == pytest.approx(64.0)


def test_minimums_that_fit_the_node_but_no_domain_divide_it_as_a_whole() -> None:
    services = [lc("a", 0.1, min_cores=5), lc("b", 0.1, min_cores=5), lc("c", 0.1, min_cores=5)]
    decision = decide(observation(services, policy="staffing"))
    assert homes(decision.partition) == {}
    assert all(decision.partition.cores_of(one.name) >= one.min_cores for one in services)
    text = "the node is divided as a whole: the operator's minimums do not fit its cache domains"
    assert decision.reasons[0].text == text


@pytest.mark.parametrize("used", [[2.0, 0.1, 0.1, 0.1, 0.1], [0.1, 0.1, 2.0, 2.0, 2.0]])
def test_minimums_that_fit_in_one_way_only_are_packed(used: list[float]) -> None:
    least = (3, 3, 2, 2, 2)
    services = [lc(name, cpus, min_cores=n) for name, cpus, n in zip("abcde", used, least, strict=True)]
    found = first_homes(services, node=platform(6))
    assert found["a"] == found["b"]
    assert {found["c"], found["d"], found["e"]} == {1 - found["a"]}


def test_who_is_placed_moves_for_a_newcomers_minimum_only_where_nothing_else_fits() -> None:
    seen = observation([lc("a", 0.1, min_cores=3), lc("b", 0.1, min_cores=3)], policy="even")
    decision = decide(seen)
    assert homes(decision.partition) == {"a": 0, "b": 1}
    more = [*seen.services, lc("new", 0.1, min_cores=7)]
    decision = decide(answered(seen, decision, more))
    found = homes(decision.partition)
    assert found["a"] == found["b"] != found["new"]
    assert any("the operator's minimums fit so" in one.text for one in decision.reasons)
    later = decide(answered(seen, decision, more))
    assert homes(later.partition) == found


def test_a_search_without_end_gives_up() -> None:
    services = [lc(f"s{i}", min_cores=2, min_ways=1 + i % 7) for i in range(60)]
    node = platform(61, ways=110)
    assert packed(services, sites_of(node), {}, set()) is None
