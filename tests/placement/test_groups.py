"""Cache groups of a node with more services than groups: domains share them where masks are the same."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from osml.decide.decide import decide
from osml.domain import Assignment, CacheDomain, Decision, MbaRange, Observation, Platform
from tests.placement.two_domains import answered, be, lc, observation, platform


def ccxs(n_domains: int, per_domain: int = 8, **changes: object) -> Platform:
    """An EPYC: 16 ways in each of many domains."""
    known = {
        "cores": n_domains * per_domain,
        "cpus": f"0-{n_domains * per_domain - 1}",
        "domains": [CacheDomain(i, f"{i * per_domain}-{(i + 1) * per_domain - 1}") for i in range(n_domains)],
        "max_groups": 16, "mba": None,
    }  # fmt: skip
    return replace(platform(), **(known | changes))


def portions(decision: Decision) -> set[tuple[str | None, int | None]]:
    """What needs a cache group each."""
    return {(one.way_mask, one.mba) for one in decision.assignments}


@pytest.mark.parametrize("policy", ["parties", "arq", "staffing", "even"])
def test_the_16th_service_of_eight_ccx_takes_no_ways_from_anybody(policy: str) -> None:
    services = [lc(f"s{i:02}", 1.0) for i in range(16)]
    decision = decide(observation(services, ccxs(8), policy=policy))
    assert decision.infeasible is None
    assert len(portions(decision)) <= 2
    if policy != "arq":  # it begins with all ways in common
        assert {decision.partition.ways_of(service.name) for service in services} == {8}


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_one_service_in_each_domain_needs_nobody_kept_away(groups: int) -> None:
    services = [lc(f"s{i}", 1.0) for i in range(8)]
    decision = decide(observation(services, ccxs(8, max_groups=groups), policy="parties"))
    assert decision.infeasible is None
    assert portions(decision) == {("ffff", None)}


def uneven(*least: int) -> Observation:
    """Two services in each domain, of which the first has at least so many ways."""
    services = [
        one for i, ways in enumerate(least) for one in (lc(f"a{i}", 1.0, min_ways=ways), lc(f"b{i}", 1.0))
    ]  # fmt: skip
    held = [Assignment(one.name, f"{8 * int(one.name[1:]) + (0 if one.name[0] == 'a' else 4)}") for one in services]
    return observation(services, ccxs(len(least), max_groups=6), policy="even", assignments=held)


def test_only_the_domains_share_for_which_no_groups_are_left() -> None:
    seen = uneven(8, 9, 10, 9)
    decision = decide(seen)
    masks = {one.service: one.way_mask for one in decision.assignments}
    assert [len({masks[f"a{i}"], masks[f"b{i}"]}) for i in range(4)] == [2, 2, 1, 2]
    assert masks["a2"] == "ffff"
    assert len(portions(decision)) == 5
    said = "cache domain 2: all its services share the ways, the node has only 5 cache groups"
    assert said in [reason.text for reason in decision.reasons]
    assert decision.infeasible is not None
    assert decision.infeasible.services == ["a2", "b2"]


def test_who_shares_does_so_until_the_services_change() -> None:
    seen = uneven(8, 9, 10)
    decision = decide(seen)
    even_now = [replace(one, min_ways=1) for one in seen.services]
    decision = decide(answered(seen, decision, even_now))
    assert decision.partition.ways_of("a2") == 16, "no change from interval to interval"
    seen = answered(answered(seen, decision), decision, [one for one in even_now if one.name != "b0"])
    decision = decide(seen)
    assert decision.infeasible is None
    assert decision.partition.ways_of("a2") == 8


def test_sharing_ends_while_the_node_is_divided_as_a_whole() -> None:
    seen = uneven(8, 9, 10, 9)
    decision = decide(seen)
    assert decision.partition.ways_of("a2") == 16
    gone = [replace(one, min_ways=1) for one in seen.services if one.name != "b0"]
    crowded = [replace(one, min_cores=6) for one in gone]  # no domain holds two of them
    seen = answered(seen, decision, crowded)
    decision = decide(seen)
    assert "divided as a whole" in decision.reasons[0].text
    for _ in range(2):
        seen = answered(seen, decision, gone)
        decision = decide(seen)
    assert decision.infeasible is None
    assert decision.partition.ways_of("a2") == 8


@pytest.mark.parametrize("policy", ["even", "parties", "staffing"])
def test_a_maximum_in_a_domain_that_shares_takes_no_group_too_many(policy: str) -> None:
    """What the strictest maximum leaves to share is a mask of its own, not that of all ways."""
    seen = uneven(8, 9, 10, 9, 10)
    most = {"b2": 6, "b4": 5}
    services = [replace(one, max_ways=most.get(one.name)) for one in seen.services] + [lc("z", 1.0)]
    platform = ccxs(6, max_groups=6)
    seen = replace(seen, services=services, platform=platform, policy=policy)
    for _ in range(3):
        decision = decide(seen)
        assert len(portions(decision)) <= 5
        for name, ways in most.items():
            assert decision.partition.ways_of(name) <= ways
        seen = answered(seen, decision)


@pytest.mark.parametrize("policy", ["parties", "arq", "staffing", "osml:formula", "heracles", "even"])
def test_the_domains_never_need_more_groups_than_there_are(policy: str) -> None:
    throttle = MbaRange(10, 100, 10)
    services = [lc(f"s{i}", 1.0 + i % 3) for i in range(9)] + [be(f"j{i}", 2.0) for i in range(3)]
    seen = observation(services, ccxs(4, max_groups=6, mba=throttle), policy=policy)
    for seq in range(25):
        decision = decide(seen)
        assert len(portions(decision)) <= 5
        tails = [lc(f"s{i}", 1.0 + i % 3, (12.0, 5.0, 2.0, 9.0)[(i + seq // 3) % 4]) for i in range(9)]
        seen = answered(seen, decision, tails + services[9:])
