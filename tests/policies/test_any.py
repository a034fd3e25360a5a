"""What holds for every policy, whatever it is shown."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.decide.decide import decide
from osml.decide.registry import load_policy, policy_names
from osml.decide.state import open_state, seal_state
from osml.domain import Latency, Observation, Outcome, Partition, Platform, Region, Service, partition_error
from osml.policies.arq import ArqState
from osml.policies.parties.policy import PartiesState
from tests.kit.strategies import NAMES, platforms, tenants
from tests.kit.toy_node import Tenant, ToyNode, demo_tenants

SHARE_ALL = {"unmanaged", "lc_first", "round_robin"}  # they can't keep a maximum, and say so


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(policy_names()),
    platforms,
    st.lists(
        st.tuples(tenants(), st.floats(0.1, 40), st.sampled_from(["applied", "refused", "lost"])),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 3),
)
def test_every_decision_is_legal_has_reasons_and_keeps_limits(
    policy: str, platform: Platform, steps: list, seed: int
) -> None:
    time_s, state, partition, assignments, outcome = 5.0, None, None, [], None
    for seq, (services, interval_s, fate) in enumerate(steps):
        time_s += interval_s
        observation = Observation(
            "n",
            seq,
            time_s,
            interval_s,
            platform,
            services,
            policy=policy,
            partition=partition,
            assignments=assignments,
            policy_state=state,
            outcome=outcome,
        )
        decision = decide(observation, seed=seed)
        assert decide(observation, seed=seed) == decision
        names = [service.name for service in services]
        assert partition_error(decision.partition, platform, names) is None
        assert decision.reasons
        assert all(reason.text for reason in decision.reasons)
        assert [a.service for a in decision.assignments] == names
        if policy in SHARE_ALL:
            limited = [s.name for s in services if s.max_cores is not None and s.max_cores < platform.cores]
            if platform.ways is not None:
                limited += [s.name for s in services if s.max_ways is not None and s.max_ways < platform.ways]
            told = [] if decision.infeasible is None else decision.infeasible.services
            assert set(told) == set(limited)
        for service in services if policy not in SHARE_ALL else ():
            cores, ways = decision.partition.cores_of(service.name), decision.partition.ways_of(service.name)
            # The agent refuses a decision above a maximum, so they hold where nothing fits, too.
            assert cores <= max(service.max_cores or platform.cores, service.min_cores, 1)
            most = max(service.max_ways or platform.ways or 0, service.min_ways, platform.min_way_bits)
            assert platform.ways is None or ways <= most
            if decision.infeasible is None:
                assert cores >= min(service.min_cores, platform.cores)
        state = decision.policy_state
        outcome = Outcome(seq, "refused" if fate == "refused" else "applied")
        if fate == "applied":
            partition, assignments = decision.partition, decision.assignments
        elif fate == "lost":
            partition, assignments = None, []


@pytest.mark.parametrize("policy", ["even", "staffing", "staffing:climb", "parties", "arq", "clite", "heracles"])
def test_a_refusal_is_among_the_reasons(policy: str) -> None:
    node = ToyNode(demo_tenants(), policy=policy)
    first = node.step()
    region, *others = first.partition.regions
    refused = Outcome(0, "refused", "way_mask 3 is too small")
    for applied in (None, replace(first.partition, regions=[replace(region, cores=1), *others])):
        decision = node.step(partition=applied, outcome=refused)
        assert any("way_mask 3 is too small" in reason.text for reason in decision.reasons)


@pytest.mark.parametrize("policy", sorted(SHARE_ALL))
def test_what_the_agent_refuses_because_of_a_maximum_is_said(policy: str) -> None:
    platform = Platform("p", 8, "0-7", ways=11, realtime=True)
    services = [
        Service("a", "lc", 10.0, max_cores=4, max_ways=3),
        Service("b", "lc", 10.0, max_cores=8, max_ways=11),
        Service("job", "be", max_ways=2),
    ]
    found = decide(Observation("n", 1, 10.0, 1.0, platform, services, policy=policy)).infeasible
    assert found is not None
    assert found.services == ["a", "job"]
    assert "refuses to share everything: a has max_cores and max_ways, job has max_ways;" in found.message
    free = [replace(service, max_cores=None, max_ways=None) for service in services]
    assert decide(Observation("n", 1, 10.0, 1.0, platform, free, policy=policy)).infeasible is None


@pytest.mark.parametrize("policy", policy_names())
def test_a_whole_run_repeats_itself_exactly(policy: str) -> None:
    first, second = (ToyNode(demo_tenants(), policy=policy, seed=3) for _ in range(2))
    first.run(30)
    second.run(30)
    assert first.history == second.history


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("count", [1, 8])
def test_no_best_effort_job_one_service_and_eight(policy: str, count: int) -> None:
    node = ToyNode([Tenant(name, load=1.0) for name in NAMES[:count]], policy=policy)
    node.run(10)
    assert node.decision is not None
    # OMBM knows services that were profiled, and one of them.
    assert (node.decision.infeasible is None) is (policy not in ("ombm", "ombm_classic"))


def silent(node: ToyNode) -> None:
    """From now on nobody's latency is measured."""
    for tenant in node.tenants:
        tenant.measured = False


@pytest.mark.parametrize("policy", [name for name in policy_names() if name != "random"])
def test_a_service_without_a_latency_keeps_what_it_has(policy: str) -> None:
    node = ToyNode(demo_tenants(), policy=policy, seed=2)
    node.run(150 if policy == "clite" else 5)  # what clite measures in a search is no allocation to keep
    silent(node)
    node.run(1)  # one decision is under way
    before = node.decision.partition
    node.run(60)
    for tenant in node.tenants[:3]:
        assert node.decision.partition.cores_of(tenant.name) >= before.cores_of(tenant.name)
        assert node.decision.partition.ways_of(tenant.name) >= before.ways_of(tenant.name)


@pytest.mark.parametrize("policy", ["even", "parties", "staffing", "osml:formula"])
def test_more_services_than_ways_is_infeasible_and_all_share_the_ways(policy: str) -> None:
    node = ToyNode([Tenant(name, load=1.0) for name in NAMES], ways=4, policy=policy)
    node.run(3)
    assert node.decision is not None
    assert node.decision.infeasible is not None
    assert "8 parts of at least 1 don't fit in 4 ways; all services share the ways" in node.decision.infeasible.message
    assert all(node.decision.partition.ways_of(name) == 4 for name in NAMES)
    assert sum(len(region.owners) == 1 and region.cores > 0 for region in node.decision.partition.regions) == 8


@pytest.mark.parametrize("policy", ["parties", "arq"])
def test_slices_of_cpu_time_without_cache_partitioning_are_divided_too(policy: str) -> None:
    tenants = [Tenant("redis", load=4.0), Tenant("nginx", load=2.0), Tenant("stress", load=0, kind="be")]
    node = ToyNode(tenants, cores=20, ways=None, quantum=0.1, policy=policy)
    assert node.steps_to_converge() is not None
    assert node.decision is not None
    assert all(a.cpu_quota is not None and a.cpus is None for a in node.decision.assignments)


@pytest.mark.parametrize("policy", ["parties", "arq", "clite", "heracles"])
def test_slices_are_moved_in_whole_cores_where_the_limits_let_them(policy: str) -> None:
    tenants = [Tenant("redis", load=40.0), Tenant("nginx", load=95.0), Tenant("stress", load=0, kind="be")]
    node = ToyNode(tenants, cores=360, ways=20, quantum=0.1, policy=policy, seed=1)
    node.run(60)
    moved = 0
    for before, after in pairwise(node.history):
        for tenant in tenants:
            change = after.partition.cores_of(tenant.name) - before.partition.cores_of(tenant.name)
            assert change % 10 == 0
            moved += change != 0
    assert moved > 0


def test_a_step_of_less_than_a_core_to_a_limit_is_taken_back_as_it_was() -> None:
    """PARTIES, 6 units from the least: down to it, and after a miss the same 6 again."""
    platform = Platform("p", 40, "0-3", core_quantum=0.1)
    before = Partition([Region(["a"], 7), Region(["b"], 20), Region(["job"], 13)])
    less = Partition([Region(["a"], 1), Region(["b"], 20), Region(["job"], 19)])
    job = Service("job", "be")
    policy = load_policy("parties")

    def decided(p99_ms: float, partition: Partition, state: PartiesState) -> tuple[Partition, PartiesState]:
        services = [Service(name, "lc", 10.0, latency=Latency(p99_ms=ms)) for name, ms in (("a", p99_ms), ("b", 9.0))]
        seen = Observation("n", 1, 10.0, 1.0, platform, [*services, job], partition=partition)
        plan, state = policy.decide(seen, state)
        return plan.partition, state

    found, state = decided(2.0, before, PartiesState(seed=0, wanted=before, time_s=9.0))
    assert found == less
    found, _ = decided(11.0, less, state)
    assert found == before
    assert state.trial is not None
    huge = replace(state, trial=replace(state.trial, units=10**15))  # states come from outside
    assert sum(region.cores for region in decided(11.0, less, huge)[0].regions) == 40


def test_a_target_that_changes_in_mid_run_is_followed() -> None:
    node = ToyNode(demo_tenants(), policy="parties", seed=1)
    assert node.steps_to_converge() is not None
    cores = node.decision.partition.cores_of("xapian")
    node.tenants[2] = Tenant("xapian", load=4.0, taste=0.2, target_ms=5.0)
    assert node.steps_to_converge() is not None
    assert node.decision.partition.cores_of("xapian") >= cores


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        ("arq", ArqState(banned_until_s={"a": 900.0}, time_s=850.0)),
        ("parties", PartiesState(seed=0, paused_until_s={"a": 900.0}, time_s=850.0)),
    ],
)
def test_timers_of_a_clock_that_started_again_are_forgotten(policy: str, state: ArqState | PartiesState) -> None:
    node = ToyNode([Tenant("a", load=1.0), Tenant("b", load=1.0)], policy=policy)
    node.step()
    assert node.decision is not None
    state = replace(state, wanted=node.decision.partition)
    node.policy_state = seal_state(load_policy(policy), state)
    node.time_s = 2.0
    after, _ = open_state(node.step().policy_state or "", load_policy(policy))
    assert not (after.banned_until_s if policy == "arq" else after.paused_until_s)


@pytest.mark.parametrize("policy", ["even", "parties", "staffing", "osml:formula"])
def test_more_groups_than_the_cache_has_lets_all_share_the_ways(policy: str) -> None:
    node = ToyNode(demo_tenants(), policy=policy)
    decision = node.step(platform=replace(node.platform(), max_groups=4))
    assert decision.infeasible is not None
    assert "cache group" in decision.infeasible.message
