"""The rules of Heracles (ISCA 2015, section 4), with several LC services as in PARTIES' comparison, one by one."""

import pytest
from msgspec.structs import replace

from osml.decide.decide import decide
from osml.decide.state import open_state, seal_state
from osml.domain import Counters, KnobRange, Knobs, Latency, Observation, Partition, Platform, Region, Service
from osml.policies.heracles import Heracles
from osml.policies.heracles.working_plan import Growth, HeraclesState, TooMuch
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.mix import node_of, parse_mix
from osml.simulator.node_platform import KNOBS

PLATFORM = Platform(
    id="p",
    cores=20,
    cpus="0-19",
    ways=20,
    bandwidth_gbps=100.0,
    frequency_ghz=2.0,
    frequency_mhz=KnobRange(1200, 3000, 100),
    network_mbps=KnobRange(500, 10_000, 500),
)
NEVER = {"top": 1e9, "grow": 1e9, "power": 1e9, "network": 1e9}


def lc(name: str, p99_ms: float | None, target_ms: float = 10.0, **counters: float) -> Service:
    latency = Latency(p99_ms=p99_ms, requests_per_s=500.0)
    return Service(name=name, kind="lc", target_ms=target_ms, latency=latency, counters=Counters(**counters))


def be(**counters: float) -> Service:
    return Service(name="job", kind="be", counters=Counters(**counters))


def observed(services: list[Service], partition: Partition | None, time_s: float = 100.0) -> Observation:
    return Observation("n", 1, time_s, 0.5, PLATFORM, services, partition=partition)


def parts(cores: int, ways: int, rest: tuple[str, ...] = ("b", "job"), **knobs: Knobs) -> Partition:
    own, shared = Region(["a"], cores, ways), Region(list(rest), 20 - cores, 20 - ways)
    return Partition([own, shared], knobs=knobs)


def after(partition: Partition, *due: str, **more: object) -> HeraclesState:
    """A state in which only these controllers are due."""
    due_s = {name: time_s for name, time_s in NEVER.items() if name not in due}
    return HeraclesState(lc="a", wanted=partition, time_s=99.5, due_s=due_s, **more)


def step(
    services: list[Service], partition: Partition, state: HeraclesState, **peak: float
) -> tuple[Partition, HeraclesState, str]:
    plan, state = Heracles(peak).decide(observed(services, partition), state)
    return plan.partition, state, "; ".join(reason.text for reason in plan.reasons)


def own(partition: Partition) -> tuple[int, int]:
    return partition.cores_of("a"), partition.ways_of("a")


START = parts(19, 18)
MIX = [lc("a", 5.0), lc("b", 15.0, target_ms=20.0), be()]


def test_the_strictest_target_is_the_service_and_all_others_share_one_core_and_a_tenth_of_the_cache() -> None:
    observation = observed(MIX, None)
    plan, _ = Heracles().decide(observation, Heracles().initial(observation, 0))
    assert plan.partition.regions == START.regions
    assert "a has the strictest target" in plan.reasons[-1].text


def test_a_missed_target_suspends_the_others_for_five_minutes() -> None:
    now = parts(10, 10)
    found, state, text = step([lc("a", 12.0), *MIX[1:]], now, after(now, "top"))
    assert own(found) == (19, 19)
    assert found.knobs["b"] == Knobs(frequency_mhz=1200, network_mbps=500)
    assert "the target is missed: be:b,job is suspended for 300 s" in text
    assert (state.enabled, state.cooldown_until_s) == (False, 400.0)
    cool = replace(state, due_s={**NEVER, "top": 0.0}, time_s=398.0)
    plan, later = Heracles().decide(observed(MIX, found, 399.0), cool)
    assert own(plan.partition) == (19, 19)
    plan, later = Heracles().decide(observed(MIX, found, 414.0), replace(later, time_s=413.5))
    assert own(plan.partition) == (19, 18)
    assert later.enabled


def test_the_median_tail_of_fifteen_seconds_is_judged_not_that_of_one_interval() -> None:
    now = parts(10, 10)
    _, state, text = step([lc("a", 500.0), *MIX[1:]], now, after(now, "top", tails_ms=[5.0] * 16 + [90.0] * 13))
    assert state.enabled
    assert state.tails_ms == []
    assert "slack 0.50 over 15 s" in text
    _, state, _ = step(MIX, now, after(now, "top", tails_ms=[5.0] * 13 + [12.0] * 16))
    assert not state.enabled


@pytest.mark.parametrize(("peak", "enabled"), [(580.0, False), (610.0, True)])
def test_a_load_above_85_percent_suspends_the_others(peak: float, enabled: bool) -> None:
    now = parts(10, 10)
    _, state, _ = step(MIX, now, after(now, "top"), a=peak)
    assert state.enabled is enabled


@pytest.mark.parametrize(("peak", "enabled"), [(615.0, False), (640.0, True)])
def test_only_a_load_below_80_percent_lets_them_run_again(peak: float, enabled: bool) -> None:
    now = parts(19, 19)
    _, state, _ = step(MIX, now, after(now, "top", enabled=False), a=peak)
    assert state.enabled is enabled


def test_without_a_known_peak_the_load_is_the_share_of_cpu_time() -> None:
    now = parts(10, 10)
    _, state, text = step([lc("a", 5.0, cpu_usage_cores=17.5), *MIX[1:]], now, after(now, "top"))
    assert "load 0.88" in text
    assert not state.enabled


def test_little_slack_stops_growth_and_less_leaves_two_cores() -> None:
    now = parts(10, 10)
    found, state, _ = step([lc("a", 9.2), *MIX[1:]], now, after(now, "top", "grow"))
    assert own(found) == (10, 10)
    assert not state.growing
    found, _, text = step([lc("a", 9.6), *MIX[1:]], now, after(now, "top"))
    assert own(found) == (18, 10)
    assert "be:b,job loses 8 cores" in text


def test_cache_grows_until_memory_traffic_does_not_fall() -> None:
    services = [lc("a", 5.0, bandwidth_gbps=10.0), be(bandwidth_gbps=20.0, instructions=1e9)]
    now = parts(15, 15, rest=("job",))
    found, state, _ = step(services, now, after(now, "grow"))
    assert own(found) == (15, 14)
    assert state.growth == Growth("ways", 30.0, 1e9)
    better = [lc("a", 5.0, bandwidth_gbps=10.0), be(bandwidth_gbps=18.0, instructions=2e9)]
    again = replace(state, due_s={**NEVER, "grow": 0.0})
    assert own(step(better, found, again)[0]) == (15, 13)
    worse = [lc("a", 5.0, bandwidth_gbps=10.0), be(bandwidth_gbps=20.0, instructions=2e9)]
    back, state, text = step(worse, found, again)
    assert own(back) == (15, 15)
    assert state.phase == "cores"
    assert "did not fall" in text


def test_cache_without_a_benefit_ends_the_phase() -> None:
    services = [lc("a", 5.0, bandwidth_gbps=10.0), be(bandwidth_gbps=18.0, instructions=1e9)]
    now = parts(15, 14, rest=("job",))
    state = after(now, "grow", growth=Growth("ways", 30.0, 1e9))
    found, state, _ = step(services, now, state)
    assert own(found) == (14, 14)
    assert state.phase == "cores"


def test_cores_grow_with_slack_above_a_tenth_and_memory_traffic_to_spare() -> None:
    now = parts(15, 15, rest=("job",))
    calm = be(bandwidth_gbps=20.0, instructions=1e9)
    found, _, _ = step([lc("a", 8.9, bandwidth_gbps=10.0), calm], now, after(now, "grow", phase="cores"))
    assert own(found) == (14, 15)
    found, _, _ = step([lc("a", 9.1, bandwidth_gbps=10.0), calm], now, after(now, "grow", phase="cores"))
    assert own(found) == (15, 15)
    # 10 + 62 GB/s, 12.4 of them for each core: one more is above 0.90 * 0.85 * 100
    busy = be(bandwidth_gbps=62.0, instructions=1e9)
    found, state, _ = step([lc("a", 5.0, bandwidth_gbps=10.0), busy], now, after(now, "grow", phase="cores"))
    assert own(found) == (15, 15)
    assert state.phase == "ways"


def test_a_service_without_a_latency_loses_neither_cache_nor_cores() -> None:
    silent = lc("a", None)
    for phase in ("ways", "cores"):
        now = parts(15, 15, rest=("job",))
        found, state, _ = step([silent, be()], now, after(now, "top", "grow", phase=phase))
        assert own(found) == (15, 15)
        assert state.phase == phase


def test_too_much_memory_traffic_takes_the_cores_that_make_it() -> None:
    now = parts(10, 15, rest=("job",))
    services = [lc("a", 5.0, bandwidth_gbps=6.5), be(bandwidth_gbps=85.0)]  # 15 above 76.5, 8.5 a core
    found, _, text = step(services, now, after(now, "grow"))
    assert own(found) == (12, 15)
    assert "memory traffic of 91.5 GB/s is above the limit of 76.5 GB/s: be:job loses 2 cores" in text


@pytest.mark.parametrize("traffic", [{}, {"bandwidth_gbps": 0.0}, {"bandwidth_gbps": 1e-9}])
def test_too_much_memory_traffic_beside_idle_jobs_takes_all_their_cores_at_once(traffic: dict[str, float]) -> None:
    """The traffic is that of the service, so no number of cores of the jobs would be enough."""
    now = parts(10, 15, rest=("job",))
    services = [lc("a", 5.0, bandwidth_gbps=90.0), be(**traffic)]
    found, _, text = step(services, now, after(now, "grow"))
    if traffic:
        assert own(found)[0] > 12
        assert "be:job loses" in text
    else:  # not measured: neither is their sum
        assert "loses" not in text


def test_a_core_that_made_the_target_missed_comes_back_and_is_not_tried_again_for_five_minutes() -> None:
    now = parts(14, 15, rest=("job",))
    state = after(now, "grow", phase="cores", growth=Growth("cores", 30.0, 1e9))
    found, state, _ = step([lc("a", 30.0), be()], now, state)
    assert own(found) == (15, 15)
    assert state.too_much == {"cores": TooMuch(6, 400.0)}
    again = replace(state, due_s={**NEVER, "grow": 0.0})
    assert own(step([lc("a", 5.0), be()], found, again)[0]) == (15, 15)
    plan, _ = Heracles().decide(observed([lc("a", 5.0), be()], found, 401.0), again)
    assert own(plan.partition) == (14, 15)


def test_best_effort_slows_down_while_the_clock_is_below_the_guaranteed_one() -> None:
    now = parts(15, 15, job=Knobs(frequency_mhz=1500), b=Knobs(frequency_mhz=1500))
    slow = [lc("a", 5.0, frequency_ghz=1.9), *MIX[1:]]
    found, _, text = step(slow, now, after(now, "power"))
    assert {name: knobs.frequency_mhz for name, knobs in found.knobs.items()} == {"b": 1400, "job": 1400}
    assert "a runs at 1.90 GHz, below 2 GHz: be:b,job runs one step slower" in text
    fast = [lc("a", 5.0, frequency_ghz=2.0), *MIX[1:]]
    found, _, _ = step(fast, now, after(now, "power"))
    assert {name: knobs.frequency_mhz for name, knobs in found.knobs.items()} == {"b": 1600, "job": 1600}


@pytest.mark.parametrize(("sent_mbps", "share"), [(1000.0, 4250), (8000.0, 600), (9900.0, 500)])
def test_the_link_minus_the_service_and_a_reserve_is_what_best_effort_may_send(sent_mbps: float, share: int) -> None:
    now = parts(15, 15)
    found, _, _ = step([lc("a", 5.0, network_mbps=sent_mbps), *MIX[1:]], now, after(now, "network"))
    assert {name: knobs.network_mbps for name, knobs in found.knobs.items()} == {"b": share, "job": share}


def test_another_strictest_service_starts_anew_and_alone_it_has_everything() -> None:
    found, state, text = step([lc("c", 1.0, target_ms=5.0), lc("a", 5.0)], START, after(START))
    assert (found.cores_of("c"), found.cores_of("a")) == (19, 1)
    assert "c has the strictest target" in text
    assert state.lc == "c"
    found, _, _ = step([lc("a", 5.0)], START, after(START))
    assert own(found) == (20, 20)


def test_without_a_latency_critical_service_all_share_everything() -> None:
    plan, _ = Heracles().decide(observed([be()], None), HeraclesState())
    assert plan.partition.regions == [Region(["job"], 20, 20)]


def test_its_state_survives_the_way_to_the_agent_and_back() -> None:
    _, state, _ = step(MIX, START, after(START, "grow", too_much={"cores": TooMuch(6, 400.0)}))
    assert open_state(seal_state(Heracles(), state), Heracles()) == (state, None)


def test_on_the_virtual_node_a_job_gets_cores_until_the_slack_of_the_service_is_used_up() -> None:
    mix = parse_mix("moses=0.4,be:stream")
    run = ClosedLoop(node_of(mix, "e5-2699v4"), mix.loads, "heracles", interval_s=0.5, levers=KNOBS, delay_s=0.1)
    intervals = run.run(60)
    assert sum(i.tail_ms(0, "p99") <= 15.0 for i in intervals[-40:]) >= 38
    assert intervals[-1].decision is not None
    assert intervals[-1].decision.partition.cores_of("stream") >= 4


def test_through_the_front_door_it_is_legal_with_knobs() -> None:
    decision = decide(replace(observed(MIX, None), policy="heracles"))
    assert [a.service for a in decision.assignments] == ["a", "b", "job"]
