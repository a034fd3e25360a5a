"""Regions in cache domains: what is legal, how it is laid out, and that the agent says the same."""

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.domain import CacheDomain, Observation, Partition, Platform, Region, Service, partition_error, usable_domains
from osml.domain.cpulist import is_contiguous, parse_cpulist
from osml.layout import assign

GOLDEN = Path(__file__).parents[2] / "actuator/tests/golden"
CASES = json.loads((GOLDEN / "domains.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda case: case["name"])
def test_the_agent_and_the_server_say_the_same_of_a_partition(case: dict) -> None:
    platform = msgspec.convert(CASES["platform"] | case["platform"], Platform)
    partition = msgspec.convert({"regions": case["regions"]}, Partition)
    why = partition_error(partition, platform, ["a", "b"])
    if case["says"] is None or case["where"] == "assignments":
        assert why is None
    else:
        assert why is not None
        assert case["says"] in why


def test_a_platform_whose_domains_are_no_cpu_lists_has_no_legal_domain() -> None:
    platform = msgspec.convert(CASES["platform"] | {"domains": [{"id": 0, "cpus": "odd"}]}, Platform)
    partition = Partition([Region(["a"], 1, 1, 0), Region(["b"], 1, 1, 0)])
    assert "CPU list 'odd'" in str(partition_error(partition, platform, ["a", "b"]))


def test_a_region_without_a_domain_has_no_such_key_on_the_wire() -> None:
    # Agents before this key refuse a region that has it, whatever its value is.
    assert msgspec.json.encode(Region(["a"], 1, 2)) == b'{"owners":["a"],"cores":1,"ways":2}'
    assert msgspec.json.decode(msgspec.json.encode(Region(["a"], 1, 2, 0)), type=Region).domain == 0


def test_what_the_agent_writes_of_domains_is_what_the_domain_means() -> None:
    seen = msgspec.json.decode((GOLDEN / "observation.json").read_bytes(), type=Observation)
    assert seen.platform.regions_in_domains
    assert seen.partition is not None
    assert [region.domain for region in seen.partition.regions] == [0, 0]


PAIRS = [[cpu, cpu + 4] for cpu in range(4)] + [[cpu, cpu + 4] for cpu in range(8, 12)]
NAMES = ["a", "b", "c", "d", "e"]
SERVICES = [Service(name=name, kind="lc", target_ms=10) for name in NAMES]


@st.composite
def divided(draw: st.DrawFn) -> tuple[Platform, Partition]:
    """Five services in two domains of 8 and 7 usable CPUs, alone or sharing, with some that is idle."""
    sparse = draw(st.booleans())
    siblings = PAIRS if draw(st.booleans()) else []
    domains = [CacheDomain(3, "0-7"), CacheDomain(1, "8-15")]
    platform = Platform("two", 15, "0-14", siblings=siblings, ways=8, sparse_masks=sparse, domains=domains)
    homes = dict(zip(NAMES, draw(st.lists(st.sampled_from([1, 3]), min_size=5, max_size=5)), strict=True))
    regions = []
    for domain, n_cpus in ((3, 8), (1, 7)):
        inside = [name for name in NAMES if homes[name] == domain]
        if not inside:
            continue
        owners = [[name] for name in inside] + [inside] * (len(inside) > 1)
        counts = []
        for total in (n_cpus, 8):
            least = [1] * len(inside) + [0] * (len(owners) - len(inside))
            extra = draw(st.lists(st.integers(0, 2), min_size=len(owners), max_size=len(owners)))
            wanted = [low + more for low, more in zip(least, extra, strict=True)]
            counts.append(wanted if sum(wanted) <= total else least)
        regions += [Region(o, c, w, domain) for o, c, w in zip(owners, *counts, strict=True)]
    return platform, Partition(draw(st.permutations(regions)))


@given(divided(), divided())
def test_each_service_is_inside_its_domain_and_a_second_run_changes_nothing(now: tuple, before: tuple) -> None:
    platform, partition = now
    previous = assign(before[1], before[0], SERVICES)
    result = assign(partition, platform, SERVICES, previous)
    assert [one.service for one in result] == NAMES
    users: dict[int, set[str]] = {}
    owned: dict[tuple[int, int], set[str]] = {}
    for one in result:
        [home] = {region.domain for region in partition.regions if one.service in region.owners}
        cpus, mask = parse_cpulist(one.cpus or ""), int(one.way_mask or "0", 16)
        assert set(cpus) <= set(usable_domains(platform)[home])
        assert len(cpus) == partition.cores_of(one.service)
        assert 0 < mask < 1 << 8
        assert platform.sparse_masks or is_contiguous(mask)
        assert mask.bit_count() >= partition.ways_of(one.service)
        for cpu in cpus:
            users.setdefault(cpu, set()).add(one.service)
        for bit in range(8):
            if mask >> bit & 1:
                owned.setdefault((home, bit), set()).add(one.service)
    owner_sets = [set(region.owners) for region in partition.regions if region.cores]
    assert all(names in owner_sets for names in users.values())
    if platform.sparse_masks:
        owner_sets = [set(region.owners) for region in partition.regions if region.ways]
        assert all(names in owner_sets for names in owned.values())
    assert assign(partition, platform, SERVICES, result) == result


def test_masks_of_services_in_different_domains_may_be_the_same() -> None:
    platform = Platform("two", 16, "0-15", ways=8, domains=[CacheDomain(0, "0-7"), CacheDomain(1, "8-15")])
    partition = Partition([Region(["a"], 8, 8, 0), Region(["b"], 8, 8, 1)])
    a, b = assign(partition, platform, SERVICES[:2])
    assert (a.cpus, b.cpus) == ("0-7", "8-15")
    assert a.way_mask == b.way_mask == "ff"


def test_who_comes_from_another_domain_takes_nobodys_ways() -> None:
    platform = Platform("two", 16, "0-15", ways=8, domains=[CacheDomain(0, "0-7"), CacheDomain(1, "8-15")])
    first = Partition([Region(["a"], 4, 4, 0), Region(["b"], 4, 4, 1)])
    before = assign(first, platform, SERVICES[:2])
    after = assign(Partition([Region(["a"], 4, 4, 1), Region(["b"], 4, 4, 1)]), platform, SERVICES[:2], before)
    assert after[1] == before[1]
    assert {after[0].way_mask, after[1].way_mask} == {"f", "f0"}
