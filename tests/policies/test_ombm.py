"""The policy `ombm`: what it gives for what it sees, and what it says where it can't work."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.bandwidth import Correction, Line, Point, Profile, ProfileLibrary
from osml.decide.decide import decide, decide_by
from osml.decide.state import seal_state
from osml.domain import Latency, MbaRange, Observation, Partition, Platform, Region, Service, partition_error
from osml.policies.ombm import Ombm, OmbmClassic, OmbmState

NODE = Platform(
    id="p", cores=4, cpus="0-3", ways=16, max_groups=16, bandwidth_gbps=20.0, mba=MbaRange(100, 20_000, 100, "mbps")
)
LINES = [Line(2.0, [Point(100.0, 100.0), Point(1000.0, 1000.0)]), Line(18.0, [Point(100.0, 10.0), Point(1000.0, 20.0)])]
PROFILE = Profile("web", "p", "classic", "p99", 1, 8, 20.0, LINES, simulated=True)
LIBRARY = ProfileLibrary([PROFILE, replace(PROFILE, method="adaptive")])
JOBS = [Service(name="sort", kind="be"), Service(name="zip", kind="be")]


def web(qps: float | None = 500.0, p99_ms: float | None = 15.0, **changes: object) -> Service:
    latency = Latency(p99_ms=p99_ms, requests_per_s=qps)
    return replace(Service(name="web", kind="lc", target_ms=100.0, latency=latency), **changes)


def seeing(services: list[Service], platform: Platform = NODE, **more: object) -> Observation:
    return Observation("n", 0, 10.0, 1.0, platform, services, **more)


def given_gbps(plan, name: str = "web") -> float:
    return plan.partition.mba[name] / 1e3


def test_the_service_gets_its_profiles_cores_and_ways_and_the_jobs_share_the_rest():
    plan, _ = Ombm(LIBRARY).decide(seeing([web(), *JOBS]), OmbmState())
    partition = plan.partition
    assert (partition.cores_of("web"), partition.ways_of("web")) == (1, 8)
    assert (partition.cores_of("sort"), partition.ways_of("zip")) == (3, 8)
    assert plan.infeasible is None


def test_classic_gives_what_the_second_graph_says_and_the_rest_to_the_jobs_in_equal_parts():
    plan, _ = OmbmClassic(LIBRARY).decide(seeing([web(550.0), *JOBS]), OmbmState())
    # At 550/s the lines are at 550 and 15 ms: 100 ms are at 2 + 16 * 450/535 GB/s.
    assert given_gbps(plan) == pytest.approx(2.0 + 16.0 * 450.0 / 535.0, abs=0.15)
    assert given_gbps(plan, "sort") == given_gbps(plan, "zip")
    total = given_gbps(plan) + 2 * given_gbps(plan, "sort")
    assert 19.7 <= total <= 20.0


def test_percentages_are_rounded_up_for_the_service_and_down_for_the_jobs():
    percent = replace(NODE, mba=MbaRange(10, 100, 10))
    plan, _ = OmbmClassic(LIBRARY).decide(seeing([web(550.0), *JOBS], percent), OmbmState())
    assert plan.partition.mba == {"web": 80, "sort": 10, "zip": 10}


def test_a_job_is_never_throttled_to_nothing():
    """The smallest throttle of some machines is 0, which the agent can't read as a throttle."""
    eighths = replace(NODE, mba=MbaRange(0, 160, 1, "eighth_gbps"))
    jobs = [Service(name=f"job{n}", kind="be") for n in range(4)]
    plan, _ = OmbmClassic(LIBRARY).decide(seeing([web(990.0, 500.0), *jobs], eighths), OmbmState())
    assert min(plan.partition.mba.values()) >= 1


def test_a_rising_rate_gets_more_and_a_growing_rate_more_than_the_rate_itself():
    policy = Ombm(LIBRARY)
    _, first = policy.decide(seeing([web(300.0), *JOBS]), OmbmState())
    steady, _ = policy.decide(seeing([web(300.0), *JOBS]), first)
    grown, _ = policy.decide(seeing([web(400.0), *JOBS]), first)
    _, before = policy.decide(seeing([web(400.0), *JOBS]), OmbmState())
    settled, _ = policy.decide(seeing([web(400.0), *JOBS]), before)
    assert given_gbps(steady) < given_gbps(settled) < given_gbps(grown)


def test_a_backlog_gets_the_bandwidth_of_the_highest_rate_and_beyond_the_target_all_until_it_is_gone():
    policy = Ombm(LIBRARY)
    _, state = policy.decide(seeing([web(), *JOBS]), OmbmState())
    plan, state = policy.decide(seeing([web(300.0, 90.0), *JOBS]), state)
    assert state.draining
    # At 1000/s the lines are at 1000 and 20 ms: 100 ms are at 2 + 16 * 900/980 GB/s.
    assert given_gbps(plan) == pytest.approx(2.0 + 16.0 * 900.0 / 980.0, abs=0.15)
    plan, state = policy.decide(seeing([web(900.0, 110.0), *JOBS]), state)
    assert given_gbps(plan) == pytest.approx(19.6)
    plan, state = policy.decide(seeing([web(900.0, 80.0), *JOBS]), state)
    assert state.draining and given_gbps(plan) < 19.0
    plan, state = policy.decide(seeing([web(500.0, 15.0), *JOBS]), state)
    assert not state.draining
    assert given_gbps(plan) < 16.0


def test_classic_gives_all_bandwidth_beyond_the_target_until_it_is_met():
    policy = OmbmClassic(LIBRARY)
    _, state = policy.decide(seeing([web(), *JOBS]), OmbmState())
    plan, state = policy.decide(seeing([web(300.0, 90.0), *JOBS]), state)
    assert not state.draining
    plan, state = policy.decide(seeing([web(300.0, 110.0), *JOBS]), state)
    assert state.draining and given_gbps(plan) == pytest.approx(19.6)


def test_a_queue_that_is_there_at_the_start_hides_the_rate():
    plan, state = Ombm(LIBRARY).decide(seeing([web(120.0, 90.0), *JOBS]), OmbmState())
    calm, _ = Ombm(LIBRARY).decide(seeing([web(120.0), *JOBS]), OmbmState())
    assert state.draining and given_gbps(plan) > 2.0 * given_gbps(calm)
    believing, classic = OmbmClassic(LIBRARY).decide(seeing([web(120.0, 90.0), *JOBS]), OmbmState())
    assert not classic.draining and given_gbps(believing) < given_gbps(plan)


def test_completions_behind_a_queue_are_not_taken_for_a_falling_rate():
    policy = Ombm(LIBRARY)
    _, state = policy.decide(seeing([web(600.0, target_ms=1000.0), *JOBS]), OmbmState())
    _, queued = policy.decide(seeing([web(300.0, 200.0, target_ms=1000.0), *JOBS]), state)
    _, fallen = policy.decide(seeing([web(300.0, 15.0, target_ms=1000.0), *JOBS]), state)
    assert (queued.qps, queued.draining) == (600.0, False)
    assert fallen.qps == 300.0


def jumped(policy: Ombm, *, before: float, rate: float) -> OmbmState:
    """The state after a jump whose backlog has drained."""
    state, partition = OmbmState(), None
    for qps, tail_ms in ((before, 15.0), (before, 15.0), (300.0, 900.0), (900.0, 80.0), (rate, 15.0), (before, 15.0)):
        seen = seeing([web(qps, tail_ms), *JOBS], partition=partition)
        plan, state = policy.decide(seen, state)
        partition = plan.partition
    return state


def test_after_a_jump_the_service_is_ready_for_the_next_one_and_says_so():
    policy = Ombm(LIBRARY)
    calm, _ = policy.decide(seeing([web(150.0), *JOBS]), OmbmState())
    plan, state = policy.decide(seeing([web(150.0), *JOBS]), jumped(policy, before=150.0, rate=800.0))
    assert given_gbps(plan) > given_gbps(calm)
    assert any("because the rate jumps" in reason.text for reason in plan.reasons)
    assert state.waiting


def test_a_jump_is_not_laid_to_the_correction_and_a_backlog_at_the_same_rate_is():
    policy = Ombm(LIBRARY)
    assert jumped(policy, before=150.0, rate=800.0).correction.factors == [1.0] * 8
    assert max(jumped(policy, before=150.0, rate=160.0).correction.factors) > 1.0


def test_the_classic_version_is_never_ready_for_a_jump():
    state = jumped(OmbmClassic(LIBRARY), before=150.0, rate=800.0)
    assert state.jumps == OmbmState().jumps and not state.waiting


def test_what_is_learned_is_forgotten_when_the_jobs_change():
    policy = Ombm(LIBRARY)
    plan, state = policy.decide(seeing([web(), *JOBS]), OmbmState())
    for _ in range(30):
        plan, state = policy.decide(seeing([web(), *JOBS], partition=plan.partition), state)
    fresh, _ = policy.decide(seeing([web(), *JOBS]), OmbmState())
    assert given_gbps(plan) < 0.8 * given_gbps(fresh)
    other = [JOBS[0], Service(name="index", kind="be")]
    plan, state = policy.decide(seeing([web(), *other], partition=plan.partition), state)
    assert given_gbps(plan) >= given_gbps(fresh)


def test_nothing_is_learned_from_a_decision_that_is_not_on_the_machine():
    policy = Ombm(LIBRARY)
    _, state = policy.decide(seeing([web(), *JOBS]), OmbmState())
    for partition in (None, Partition([Region(["web"], 1, 1)], {"web": 500})):
        kept = state
        for _ in range(30):
            _, kept = policy.decide(seeing([web(), *JOBS], partition=partition), kept)
        assert kept.correction == state.correction


def test_while_requests_queue_what_was_learned_to_be_enough_is_not_trusted():
    policy = Ombm(LIBRARY)
    fresh, state = policy.decide(seeing([web(target_ms=300.0), *JOBS]), OmbmState())
    plan = fresh
    for _ in range(30):
        plan, state = policy.decide(seeing([web(target_ms=300.0), *JOBS], partition=plan.partition), state)
    assert given_gbps(plan) < 0.8 * given_gbps(fresh)
    queue, state = policy.decide(seeing([web(500.0, 100.0, target_ms=300.0), *JOBS], partition=plan.partition), state)
    assert state.queued and not state.draining
    assert given_gbps(queue) == pytest.approx(given_gbps(fresh), abs=0.2)
    calm, _ = policy.decide(seeing([web(target_ms=300.0), *JOBS], partition=queue.partition), state)
    assert given_gbps(calm) == pytest.approx(given_gbps(plan), abs=0.2)


def test_nothing_below_the_least_profiled_bandwidth_is_tried():
    policy = Ombm(LIBRARY)
    plan, state = policy.decide(seeing([web(100.0, 12.0), *JOBS]), OmbmState())
    assert given_gbps(plan) == pytest.approx(2.0, abs=0.6)
    for _ in range(100):
        plan, state = policy.decide(seeing([web(100.0, 12.0), *JOBS], partition=plan.partition), state)
    assert given_gbps(plan) == pytest.approx(2.0)


def test_classic_learns_nothing():
    policy, state = OmbmClassic(LIBRARY), OmbmState()
    plans = []
    for _ in range(10):
        plan, state = policy.decide(seeing([web(), *JOBS]), state)
        plans.append(plan.partition)
    assert all(partition == plans[0] for partition in plans)


def test_a_missing_measurement_holds_the_bandwidth():
    policy = Ombm(LIBRARY)
    first, state = policy.decide(seeing([web(), *JOBS]), OmbmState())
    silent, _ = policy.decide(seeing([web(None, None), *JOBS]), state)
    assert silent.partition == first.partition
    start, _ = policy.decide(seeing([web(None, None), *JOBS]), OmbmState())
    assert given_gbps(start) == pytest.approx(19.6)
    assert start.infeasible is None


def test_without_jobs_everything_is_the_services():
    plan, _ = Ombm(LIBRARY).decide(seeing([web()]), OmbmState())
    assert plan.partition.mba == {"web": 20_000}


def test_a_rate_far_beyond_the_profile_gets_everything_and_says_so():
    plan, _ = Ombm(LIBRARY).decide(seeing([web(5000.0), *JOBS]), OmbmState())
    assert given_gbps(plan) == pytest.approx(19.6)
    assert plan.infeasible is not None
    assert "the rate is above the profile" in plan.infeasible.message


def test_profiled_cores_are_given_in_the_units_of_the_platform():
    slices = replace(NODE, cores=40, core_quantum=0.1)
    plan, _ = Ombm(LIBRARY).decide(seeing([web(), *JOBS], slices), OmbmState())
    assert (plan.partition.cores_of("web"), plan.partition.cores_of("zip")) == (10, 30)
    halves = ProfileLibrary([replace(PROFILE, method="adaptive", cores=3, core_quantum=0.5)])
    plan, _ = Ombm(halves).decide(seeing([web(), *JOBS], slices), OmbmState())
    assert plan.partition.cores_of("web") == 15


@pytest.mark.parametrize(
    ("services", "platform", "sentence"),
    [
        ([web(), web(name="shop"), *JOBS], NODE, "there are 2 LC services"),
        (JOBS, NODE, "there are 0 LC services"),
        ([web(), *JOBS], replace(NODE, mba=None), "no software regulator"),
        ([web(), *JOBS], replace(NODE, id="q"), "no bandwidth profile of 'web' on 'q' (there are profiles for p)"),
        ([web(name="shop"), *JOBS], NODE, "no platform has one"),
        ([web(), *JOBS], replace(NODE, bandwidth_gbps=None, mba=MbaRange(10, 100, 10)), "run calibrate-mba"),
        ([web(percentile="p50"), *JOBS], NODE, "for its p99, but its target is for p50; make one"),
        ([web(), *JOBS], replace(NODE, cores=9, core_quantum=0.1), "9 cores for 'web' leave 0, but the jobs need 1"),
        ([web(min_cores=3, max_cores=3), replace(JOBS[0], min_cores=2)], NODE, "the jobs need 2"),
    ],
)
def test_where_it_can_not_work_everybody_gets_equal_parts_and_the_reason(services, platform, sentence):
    plan, _ = Ombm(LIBRARY).decide(seeing(services, platform), OmbmState())
    assert plan.infeasible is not None
    assert sentence in plan.infeasible.message
    assert sentence in plan.reasons[0].text
    assert plan.partition.cores > 0
    assert plan.partition.mba == {}


def test_the_agents_reason_for_missing_mba_is_passed_on():
    seen = seeing([web(), *JOBS], replace(NODE, mba=None), missing={"mba": "resctrl is not mounted"})
    plan, _ = Ombm(LIBRARY).decide(seen, OmbmState())
    assert "resctrl is not mounted" in plan.reasons[0].text


def test_an_unknown_platform_bandwidth_comes_from_the_range_of_the_throttle():
    unknown = replace(NODE, bandwidth_gbps=None)
    ours, _ = Ombm(LIBRARY).decide(seeing([web(), *JOBS], unknown), OmbmState())
    known, _ = Ombm(LIBRARY).decide(seeing([web(), *JOBS]), OmbmState())
    assert ours.partition == known.partition


def test_the_state_travels_in_the_decision_and_comes_back():
    first = decide_by(Ombm(LIBRARY), seeing([web(), *JOBS]))
    again = decide_by(Ombm(LIBRARY), seeing([web(), *JOBS], policy_state=first.policy_state))
    assert again.partition.mba["web"] <= first.partition.mba["web"]
    assert decide(seeing([web(), *JOBS], policy="ombm")).policy == "ombm"


ranges = st.sampled_from(
    [
        MbaRange(10, 100, 10),
        MbaRange(100, 20_000, 100, "mbps"),
        MbaRange(5000, 18_000, 0, "mbps"),
        MbaRange(1, 160, 1, "eighth_gbps"),
    ]
)
intervals = st.tuples(
    st.one_of(st.none(), st.floats(0, 5000)), st.one_of(st.none(), st.floats(0, 1e5)), st.integers(0, 3), st.booleans()
)


@settings(max_examples=150, deadline=None)
@given(
    ranges, st.integers(2, 12), st.one_of(st.none(), st.integers(2, 20)), st.lists(intervals, min_size=1, max_size=12)
)
def test_every_decision_is_legal_and_gives_no_more_than_there_is(mba, cores, ways, history):
    platform = replace(NODE, cores=cores, cpus=f"0-{cores - 1}", ways=ways, mba=mba)
    policy, state, partition = Ombm(LIBRARY), None, None
    for qps, p99_ms, n_jobs, applied in history:
        jobs = [Service(name=f"job{i}", kind="be") for i in range(n_jobs)]
        services = [web(qps, p99_ms), *jobs]
        decision = decide_by(policy, seeing(services, platform, policy_state=state, partition=partition))
        assert partition_error(decision.partition, platform, [service.name for service in services]) is None
        assert decision.reasons
        throttles = decision.partition.mba
        assert all(mba.min <= value <= mba.max for value in throttles.values())
        if throttles and n_jobs:
            per_gbps = {"percent": 5.0, "mbps": 1000.0, "eighth_gbps": 8.0}[mba.unit]
            surplus = sum(throttles.values()) / per_gbps - platform.bandwidth_gbps
            assert surplus <= 1e-6 or min(throttles.values()) == mba.min
        state, partition = decision.policy_state, decision.partition if applied else None


@pytest.mark.parametrize(
    "damaged",
    [
        OmbmState(correction=Correction(factors=[1.0] * 3)),
        OmbmState(correction=Correction(factors=[float("nan")] * 8)),
        OmbmState(correction=Correction(floors=[])),
        OmbmState(correction=Correction(part=99)),
        OmbmState(qps=float("nan")),
        OmbmState(growth_qps=float("inf")),
    ],
)
def test_a_state_that_no_decision_can_have_left_is_discarded(damaged: OmbmState):
    policy = Ombm(LIBRARY)
    state = seal_state(policy, replace(damaged, jobs=["sort", "zip"]))
    decision = decide_by(policy, seeing([web(), *JOBS], policy_state=state))
    assert "the state of 'ombm' cannot be read and is discarded" in decision.reasons[0].text
    assert decision.partition == decide_by(policy, seeing([web(), *JOBS])).partition
