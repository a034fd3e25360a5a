"""The rules of ARQ (TPDS 2024, section VI, algorithm 1), one by one."""

from msgspec.structs import replace

from osml.allocation.holding import POOL
from osml.domain import Counters, Knobs, Latency, MbaRange, Observation, Outcome, Partition, Platform, Region, Service
from osml.policies.arq import Adjustment, Arq, ArqState
from tests.kit.toy_node import ToyNode, demo_tenants

PLATFORM = Platform(id="p", cores=12, cpus="0-11", ways=12)
ALL = ("a", "b", "job")


def lc(name: str, p99_ms: float | None, target_ms: float = 10.0, **more: object) -> Service:
    return Service(name=name, kind="lc", target_ms=target_ms, latency=Latency(p99_ms=p99_ms), **more)


def be(ipc: float = 1.0) -> Service:
    return Service(name="job", kind="be", ipc_solo=1.0, counters=Counters(ipc=ipc))


def parts(shared: tuple[int, int], **own: tuple[int, int]) -> Partition:
    regions = [Region([name], *units) for name, units in own.items()]
    return Partition([*regions, Region(list(ALL), *shared)])


def observed(services: list[Service], partition: Partition | None, time_s: float = 10.0, **more: object) -> Observation:
    return Observation(
        node="n",
        seq=1,
        time_s=time_s,
        interval_s=1.0,
        platform=PLATFORM,
        services=services,
        partition=partition,
        **more,
    )


def after(partition: Partition, last: Adjustment | None = None, e_s: float = 0.0, **more: object) -> ArqState:
    return ArqState(last=last, e_s=e_s, e_s_allowed=e_s, measured=sorted(ALL), wanted=partition, time_s=9.0, **more)


def isolated(partition: Partition, name: str) -> tuple[int, int]:
    own = [region for region in partition.regions if region.owners == [name]]
    return sum(region.cores for region in own), sum(region.ways for region in own)


def shared(partition: Partition) -> tuple[int, int]:
    [region] = [region for region in partition.regions if region.shared]
    return region.cores, region.ways


SHARED = parts((12, 12))


def test_it_starts_with_everything_shared() -> None:
    observation = observed([lc("a", None), lc("b", None), be()], None)
    plan, _ = Arq().decide(observation, Arq().initial(observation, 0))
    assert plan.partition == SHARED


def test_the_poorest_gets_one_core_from_the_shared_region() -> None:
    plan, state = Arq().decide(observed([lc("a", 11.0), lc("b", 20.0), be()], SHARED), after(SHARED))
    assert isolated(plan.partition, "b") == (1, 0)
    assert shared(plan.partition) == (11, 12)
    assert state.last == Adjustment(POOL, "b", "cores")
    assert plan.reasons[-1].text == (
        "b gets 1 isolated unit of cores from the shared region: p99 20 ms is above the target of 10 ms (slack -1.00)"
    )


def test_the_richest_with_isolated_units_and_tolerance_above_a_tenth_pays_before_the_shared_region() -> None:
    now = parts((9, 12), b=(3, 0))
    plan, state = Arq().decide(observed([lc("a", 12.0), lc("b", 8.9), be()], now), after(now))
    assert (isolated(plan.partition, "a"), isolated(plan.partition, "b")) == ((1, 0), (2, 0))
    assert state.last == Adjustment("b", "a", "cores")
    plan, _ = Arq().decide(observed([lc("a", 12.0), lc("b", 9.1), be()], now), after(now))
    assert (isolated(plan.partition, "b"), shared(plan.partition)) == ((3, 0), (8, 12))


def test_a_service_with_tolerance_gives_back_to_the_shared_region_when_nobody_is_poor() -> None:
    now = parts((9, 10), b=(3, 2))
    plan, state = Arq().decide(observed([lc("a", 9.4), lc("b", 5.0), be()], now), after(now))
    assert (isolated(plan.partition, "b"), shared(plan.partition)) == ((2, 2), (10, 10))
    assert state.last == Adjustment("b", POOL, "cores")


def test_equilibrium_changes_nothing() -> None:
    now = parts((9, 10), b=(3, 2))
    plan, state = Arq().decide(observed([lc("a", 9.4), lc("b", 9.2), be()], now), after(now))
    assert plan.partition == now
    assert state.last is None
    assert "equilibrium" in plan.reasons[-1].text


def test_a_rise_of_entropy_cancels_and_bans_the_isolated_victim_for_sixty_seconds() -> None:
    now = parts((10, 12), a=(0, 0), b=(2, 0))
    state = after(now, Adjustment("b", POOL, "cores"), e_s=0.0)
    plan, state = Arq().decide(observed([lc("a", 9.0), lc("b", 12.0), be()], now), state)
    assert isolated(plan.partition, "b") == (3, 0)
    assert "cancelled" in plan.reasons[-1].text
    good = [lc("a", 9.0), lc("b", 5.0), be()]
    plan, state = Arq().decide(observed(good, plan.partition, 69.0), state)
    assert isolated(plan.partition, "b") == (3, 0)
    plan, state = Arq().decide(observed(good, plan.partition, 71.0), state)
    assert isolated(plan.partition, "b") == (2, 0)


def test_any_rise_of_entropy_counts_after_an_isolated_region_gave() -> None:
    now = parts((10, 12), b=(2, 0))
    given = after(now, Adjustment("b", POOL, "cores"), e_s=0.1)
    services = [lc("a", 9.0), lc("b", 9.0), be(ipc=0.499)]  # E_S = 0.2 * (1 - 0.499) = 0.1002
    assert isolated(Arq().decide(observed(services, now), given)[0].partition, "b") == (3, 0)
    services = [lc("a", 9.0), lc("b", 9.0), be(ipc=0.501)]
    assert isolated(Arq().decide(observed(services, now), given)[0].partition, "b") == (2, 0)


def test_a_core_worth_more_than_the_band_of_the_thresholds_comes_and_goes() -> None:
    """Below 0.05 a service takes, above 0.1 it gives; E_S does not stop it, because no target is missed."""
    partition, state, seen = parts((9, 10), b=(3, 2)), after(parts((9, 10), b=(3, 2))), []
    for step in range(4):
        tail_ms = 9.6 if isolated(partition, "b")[0] == 3 else 8.6
        plan, state = Arq().decide(observed([lc("a", 9.2), lc("b", tail_ms), be()], partition, 10.0 + step), state)
        partition = plan.partition
        seen.append(isolated(partition, "b")[0])
    assert seen == [4, 3, 4, 3]


WITH_MBA = replace(PLATFORM, mba=MbaRange(10, 100, 10))


def throttled(partition: Partition | None, services: list[Service], state: ArqState) -> tuple[Partition, ArqState]:
    plan, state = Arq().decide(replace(observed(services, partition), platform=WITH_MBA), state)
    return plan.partition, state


def test_isolated_memory_bandwidth_throttles_all_others() -> None:
    start, _ = throttled(None, [lc("a", None), lc("b", None), be()], Arq().initial(observed([], None), 0))
    assert start.mba == {"a": 100, "b": 100, "job": 100}
    turn = {">a": "mba", ">b": "mba"}
    services = [lc("a", 20.0), lc("b", 9.0), be()]
    found, state = throttled(start, services, after(start, turn=turn))
    assert found.mba == {"a": 100, "b": 90, "job": 90}
    assert state.last == Adjustment(POOL, "a", "mba")
    services = [lc("a", 9.0), lc("b", 20.0), be()]
    found, _ = throttled(found, services, after(found, turn=turn))
    assert found.mba == {"a": 90, "b": 90, "job": 80}
    services = [lc("a", 5.0), lc("b", 9.2), be()]
    found, _ = throttled(found, services, after(found, turn={"a>": "mba"}))
    assert found.mba == {"a": 90, "b": 100, "job": 90}


def test_the_shared_region_keeps_the_least_throttle_that_there_is() -> None:
    now = replace(parts((12, 12)), mba={"a": 100, "b": 10, "job": 10})
    found, state = throttled(now, [lc("a", 20.0), lc("b", 9.0), be()], after(now, turn={">a": "mba"}))
    assert found.mba == now.mba
    assert state.last == Adjustment(POOL, "a", "cores")


def test_the_interval_after_a_cancel_is_not_judged() -> None:
    now = parts((10, 12), b=(2, 0))
    state = after(now, Adjustment("b", POOL, "cores"), e_s=0.0)
    plan, state = Arq().decide(observed([lc("a", 9.0), lc("b", 12.0), be()], now), state)
    worse = observed([lc("a", 9.0), lc("b", 30.0), be()], plan.partition, 11.0)
    plan, _ = Arq().decide(worse, state)
    assert isolated(plan.partition, "b") == (4, 0)


def test_the_shared_region_is_cancelled_within_the_elasticity_only_and_tries_the_next_resource() -> None:
    services = [lc("a", 20.0), lc("b", 9.0), be()]
    plan, state = Arq().decide(observed(services, SHARED), after(SHARED))
    noisy = observed([lc("a", 21.5), lc("b", 9.0), be()], plan.partition, 11.0)
    assert isolated(Arq().decide(noisy, state)[0].partition, "a")[0] >= 1
    worse = observed([lc("a", 25.0), lc("b", 9.0), be()], plan.partition, 11.0)
    plan, state = Arq().decide(worse, state)
    assert isolated(plan.partition, "a") == (0, 0)
    plan, _ = Arq().decide(observed([lc("a", 25.0), lc("b", 9.0), be()], plan.partition, 12.0), state)
    assert isolated(plan.partition, "a") == (0, 1)


def test_a_resource_that_does_not_lower_entropy_is_followed_by_the_next() -> None:
    services = [lc("a", 20.0), lc("b", 9.0), be()]
    plan, state = Arq().decide(observed(services, SHARED), after(SHARED))
    assert isolated(plan.partition, "a") == (1, 0)
    helped = observed([lc("a", 18.0), lc("b", 9.0), be()], plan.partition, 11.0)
    assert isolated(Arq().decide(helped, state)[0].partition, "a") == (2, 0)
    of_no_use = observed(services, plan.partition, 11.0)
    assert isolated(Arq().decide(of_no_use, state)[0].partition, "a") == (1, 1)


def test_entropies_of_different_services_are_not_compared() -> None:
    now = parts((10, 12), b=(2, 0))
    state = after(now, Adjustment("b", POOL, "cores"), e_s=0.0)
    plan, _ = Arq().decide(observed([lc("a", None), lc("b", 12.0), be()], now), state)
    assert isolated(plan.partition, "b") == (3, 0)
    assert "cancelled" not in plan.reasons[-1].text
    assert any(
        "a: no p99 was measured in this interval; its resources do not change" in reason.text for reason in plan.reasons
    )


def test_the_shared_region_keeps_one_core_and_the_shortest_mask() -> None:
    platform = replace(PLATFORM, min_way_bits=2)
    now = parts((1, 2), a=(6, 5), b=(5, 5))
    services = [lc("a", 20.0), lc("b", 20.0), be()]
    plan, _ = Arq().decide(replace(observed(services, now), platform=platform), after(now))
    assert plan.partition == now
    assert "no region can give it a unit now" in plan.reasons[-1].text


def test_the_next_poorest_is_helped_where_the_poorest_can_not() -> None:
    now = Partition([Region(["a"], 3, 3), Region(["b", "job"], 9, 9)])
    services = [lc("a", 30.0, max_cores=3, max_ways=3), lc("b", 20.0), be()]
    plan, _ = Arq().decide(observed(services, now), after(now))
    assert (isolated(plan.partition, "a"), isolated(plan.partition, "b")) == ((3, 3), (1, 0))


def test_a_service_with_an_upper_limit_stays_out_of_the_shared_region() -> None:
    observation = observed([lc("a", None, max_cores=3), lc("b", None), be()], None)
    plan, state = Arq().decide(observation, Arq().initial(observation, 0))
    assert plan.partition.cores_of("a") == 3
    assert plan.partition.ways_of("a") == 12
    later = observed([lc("a", 30.0, max_cores=3), lc("b", 9.4), be()], plan.partition, 11.0)
    plan, _ = Arq().decide(later, state)
    assert plan.partition.cores_of("a") == 3


def test_one_service_alone_has_everything() -> None:
    observation = observed([lc("a", 20.0)], None)
    plan, state = Arq().decide(observation, Arq().initial(observation, 0))
    plan, _ = Arq().decide(observed([lc("a", 20.0)], plan.partition, 11.0), state)
    assert plan.partition == Partition([Region(["a"], 12, 12)])
    assert "alone" in plan.reasons[-1].text


def test_services_run_before_the_jobs_that_share_cpus_with_them_where_the_node_has_priorities() -> None:
    realtime = replace(PLATFORM, realtime=True)
    services = [lc("a", 11.0), lc("b", 20.0, max_cores=4), be()]
    first = replace(observed(services, None), platform=realtime)
    plan, state = Arq().decide(first, Arq().initial(first, 0))
    assert plan.partition.knobs == {"a": Knobs(realtime_priority=10)}  # b shares ways only
    plan, state = Arq().decide(replace(observed(services, plan.partition, 11.0), platform=realtime), state)
    assert "not the last decision" not in plan.reasons[0].text
    assert plan.partition.knobs == {"a": Knobs(realtime_priority=10)}
    assert state.wanted == plan.partition
    alone = replace(observed([lc("a", 11.0), lc("b", 20.0)], None), platform=realtime)
    assert Arq().decide(alone, Arq().initial(alone, 0))[0].partition.knobs == {}
    plain = observed(services, None)
    assert Arq().decide(plain, Arq().initial(plain, 0))[0].partition.knobs == {}


def test_a_newcomer_shares_and_a_vanished_service_gives_back() -> None:
    now = parts((9, 12), b=(3, 0))
    plan, state = Arq().decide(observed([lc("a", 9.3), lc("c", None), be()], now), after(now))
    assert plan.partition == Partition([Region(["a", "c", "job"], 12, 12)])
    assert {"c is new here", "b is no longer here: its resources are free"} <= {reason.text for reason in plan.reasons}
    assert state.last is None


def test_a_refused_decision_goes_on_with_the_other_resource() -> None:
    state = after(parts((11, 12), a=(1, 0)), Adjustment(POOL, "a", "cores"), e_s=0.4)
    outcome = Outcome(seq=0, status="rolled_back", message="schemata: mask refused")
    plan, _ = Arq().decide(observed([lc("a", 20.0), lc("b", 9.0), be()], SHARED, outcome=outcome), state)
    assert isolated(plan.partition, "a") == (0, 1)
    assert "rolled back: schemata: mask refused" in plan.reasons[0].text


def test_a_refused_decision_is_repeated_where_the_applied_partition_has_a_limited_service_in_common() -> None:
    wanted = Partition([Region(["a"], 4, 0), Region(["b", "job"], 8, 0), Region(list(ALL), 0, 12)])
    services = [lc("a", 20.0, max_cores=4), lc("b", 9.0), be()]
    seen = observed(services, SHARED, outcome=Outcome(seq=0, status="refused", message="no"))
    plan, _ = Arq().decide(seen, after(wanted))
    assert plan.partition == wanted
    assert "the same request is repeated" in plan.reasons[-1].text


def test_a_minute_of_violation_is_reported() -> None:
    full = parts((1, 1), a=(6, 6), b=(5, 5))
    state = after(full, violated_since_s=9.0)
    plan, _ = Arq().decide(observed([lc("a", 30.0), lc("b", 9.0), be()], full, 70.0), state)
    assert plan.infeasible is not None
    assert plan.infeasible.services == ["a"]


def test_it_converges_on_a_toy_node_and_again_after_a_load_step() -> None:
    node = ToyNode(demo_tenants(), policy="arq")
    steps = node.steps_to_converge()
    assert steps is not None
    assert steps < 40
    node.tenants[2].load *= 1.2
    steps = node.steps_to_converge()
    assert steps is not None
    assert steps < 40


def test_a_service_that_was_alone_shares_with_the_newcomer() -> None:
    alone = Partition([Region(["a"], 12, 12)])
    plan, _ = Arq().decide(observed([lc("a", 5.0), lc("b", None)], alone), after(alone))
    [region] = plan.partition.regions
    assert (set(region.owners), region.cores, region.ways) == ({"a", "b"}, 12, 12)


def test_who_stays_alone_and_is_joined_again_shares_too() -> None:
    before = Partition([Region(["a"], 5, 4), Region(["a", "b"], 7, 8)])
    plan, state = Arq().decide(observed([lc("a", 5.0)], before), after(before))
    assert [(region.owners, region.cores, region.ways) for region in plan.partition.regions] == [(["a"], 12, 12)]
    again, _ = Arq().decide(observed([lc("a", 5.0), lc("c", None)], plan.partition, time_s=11.0), state)
    assert isolated(again.partition, "a") == (0, 0)


def test_who_owns_and_shares_needs_one_cache_group() -> None:
    three = replace(PLATFORM, max_groups=3)  # one of them is the group of everybody else
    pair = [lc("a", 5.0), lc("b", 5.0)]
    for services, fits in ((pair, True), ([*pair, be()], False)):
        observation = replace(observed(services, None), platform=three)
        plan, _ = Arq().decide(observation, Arq().initial(observation, 0))
        assert any("need one cache group each" in reason.text for reason in plan.reasons) is not fits


def test_nothing_moves_between_the_only_sharer_and_the_region_it_shares_with_nobody() -> None:
    limited = lc("b", 5.0, max_cores=4, max_ways=4)
    partition = Partition([Region(["b"], 4, 4), Region(["a"], 8, 8)])
    plan, _ = Arq().decide(observed([lc("a", 9.8), limited], partition), after(partition))
    assert not any(
        reason.change for reason in plan.reasons if reason.service == "a" and "from the shared region" in reason.text
    )
