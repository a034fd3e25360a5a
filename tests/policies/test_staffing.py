"""The policies `staffing` and `staffing:climb`: the square-root rule, equal ways, and ways that climb."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.decide.decide import decide_by
from osml.decide.state import seal_state
from osml.domain import Counters, Latency, Observation, Outcome, Partition, Platform, Region, Service, partition_error
from osml.policies.staffing import Extra, Move, Staffing, StaffingClimb, StaffingState, needed
from tests.kit.strategies import platforms, tenants

PLATFORM = Platform(id="p", cores=36, cpus="0-35", ways=20, max_groups=16)
JOB = Service(name="job", kind="be")
POLICIES = (Staffing(), StaffingClimb())


def service(name: str, cpus: float | None = 4.0, ratio: float = 0.5, rate: float | None = 100.0, **limits: int):
    latency = Latency(p99_ms=10.0 * ratio, requests_per_s=rate)
    counters = Counters(cpu_usage_cores=cpus)
    return Service(name=name, kind="lc", target_ms=10.0, latency=latency, counters=counters, **limits)


class Loop:
    """A policy whose every plan is applied."""

    def __init__(self, policy: Staffing, platform: Platform = PLATFORM) -> None:
        self.policy, self.platform = policy, platform
        self.partition: Partition | None = None
        self.state: StaffingState | None = None
        self.outcome: Outcome | None = None
        self.time_s = 0.0

    def observed(self, *services: Service) -> Observation:
        seen = Observation("n", 1, self.time_s, 1.0, self.platform, list(services), partition=self.partition)
        return replace(seen, outcome=self.outcome)

    def step(self, *services: Service) -> Partition:
        self.time_s += 1.0
        observed = self.observed(*services)
        state = self.policy.initial(observed, 0) if self.state is None else self.state
        self.plan, self.state = self.policy.decide(observed, state)
        assert self.policy.decide(observed, state) == (self.plan, self.state)
        self.partition = self.plan.partition
        assert partition_error(self.partition, self.platform, [s.name for s in services]) is None
        return self.partition


@pytest.mark.parametrize(("cpus", "quantum", "units"), [(0.0, 1.0, 1), (4.0, 1.0, 7), (4.2, 1.0, 8), (0.25, 0.1, 18)])
def test_cores_follow_the_square_root_rule_in_units_of_the_platform(cpus: float, quantum: float, units: int) -> None:
    assert needed(cpus, quantum) == units


def test_services_have_equal_ways_and_jobs_two_and_the_cores_that_are_left() -> None:
    found = Loop(Staffing()).step(service("a", 4.0), service("b", 9.0), JOB)
    assert found.regions == [Region(["a"], 7, 9), Region(["b"], 13, 9), Region(["job"], 16, 2)]


def test_a_missed_target_adds_a_unit_that_is_kept_until_the_load_falls() -> None:
    loop = Loop(Staffing())
    assert loop.step(service("a")).cores_of("a") == 7
    assert loop.step(service("a", ratio=1.2)).cores_of("a") == 8
    assert [loop.step(service("a")).cores_of("a") for _ in range(10)] == [8] * 10
    assert [loop.step(service("a", 2.0, rate=50.0)).cores_of("a") for _ in range(5)][-1] == 5


def test_a_miss_without_the_wanted_cores_adds_nothing_on_top() -> None:
    shared = Loop(Staffing(), replace(PLATFORM, cores=2, cpus="0-1"))
    for _ in range(50):
        shared.step(service("a", ratio=1.2), service("b"), service("c"))
    assert shared.state is not None
    assert shared.state.extra == {}, "they share two cores"
    refused = Loop(Staffing())
    applied = refused.step(service("a", 1.0), service("b", 1.0))
    for _ in range(50):
        refused.partition, refused.outcome = applied, Outcome(1, "refused", "max_core_step")
        refused.step(service("a", 9.0, ratio=1.2), service("b", 1.0))
    assert refused.state is not None
    assert refused.state.extra["a"].units == 1, "that of the first miss: the cores that it wanted then never came"


def test_a_miss_on_the_way_to_the_wanted_cores_adds_nothing_on_top() -> None:
    loop = Loop(Staffing())
    applied = loop.step(service("a", 1.0), service("b", 1.0))
    for _ in range(40):
        loop.partition = applied
        enough = applied.cores_of("a") >= 15
        after = loop.step(service("a", 9.0, ratio=0.5 if enough else 1.2), service("b", 1.0))
        far = max(abs(after.cores_of(name) - applied.cores_of(name)) for name in "ab")
        loop.outcome = Outcome(1, "applied" if far <= 1 else "refused", "max_core_step")
        applied = after if far <= 1 else applied
    assert loop.state is not None
    assert applied.cores_of("a") == 15
    assert loop.state.extra["a"].units == 2


def test_ways_take_smaller_steps_after_a_refusal_and_a_newcomer_takes_what_they_leave() -> None:
    loop = Loop(Staffing())
    before = loop.step(service("a"), service("b"))
    assert [before.ways_of(name) for name in "ab"] == [10, 10]
    refusals = 0
    for _ in range(20):
        loop.partition = None  # somebody came, so nobody knows of a partition for all
        after = loop.step(service("a"), service("b"), service("c"))
        if all(abs(after.ways_of(name) - before.ways_of(name)) <= 2 for name in "ab"):
            break
        refusals, loop.outcome = refusals + 1, Outcome(1, "refused", "max_way_step")
    assert refusals == 1
    assert [after.ways_of(name) for name in "abc"] == [9, 9, 2]
    loop.outcome = None
    for _ in range(9):
        loop.partition = after
        after = loop.step(service("a"), service("b"), service("c"))
    assert sorted(after.ways_of(name) for name in "abc") == [6, 7, 7]


def test_without_a_request_rate_the_cpu_time_says_whether_the_load_has_fallen() -> None:
    loop = Loop(Staffing())
    loop.step(service("a", ratio=1.2, rate=None))
    assert loop.step(service("a", rate=None)).cores_of("a") == 8
    assert [loop.step(service("a", 1.0, rate=None)).cores_of("a") for _ in range(6)][-1] == needed(1.0, 1.0)


def test_a_small_change_of_cpu_time_moves_no_core() -> None:
    loop = Loop(Staffing())
    before = loop.step(service("a", 4.3)).cores_of("a")
    assert {loop.step(service("a", cpus)).cores_of("a") for cpus in (4.0, 4.2, 3.9, 4.1)} == {before}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_step_that_the_agent_refuses_is_halved_until_it_is_small_enough(policy: Staffing) -> None:
    """Limits of two cores a step; the use of `a` rises from 4 to 12 CPUs and falls again."""
    loop, seen = Loop(policy), []
    loop.step(service("a", 4.0), service("b", 4.0), JOB)
    for cpus in [12.0] * 25 + [4.0] * 25:
        before, refused = loop.partition, loop.outcome is not None and loop.outcome.status == "refused"
        after = loop.step(service("a", cpus), service("b", 4.0), JOB)
        assert any("not applied (refused: max_core_step 2)" in one.text for one in loop.plan.reasons) is refused
        too_much = abs(after.cores_of("a") - before.cores_of("a")) > 2
        loop.outcome = Outcome(1, "refused" if too_much else "applied", "max_core_step 2")
        loop.partition = before if too_much else after
        seen.append(loop.partition.cores_of("a"))
    assert seen[24] == needed(12.0, 1.0)
    assert seen[-1] == needed(4.0, 1.0)
    assert loop.state is not None and loop.state.halvings == 0


def test_what_does_not_fit_is_scaled_down_in_proportion() -> None:
    found = Loop(Staffing()).step(service("a", 10.0), service("b", 20.0), service("c", 30.0), JOB)
    assert [found.cores_of(name) for name in "abc"] == [7, 12, 16]
    assert found.cores_of("job") == 1


def test_a_service_without_cpu_time_keeps_what_it_has() -> None:
    loop = Loop(Staffing())
    loop.partition = Partition([Region(["a"], 5, 9), Region(["job"], 31, 2)])
    assert loop.step(service("a", None), JOB).cores_of("a") == 5
    assert Loop(Staffing()).step(service("a", None), JOB).cores_of("a") == 35  # nothing is applied: an equal part


def test_the_operators_limits_bound_every_part() -> None:
    limited = service("a", 9.0, max_cores=6, max_ways=3)
    greedy = service("b", 0.0, min_cores=8, min_ways=5)
    found = Loop(Staffing()).step(limited, greedy, replace(JOB, max_cores=4, min_ways=3))
    assert (found.cores_of("a"), found.ways_of("a")) == (6, 3)
    assert (found.cores_of("b"), found.ways_of("b")) == (8, 14)
    assert (found.cores_of("job"), found.ways_of("job")) == (4, 3)


def test_with_too_few_cache_groups_services_share_the_ways_and_keep_their_cores() -> None:
    loop = Loop(Staffing(), replace(PLATFORM, max_groups=4))
    found = loop.step(service("a"), service("b"), service("c"), JOB)
    assert [found.cores_of(name) for name in "abc"] == [7, 7, 7]
    assert Region(["a", "b", "c"], 0, 18) in found.regions
    assert found.ways_of("job") == 2
    assert loop.plan.infeasible is not None
    assert "only 3 are free; LC services share the ways" in loop.plan.infeasible.message


def test_with_too_few_cores_services_share_all_but_the_jobs_core() -> None:
    loop = Loop(Staffing(), Platform(id="p", cores=3, cpus="0-2"))
    found = loop.step(service("a"), service("b"), service("c"), JOB)
    assert found.regions == [Region(["a", "b", "c"], 2), Region(["job"], 1)]
    assert loop.plan.infeasible is not None


def test_a_way_climbs_from_the_largest_slack_to_the_worst_tail_and_comes_back_where_that_is_no_help() -> None:
    loop = Loop(StaffingClimb())
    seen: list[int] = []
    for _ in range(12):
        found = loop.step(service("a", ratio=1.5), service("b", ratio=0.2), service("c", ratio=0.6))
        seen.append(found.ways_of("a"))
    assert seen[:4] == [7] * 4
    assert 8 in seen
    assert seen[-1] == 7  # the tail stayed the same
    assert loop.state is not None
    assert "b" in loop.state.passed_s
    helped = Loop(StaffingClimb())
    for step in range(30):
        ratio = 1.5 - 0.1 * step
        found = helped.step(service("a", ratio=max(ratio, 0.5)), service("b", ratio=0.2))
    assert found.ways_of("a") > 10 > found.ways_of("b")


def test_without_missed_targets_no_way_moves_and_staffing_never_moves_one() -> None:
    for policy, ratio in ((StaffingClimb(), 0.8), (Staffing(), 1.5)):
        loop = Loop(policy)
        found = {str(loop.step(service("a", ratio=ratio), service("b", ratio=0.2)).ways_of("a")) for _ in range(15)}
        assert found == {"10"}


def test_the_state_does_not_grow() -> None:
    for policy in POLICIES:
        loop = Loop(policy)
        sizes = []
        for step in range(300):
            names = [f"s{(step // 20 + k) % 40}" for k in range(6)]
            loop.step(*(service(name, ratio=1.0 + (k - 2) / 4.0) for k, name in enumerate(names)), JOB)
            sizes.append(len(seal_state(policy, loop.state)))
        assert max(sizes[150:]) <= 1.05 * max(sizes[:150])


counters = st.builds(
    Counters, cpu_usage_cores=st.one_of(st.none(), st.floats(0, 100), st.sampled_from([0.0, 1e308, math.nan]))
)
latencies = st.builds(
    Latency, p99_ms=st.one_of(st.none(), st.floats(0, 1e5)), requests_per_s=st.one_of(st.none(), st.floats(0, 1e9))
)
ODD = (0.0, -1.0, 1.0, 1e308, -1e308, math.inf, -math.inf, math.nan)


def damaged(state: StaffingState, names: list[str], rng: random.Random) -> StaffingState:
    def odd() -> float:
        return rng.choice(ODD)

    name, other = rng.choice(names), rng.choice([*names, "gone"])
    return rng.choice(
        [
            replace(state, usage={name: [odd() for _ in range(9)]}, rates={other: [odd()]}),
            replace(state, tails={one: [odd() for _ in range(9)] for one in names}, since_s=odd()),
            replace(state, extra={name: Extra(rng.choice([-9, 0, 2**40]), odd(), rng.random() < 0.5)}),
            replace(state, ways={one: rng.choice([-3, 0, 1, 5, 10**6]) for one in [*names, other]}),
            replace(state, move=Move(name, other, odd()), taker=other, passed_s={other: odd()}, since_s=odd()),
            replace(state, wanted=Partition([Region([name, "gone"], 10**6, 10**6)])),
        ]
    )


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(POLICIES), platforms, st.data())
def test_every_plan_is_legal_whatever_is_measured_and_whatever_happened_to_the_state(
    policy: Staffing, platform: Platform, data: st.DataObject
) -> None:
    rng = random.Random(data.draw(st.integers(0, 1000)))
    state, partition, time_s = None, None, 0.0
    for seq in range(data.draw(st.integers(1, 8))):
        time_s += data.draw(st.floats(0.1, 40.0))
        services = [
            replace(
                one, counters=data.draw(counters), **({"latency": data.draw(latencies)} if one.kind == "lc" else {})
            )
            for one in data.draw(tenants())
        ]
        observed = Observation("n", seq, time_s, 1.0, platform, services, partition=partition)
        state = policy.initial(observed, 0) if state is None else state
        if rng.random() < 0.5:
            state = damaged(state, [one.name for one in services], rng)
        plan, after = policy.decide(observed, state)
        assert policy.decide(observed, state) == (plan, after)
        assert partition_error(plan.partition, platform, [one.name for one in services]) is None
        assert plan.reasons[0].text
        state, partition = after, data.draw(st.sampled_from([plan.partition, None]))


def test_the_front_door_lays_out_what_they_plan() -> None:
    for policy in POLICIES:
        decision = decide_by(policy, Observation("n", 1, 1.0, 1.0, PLATFORM, [service("a"), service("b"), JOB]))
        assert {a.service for a in decision.assignments} == {"a", "b", "job"}
