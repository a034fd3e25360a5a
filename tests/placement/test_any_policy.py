"""What holds for every policy on a node with several cache domains, whatever it is shown."""

import base64

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.allocation.policy import decides_whole_node
from osml.decide.decide import decide, decide_by
from osml.decide.registry import load_policy, policy_names
from osml.domain import CacheDomain, Decision, Observation, Outcome, Platform, Service, partition_error, usable_domains
from osml.domain.cpulist import format_cpulist, parse_cpulist
from osml.layout import assign
from osml.placement.sites import sites_of, with_parts
from osml.simulator import catalogs
from osml.simulator.node_platform import board_platform
from tests.kit.strategies import NAMES, knob_ranges, platforms, tenants
from tests.placement.two_domains import answered, be, homes, lc, observation, platform

MAX_STATE = 131_072
SHARE_ALL = {"unmanaged", "lc_first", "round_robin"}
AMD = [board_platform(catalogs.platform(name), 1) for name in ("epyc-7763", "epyc-7742")]


@st.composite
def divided_platforms(draw: st.DrawFn) -> Platform:
    """Two to four domains of 1 to 6 CPUs, some with CPUs that may not be used, some with two threads a core."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=2, max_size=4))
    domains, first, usable, siblings = [], 0, [], []
    for domain, size in enumerate(sizes):
        domains.append(CacheDomain(2 * domain, f"{first}-{first + size}"))
        usable += range(first, first + size)  # the last CPU of each is not ours
        siblings += [[first + i, first + size // 2 + i] for i in range(size // 2)]
        first += size + 1
    node = draw(platforms)
    return replace(
        node, cores=len(usable), cpus=format_cpulist(usable), core_quantum=1.0,
        siblings=siblings if draw(st.booleans()) else [], domains=domains,
        regions_in_domains=draw(st.integers(0, 4)) > 0, ways=node.ways and min(node.ways, 64),
    )  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(policy_names()),
    divided_platforms() | st.sampled_from(AMD),
    st.lists(
        st.tuples(tenants(), st.floats(0.1, 40), st.sampled_from(["applied", "refused", "lost"])),
        min_size=1,
        max_size=8,
    ),
)
def test_every_decision_is_legal_and_each_service_is_inside_one_domain(
    policy: str, node: Platform, steps: list
) -> None:
    time_s, state, partition, assignments, outcome = 5.0, None, None, [], None
    for seq, (services, interval_s, fate) in enumerate(steps):
        time_s += interval_s
        seen = Observation(
            "n", seq, time_s, interval_s, node, services, policy=policy, partition=partition, assignments=assignments,
            policy_state=state, outcome=outcome,
        )  # fmt: skip
        decision = decide(seen)
        assert decide(seen) == decision
        names = [service.name for service in services]
        assert partition_error(decision.partition, node, names) is None
        assert decision.reasons
        found = homes(decision.partition)
        whole = decides_whole_node(load_policy(policy)) or not node.regions_in_domains
        large = any("the node is divided as a whole" in reason.text for reason in decision.reasons)
        assert bool(found) is not (whole or large)
        for one in decision.assignments if found else []:
            assert set(parse_cpulist(one.cpus or "")) <= set(usable_domains(node)[found[one.service]])
        state = decision.policy_state
        assert len(state or "") <= MAX_STATE
        outcome = Outcome(seq, "refused" if fate == "refused" else "applied")
        if fate == "applied":
            partition, assignments = decision.partition, decision.assignments
        elif fate == "lost":
            partition, assignments = None, []


def meets_minimums(decision: Decision, node: Platform, services: list[Service]) -> bool:
    partition = decision.partition
    return all(
        partition.cores_of(one.name) >= one.min_cores
        and (node.ways is None or partition.ways_of(one.name) >= one.min_ways)
        for one in services
    )


@st.composite
def demanding(draw: st.DrawFn) -> list[Service]:
    """Services with minimums that often fill the node."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=6, unique=True))
    used = st.sampled_from([None, 0.1, 1.0, 4.0])
    return [lc(name, draw(used), min_cores=draw(st.integers(1, 5)), min_ways=draw(st.integers(1, 4))) for name in names]


WIDE_MASKS = Platform(
    id="p", cores=3, cpus="0,2-3", ways=5, min_way_bits=2, domains=[CacheDomain(0, "0-1"), CacheDomain(2, "2-4")]
)
COMES = [[lc("a", None), lc("b", None)], [lc("a", None), lc("b", None), lc("c", None, min_ways=4)]]


@settings(max_examples=200, deadline=None)
@example("clite", WIDE_MASKS, COMES)  # a mask has two ways at least, so nobody fits beside c
@given(st.sampled_from(policy_names()), divided_platforms(), st.lists(demanding(), min_size=1, max_size=3))
def test_minimums_that_the_node_meets_as_one_pool_are_met_with_placement(
    policy: str, node: Platform, steps: list[list[Service]]
) -> None:
    last: dict[bool, Decision] = {}
    for seq, services in enumerate(steps):
        met: dict[bool, bool] = {}
        for placed in (True, False):
            here = replace(node, regions_in_domains=placed)
            seen = observation(services, here, policy=policy, seq=seq, time_s=float(seq))
            if placed in last:
                was = last[placed]
                seen = replace(seen, policy_state=was.policy_state, assignments=was.assignments)
                seen = replace(seen, partition=was.partition)
            last[placed] = decide(seen)
            met[placed] = meets_minimums(last[placed], here, services)
        assert met[True] or not met[False]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(policy_names()), platforms, st.lists(tenants(), min_size=1, max_size=5))
def test_with_one_domain_all_is_as_without_domains(policy: str, node: Platform, steps: list) -> None:
    one = replace(node, domains=[CacheDomain(0, node.cpus)], regions_in_domains=True)
    before = {node.id: None, "one": None}
    for seq, services in enumerate(steps):
        decisions = []
        for key, each in ((node.id, node), ("one", one)):
            last = before[key]
            seen = Observation("n", seq, float(seq), 1.0, each, services, policy=policy)
            if last is not None:
                seen = replace(seen, policy_state=last.policy_state, assignments=last.assignments)
            before[key] = decide(seen)
            decisions.append(before[key])
        assert decisions[0] == decisions[1]


def test_just_the_policies_that_share_everything_decide_for_the_whole_node() -> None:
    assert {name for name in policy_names() if decides_whole_node(load_policy(name))} == SHARE_ALL


@pytest.mark.parametrize("policy", [name for name in policy_names() if name not in SHARE_ALL])
def test_each_domain_is_decided_for_as_a_node_of_its_own(policy: str) -> None:
    services = [lc("a", 3.0), lc("b", 2.0), be("x", 1.0)]
    seen = observation(services, policy=policy)
    alone: dict[int, object] = {}
    for seq in range(12):
        services = [lc("a", 3.0, 11.0 if seq % 3 else 5.0), lc("b", 2.0, 9.0), be("x", 1.0)]
        seen = replace(seen, services=services)
        decision = decide(seen)
        for domain, site in sites_of(seen.platform).items():
            names = {name for name, home in homes(decision.partition).items() if home == domain}
            inside = [service for service in services if service.name in names]
            alone_there = with_parts(site.platform, len(inside), len(services), 2)
            part = replace(seen, platform=alone_there, services=inside)
            last = alone.get(domain)
            part = replace(part, partition=None, assignments=[], policy_state=None) if last is None else replace(
                part, partition=last.partition, assignments=last.assignments, policy_state=last.policy_state
            )  # fmt: skip
            alone[domain] = decide_by(load_policy(policy), part, seed=domain)
            regions = [replace(region, domain=domain) for region in alone[domain].partition.regions]
            assert decision.partition.by_domain[domain] == regions
        seen = answered(seen, decision)


@pytest.mark.parametrize("policy", policy_names())
def test_the_state_of_64_services_in_two_domains_fits_the_wire(policy: str) -> None:
    node = platform(64, ways=32, max_groups=None, **knob_ranges)
    services = [lc(f"service-number-{i}-of-many", 0.5) for i in range(56)] + [be(f"job-{i}", 1.0) for i in range(8)]
    seen = observation(services, node, policy=policy)
    for _ in range(6):
        decision = decide(seen)
        assert len(decision.policy_state or "") <= MAX_STATE
        seen = answered(seen, decision)


def test_the_state_of_a_policy_alone_is_discarded_with_a_reason() -> None:
    seen = observation([lc("a"), lc("b")], platform(regions_in_domains=False), policy="parties")
    decision = decide(replace(answered(seen, decide(seen)), platform=platform()))
    assert "has version" in decision.reasons[0].text
    assert homes(decision.partition) == {"a": 0, "b": 1}
    back = decide(replace(answered(seen, decision), platform=seen.platform))
    assert "has version" in back.reasons[0].text
    assert homes(back.partition) == {}


@pytest.mark.parametrize("state", [b"\x81\xa4seed\xc0", b"\x82\xa4seed\x01\xa5inner\x81\x00\xa1x"])
def test_a_damaged_state_of_the_placement_is_discarded(state: bytes) -> None:
    version = b"\xce" + (2_000_000 + load_policy("arq").version).to_bytes(4, "big")
    packed = b"\x83\xa6policy\xa3arq\xa7version" + version + b"\xa5state" + state
    seen = observation([lc("a"), lc("b")], policy="arq", policy_state=base64.urlsafe_b64encode(packed).decode())
    decision = decide(seen)
    assert "cannot be read and is discarded" in decision.reasons[0].text
    assert decision.partition == decide(replace(seen, policy_state=None)).partition


@pytest.mark.parametrize(
    "changes",
    [
        {"regions_in_domains": False},
        {"core_quantum": 0.5, "cores": 32},
        {"domains": [CacheDomain(0, "0-15")]},
        {"domains": [CacheDomain(0, "0-7"), CacheDomain(1, "8-14")]},
        {"domains": [CacheDomain(0, "0-15"), CacheDomain(1, "")]},
    ],
)
def test_a_node_that_cannot_be_divided_by_domains_is_one_pool(changes: dict) -> None:
    node = platform(**changes)
    decision = decide(observation([lc("a"), lc("b"), lc("c")], node, policy="even"))
    assert homes(decision.partition) == {}
    assert decision.partition.cores == node.cores


def test_what_is_divided_in_domains_says_nothing_to_a_policy_for_the_whole_node() -> None:
    services = [lc(name) for name in NAMES[:3]]
    placed = decide(observation(services, policy="parties"))
    pool = platform(regions_in_domains=False)
    for policy in ("parties", "unmanaged"):
        seen = replace(answered(observation(services, pool), placed), policy=policy, policy_state=None)
        first = decide(seen).partition
        assert homes(first) == {}
        assert assign(first, pool, services)
