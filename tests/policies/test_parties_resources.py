"""PARTIES beyond cores and ways: frequency, memory, disk and network (section 4), rule by rule."""

from msgspec.structs import replace

from osml.allocation.holding import POOL
from osml.decide.decide import decide
from osml.decide.state import open_state, seal_state
from osml.domain import Counters, KnobRange, Knobs, Latency, Observation, Partition, Platform, Region, Service
from osml.policies.parties.memory import DiskTest
from osml.policies.parties.policy import Action, Parties, PartiesState, Trial

PLATFORM = Platform(
    id="p",
    cores=12,
    cpus="0-11",
    ways=12,
    frequency_ghz=2.2,
    frequency_mhz=KnobRange(1200, 3600, 100),
    memory_mib=KnobRange(1024, 60 * 1024, 1024),
    disk_iops=KnobRange(13, 256, 13),
    network_mbps=KnobRange(500, 10_000, 500),
)
READER, IN_MEMORY = DiskTest(0.0, True), DiskTest(0.0, False)


def lc(name: str, p99_ms: float | None, rss_gib: float | None = 15.0, **counters: float) -> Service:
    rss_mib = None if rss_gib is None else rss_gib * 1024
    counted = Counters(rss_mib=rss_mib, **counters)
    return Service(name=name, kind="lc", target_ms=10.0, latency=Latency(p99_ms=p99_ms), counters=counted)


JOB = Service(name="job", kind="be")


def knobs(gib: int, iops: int | None = 78, mbps: int = 3000, mhz: int | None = 2200) -> Knobs:
    return Knobs(frequency_mhz=mhz, memory_mib=gib * 1024, disk_iops=iops, network_mbps=mbps)


def parts(**given: Knobs) -> Partition:
    return Partition([Region([name], 4, 4) for name in given], knobs=given)


START = parts(a=knobs(20), b=knobs(20), job=knobs(20))


def observed(services: list[Service], partition: Partition | None, time_s: float = 10.0) -> Observation:
    return Observation("n", 1, time_s, 0.5, PLATFORM, services, partition=partition)


def decided(
    services: list[Service], partition: Partition = START, tests: dict[str, DiskTest] | None = None, **more: object
) -> tuple[Partition, PartiesState, str]:
    tests = dict.fromkeys(("a", "b", "job"), READER) | (tests or {})
    state = PartiesState(seed=1, wanted=partition, time_s=9.5, disk_tests=tests, **more)
    plan, state = Parties().decide(observed(services, partition), state)
    return plan.partition, state, "; ".join(reason.text for reason in plan.reasons)


def at(name: str, direction: str, resource: str) -> dict[str, Action]:
    return {name: Action(direction, resource)}


def gib(partition: Partition, name: str) -> float:
    return (partition.knobs[name].memory_mib or 0) / 1024


def test_the_fair_start_gives_equal_parts_of_everything_at_the_nominal_clock() -> None:
    observation = observed([lc("a", None), lc("b", None), JOB], None)
    plan, _ = Parties().decide(observation, Parties().initial(observation, 0))
    given = plan.partition.knobs
    assert {name: each.frequency_mhz for name, each in given.items()} == dict.fromkeys(("a", "b", "job"), 2200)
    assert {name: each.memory_mib for name, each in given.items()} == dict.fromkeys(("a", "b", "job"), 20 * 1024)
    assert [given[name].disk_iops for name in ("a", "b", "job")] == [91, 78, 78]
    assert [given[name].network_mbps for name in ("a", "b", "job")] == [3500, 3500, 3000]
    decision = decide(replace(observation, policy="parties"))
    assert decision.assignments[0].knobs == given["a"]


def test_one_step_above_nominal_is_turbo_and_nobody_pays_for_a_clock() -> None:
    services = [lc("a", 20.0), lc("b", 9.0), JOB]
    found, state, text = decided(services, actions=at("a", "up", "frequency"))
    assert "a" in found.knobs
    assert found.knobs["a"].frequency_mhz is None
    assert [found.knobs[name].frequency_mhz for name in ("b", "job")] == [2200, 2200]
    assert state.trial == Trial("a", Action("up", "frequency"), POOL, 20.0)
    assert "a gets 1 unit of frequency: p99" in text
    now = parts(a=knobs(20, mhz=1700), b=knobs(20), job=knobs(20))
    assert decided(services, now, actions=at("a", "up", "frequency"))[0].knobs["a"].frequency_mhz == 1800


def test_a_clock_goes_down_in_steps_to_its_end_and_is_skipped_there() -> None:
    services = [lc("a", 2.0), lc("b", 9.0), JOB]
    found, _, _ = decided(services, actions=at("a", "down", "frequency"))
    assert found.knobs["a"].frequency_mhz == 2100
    slow = parts(a=knobs(20, mhz=1200), b=knobs(20), job=knobs(20))
    found, _, _ = decided(services, slow, actions=at("a", "down", "frequency"))
    assert found.knobs["a"].frequency_mhz == 1200
    assert found.cores_of("a") == 3


def test_a_wrong_clock_is_taken_back() -> None:
    slow = parts(a=knobs(20, mhz=1200), b=knobs(20), job=knobs(20))
    trial = Trial("a", Action("down", "frequency"), POOL, 2.0)
    found, state, _ = decided([lc("a", 11.0), lc("b", 9.0), JOB], slow, trial=trial)
    assert found.knobs["a"].frequency_mhz == 1300
    assert state.paused_until_s == {"a": 40.0}


def test_memory_comes_from_best_effort_first() -> None:
    found, _, _ = decided([lc("a", 20.0), lc("b", 9.0), JOB], actions=at("a", "up", "memory"))
    assert [gib(found, name) for name in ("a", "b", "job")] == [21, 20, 19]


FULL = parts(a=knobs(20), b=knobs(20), c=knobs(20))


def test_memory_comes_from_the_largest_memory_slack_not_from_the_largest_latency_slack() -> None:
    services = [lc("a", 20.0), lc("b", 9.0, rss_gib=8.0), lc("c", 1.0, rss_gib=12.0)]
    found, _, _ = decided(services, FULL, {"c": READER}, actions=at("a", "up", "memory"))
    assert [gib(found, name) for name in ("a", "b", "c")] == [21, 19, 20]


def test_where_nobody_has_memory_to_spare_the_largest_latency_slack_pays_unless_it_would_be_killed() -> None:
    services = [lc("a", 20.0), lc("b", 9.0, rss_gib=None), lc("c", 1.0, rss_gib=None)]
    found, _, _ = decided(services, FULL, {"c": READER}, actions=at("a", "up", "memory"))
    assert [gib(found, name) for name in ("a", "b", "c")] == [21, 20, 19]
    found, _, _ = decided(services, FULL, {"c": IN_MEMORY}, actions=at("a", "up", "memory"))
    assert [gib(found, name) for name in ("a", "b", "c")] == [21, 19, 20]


def test_memory_of_an_application_in_memory_is_not_taken_below_a_gigabyte_of_slack() -> None:
    down = at("a", "down", "memory")
    services = [lc("a", 2.0, rss_gib=17.5), lc("b", 9.0), JOB]
    assert gib(decided(services, tests={"a": IN_MEMORY}, actions=down)[0], "a") == 20
    assert gib(decided(services, tests={"a": DiskTest(0.0)}, actions=down)[0], "a") == 20
    # The agent refuses to limit anybody to less than 19.7 GiB here.
    assert gib(decided(services, tests={"a": READER}, actions=down)[0], "a") == 20
    roomy = [lc("a", 2.0, rss_gib=10.0), lc("b", 9.0), JOB]
    assert gib(decided(roomy, tests={"a": IN_MEMORY}, actions=down)[0], "a") == 19
    unknown = [lc("a", 2.0, rss_gib=None), lc("b", 9.0), JOB]
    assert gib(decided(unknown, tests={"a": IN_MEMORY}, actions=down)[0], "a") == 20
    assert gib(decided(unknown, tests={"a": READER}, actions=down)[0], "a") == 19


def test_everybody_has_what_is_resident_and_an_eighth_from_the_start() -> None:
    services = [lc("a", None, rss_gib=29.3), lc("b", None, rss_gib=2.0), replace(JOB, counters=Counters(rss_mib=4000))]
    observation = observed(services, None)
    plan, state = Parties().decide(observation, Parties().initial(observation, 0))
    assert [gib(plan.partition, name) for name in ("a", "b", "job")] == [33, 14, 13]
    grown = [lc("a", 9.0, rss_gib=31.0), *services[1:]]
    plan, state = Parties().decide(observed(grown, plan.partition), state)
    assert [gib(plan.partition, name) for name in ("a", "b", "job")] == [35, 14, 11]
    jobs = [JOB, *(replace(JOB, name=name, counters=Counters(rss_mib=9000)) for name in ("x", "y"))]
    observation = observed([services[0], *jobs], None)  # jobs have equal parts, so each needs that of the largest
    plan, state = Parties().decide(observation, Parties().initial(observation, 0))
    assert plan.partition.knobs["a"].memory_mib is None
    observation = observed([lc("a", None, rss_gib=26.0), *jobs], None)
    plan, state = Parties().decide(observation, Parties().initial(observation, 0))
    assert [gib(plan.partition, name) for name in ("a", "job", "x", "y")] == [30, 10, 10, 10]


def test_memory_that_does_not_fit_is_not_divided_and_that_is_said() -> None:
    observation = observed([lc("a", None, rss_gib=29.3), lc("b", None), lc("c", None)], None)
    plan, _ = Parties().decide(observation, Parties().initial(observation, 0))
    assert {name: knobs.memory_mib for name, knobs in plan.partition.knobs.items()} == dict.fromkeys("abc")
    said = "; ".join(reason.text for reason in plan.reasons)
    assert "the services need more memory (MiB) than there is: 68608 of 61440; all services share the memory" in said
    assert plan.infeasible is None
    absurd = observed([lc("a", None, rss_gib=1.7e305), lc("b", None)], None)
    plan, _ = Parties().decide(absurd, Parties().initial(absurd, 0))
    assert plan.partition.knobs["a"].memory_mib is None


def test_a_full_memory_leads_from_compute_to_storage() -> None:
    state = {"actions": at("a", "up", "frequency"), "turn_from": {"a": "cores"}}
    trial = Trial("a", Action("up", "frequency"), POOL, 20.0)
    _, after, _ = decided([lc("a", 21.0, rss_gib=19.5), lc("b", 9.0), JOB], trial=trial, **state)
    assert after.actions["a"] == Action("up", "memory")
    _, after, _ = decided([lc("a", 21.0, rss_gib=5.0), lc("b", 9.0), JOB], trial=trial, **state)
    assert after.actions["a"] == Action("up", "cores")


def test_a_disk_in_full_use_leads_to_storage_too() -> None:
    state = {"actions": at("a", "up", "frequency"), "turn_from": {"a": "cores"}}
    trial = Trial("a", Action("up", "frequency"), POOL, 20.0)
    _, after, _ = decided([lc("a", 21.0, rss_gib=5.0, disk_iops=77.0), lc("b", 9.0), JOB], trial=trial, **state)
    assert after.actions["a"] == Action("up", "memory")


def test_disk_use_in_the_first_second_says_who_is_in_memory() -> None:
    def step(time_s: float, reads: float, partition: Partition | None, state: PartiesState) -> tuple:
        services = [lc("a", 9.0, disk_iops=reads), lc("b", 9.0, disk_iops=50.0), JOB]
        plan, state = Parties().decide(observed(services, partition, time_s), state)
        return plan.partition, state, "; ".join(reason.text for reason in plan.reasons)

    start = PartiesState(seed=0, time_s=10.0)
    partition, state, _ = step(10.5, 0.0, None, start)
    assert partition.knobs["a"].disk_iops == 91
    partition, state, text = step(11.0, 0.0, partition, state)
    assert partition.knobs["a"].disk_iops is None
    assert partition.knobs["b"].disk_iops == 130
    assert "a did not read from the disk: the other services share the disk" in text
    partition, state, _ = step(11.5, 40.0, partition, state)  # a second is over: it stays what it is
    assert partition.knobs["a"].disk_iops is None
    partition, state, _ = step(10.5, 0.0, None, start)
    partition, state, _ = step(11.0, 3.0, partition, state)
    assert partition.knobs["a"].disk_iops == 91


def test_the_network_is_kept_half_a_gigabit_above_what_is_sent_and_at_most_one() -> None:
    def mbps(sent: float, given: int = 3000) -> int:
        now = parts(a=knobs(20, mbps=given), b=knobs(20), job=knobs(20))
        found, _, _ = decided([lc("a", 9.0, network_mbps=sent), lc("b", 9.0), JOB], now)
        return found.knobs["a"].network_mbps or 0

    assert mbps(2600.0) == 3500
    assert mbps(2499.0) == 3000
    assert mbps(2001.0) == 3000
    assert mbps(1999.0) == 2500
    assert mbps(0.0, given=500) == 500


def test_the_network_is_adjusted_for_all_and_beside_one_traded_resource() -> None:
    services = [lc("a", 20.0, network_mbps=2900.0), lc("b", 9.0, network_mbps=100.0), JOB]
    found, _, _ = decided(services, actions=at("a", "up", "cores"))
    assert [found.knobs[name].network_mbps for name in ("a", "b", "job")] == [3500, 2500, 4000]
    assert found.cores_of("a") == 5


def test_without_a_latency_only_the_network_changes_and_the_reason_says_so() -> None:
    found, _, text = decided([lc("a", None, network_mbps=2900.0), lc("b", 9.0), JOB])
    assert found.knobs["a"] == replace(START.knobs["a"], network_mbps=3500)
    assert "a: no p99 was measured in this interval; its cores, ways, frequency, memory, disk do not change" in text


def test_a_link_that_is_used_up_is_said() -> None:
    full = parts(a=knobs(20, mbps=5000), b=knobs(20, mbps=4500), job=knobs(20, mbps=500))
    services = [lc("a", 9.0, network_mbps=4800.0), lc("b", 9.0, network_mbps=4000.0), JOB]
    found, _, text = decided(services, full)
    assert found.knobs["a"].network_mbps == 5000
    assert "a: it has 200 Mbit/s unused, below 500, and be:job has no network bandwidth left" in text


def test_a_newcomer_gets_parts_of_memory_and_network_and_the_nominal_clock() -> None:
    services = [lc("a", 9.0, rss_gib=8.0), lc("b", 9.0, rss_gib=8.0), lc("new", None, rss_gib=1.0), JOB]
    found, _, _ = decided(services, parts(a=knobs(10), b=knobs(10), job=knobs(40)))
    assert (gib(found, "new"), found.knobs["new"].frequency_mhz) == (15, 2200)
    assert [gib(found, name) for name in ("a", "b", "job")] == [15, 15, 15]


def test_a_trial_of_what_the_node_can_not_divide_any_more_is_dropped() -> None:
    trial = Trial("a", Action("up", "memory"), POOL, 20.0)
    bare = replace(PLATFORM, memory_mib=None, disk_iops=None)
    given = {name: replace(each, memory_mib=None, disk_iops=None) for name, each in START.knobs.items()}
    state = PartiesState(seed=1, wanted=parts(**given), trial=trial, actions={"a": trial.action}, time_s=9.5)
    observation = replace(observed([lc("a", 21.0), lc("b", 9.0), JOB], parts(**given)), platform=bare)
    plan, state = Parties().decide(observation, state)
    assert state.trial is not None
    assert state.trial.action.resource in ("cores", "ways", "frequency")
    assert plan.partition.knobs["a"].memory_mib is None


def test_a_trial_of_what_is_not_traded_is_dropped() -> None:
    trial = Trial("a", Action("up", "network"), POOL, 20.0)
    _, state, _ = decided([lc("a", 21.0), lc("b", 9.0), JOB], trial=trial)
    assert state.trial is not None
    assert state.trial.action.resource != "network"


def test_best_effort_jobs_have_equal_parts_of_what_is_theirs() -> None:
    services = [lc("a", 9.0), JOB, replace(JOB, name="other")]
    found, _, _ = decided(services, parts(a=knobs(20), job=knobs(20), other=knobs(20)))
    assert [gib(found, name) for name in ("a", "job", "other")] == [20, 20, 20]


def test_its_state_survives_the_way_to_the_agent_and_back() -> None:
    _, state, _ = decided([lc("a", 20.0), lc("b", 9.0), JOB], actions=at("a", "up", "memory"))
    assert state.trial is not None
    assert open_state(seal_state(Parties(), state), Parties()) == (state, None)
