"""What a run is worth, on hand-made intervals with known answers."""

import math
from dataclasses import replace

import pytest
from msgspec import UNSET

from osml.domain import Decision, Latency, Observation, Partition, Platform, Region, Service
from osml.lab.bench import oracle_policy
from osml.lab.bench.episode import run_episode
from osml.lab.bench.feasible import Feasible, asked
from osml.lab.bench.judge import Judge, Judged, converged_at, falls, longest_met
from osml.lab.bench.oracle_policy import ISOLATED, NAME, Answers, BestFor, Oracle, best_for
from osml.lab.bench.report.statistics import mean, median, paired
from osml.lab.bench.report.tables import METRICS, estimate
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.load_traces import Churn, Constant, Stay, Steps
from osml.simulator.mix import Mix, parse_mix
from osml.simulator.surface import solo_speed

SCENARIO = Scenario("test", "test", parse_mix("moses=0.4,xapian=0.3,be:stream"), "e5-2697v4")


def judged(tails: list[float], cores: list[int], changed: bool = False, loads: float = 0.4) -> Judged:
    met = all(tail <= 10.0 for tail in tails)
    return Judged(0.0, [loads] * 2, tails, met, 0.0, None, 0.0, None, 0.0, [], cores, [5, 5], (8, 10), changed, None)


def test_converged_is_the_first_of_five_intervals_in_a_row() -> None:
    good, bad = judged([5.0, 5.0], [4, 4]), judged([11.0, 5.0], [4, 4])
    assert converged_at([good] * 4, 5) is None
    assert converged_at([good] * 5, 5) == 0
    assert converged_at([good, good, bad, *[good] * 5], 5) == 3
    assert converged_at([good] * 4 + [bad] + [good] * 4, 5) is None


def test_actions_until_convergence_are_of_runs_that_converge() -> None:
    actions = next(metric for metric in METRICS if metric.column == "actions")
    rows = [{"case": 0, "converged": True, "actions": 4}, {"case": 1, "converged": False, "actions": 60}]
    assert estimate(rows, actions).value == 4


def test_convergence_can_be_asked_for_a_longer_time_without_a_miss() -> None:
    good, bad = judged([5.0, 5.0], [4, 4]), judged([11.0, 5.0], [4, 4])
    assert converged_at([bad, *[good] * 29], 30) is None
    assert converged_at([*[good] * 29, bad, *[good] * 30], 30) == 30


def test_a_run_has_not_converged_before_the_last_service_is_there() -> None:
    script = Churn((Stay("moses", Constant(0.3)), Stay("sphinx", Constant(1.8), 10.0)))
    scenario = Scenario(
        "test", "test", Mix({}), "e5-2697v4", traces=script, hold_s=5.0, tail_s=5.0, limit_s=20.0, whole=True
    )
    row = run_episode(scenario, "unmanaged", 1, Answers()).row
    assert row["targets_missed"] > 0
    assert (scenario.complete_s, row["converged"], row["convergence_s"]) == (10.0, False, None)
    alone = replace(scenario, traces=Churn(script.stays[:1]))
    assert run_episode(alone, "unmanaged", 1, Answers()).row["converged"]


def test_a_service_without_load_has_no_target_to_miss() -> None:
    trace = Steps(0.2, ((5.0, 0.0), (15.0, 0.2)))
    scenario = Scenario(
        "test", "test", parse_mix("xapian=0.2,moses=0.2"), "e5-2697v4", traces={"moses": trace}, limit_s=20.0,
        settle_s=4.0, whole=True, timeline=True,
    )  # fmt: skip
    episode = run_episode(scenario, "unmanaged", 1, Answers())
    assert all(row["met"] for row in episode.timeline if row["time_s"] >= 4.0)
    assert episode.row["e_lc"] == 0.0
    assert 30 <= episode.row["targets"] <= 33  # what had come before the load went is still judged
    shown = [row["time_s"] for row in episode.timeline if row["service"] == "moses"]
    assert not {10.0, 14.0} & set(shown)
    assert {0.0, 4.0, 15.0, 19.0} <= set(shown)


def test_who_gets_nothing_done_under_load_misses_its_target() -> None:
    node = SCENARIO.node
    [interval] = ClosedLoop(node, SCENARIO.loads, "unmanaged").run(1)
    stuck = interval.flows[0]._replace(requests=0.0, p99_ms=None)
    judge = Judge(node, [solo_speed(node.platform, job) for job in node.jobs])
    found = judge(replace(interval, flows=[stuck, *interval.flows[1:]]), dict(SCENARIO.mix.loads))
    assert (found.tails_ms[0], found.met, found.targets) == (math.inf, False, 2)
    behind = stuck._replace(backlog_ms=(10.0, 10.0))  # nobody comes any more, and nobody who waits is served
    assert judge(replace(interval, flows=[behind, *interval.flows[1:]]), {"moses": 0.0}).tails_ms[0] == math.inf


def test_a_miss_counts_whatever_its_size_and_whoever_missed() -> None:
    scenario = Scenario("test", "test", parse_mix("moses=0.4,xapian=0.3"), "e5-2697v4", limit_s=20.0, whole=True)
    row = run_episode(scenario, "unmanaged", 1, Answers()).row
    loop = ClosedLoop(scenario.node, scenario.loads, "unmanaged", seed=1, delay_s=0.1)
    over = [
        interval.tail_ms(i, service.percentile) / service.target_ms
        for interval in loop.run(20)
        for i, service in enumerate(scenario.node.services)
    ]
    assert (row["targets"], row["targets_missed"]) == (40, sum(ratio > 1.0 for ratio in over))
    assert row["target_missed_share"] == row["targets_missed"] / 40


def test_misses_after_convergence_are_those_after_the_time_that_tells_it() -> None:
    scenario = Scenario("test", "test", parse_mix("moses=0.3,xapian=0.3"), "e5-2697v4", hold_s=5.0, tail_s=10.0)
    row = run_episode(scenario, "even", 1, Answers()).row
    assert row["converged"]
    assert row["intervals"] == round(row["convergence_s"]) + 15
    assert row["intervals_after"] == 10
    assert row["target_missed_after"] == row["violations_after"] == 0


def test_the_longest_time_without_a_miss_is_between_two_misses() -> None:
    good, bad = judged([5.0, 5.0], [4, 4]), judged([11.0, 5.0], [4, 4])
    assert longest_met([]) == longest_met([bad]) == 0
    assert longest_met([good, bad, good, good, bad, good]) == 2


def test_the_oracle_shares_everything_where_no_isolated_parts_meet_all_targets() -> None:
    found: list[tuple[bool | None, int]] = []
    for mix in ("moses=0.4,xapian=0.3", "memcached=0.9,moses=0.85", "memcached=0.5,specjbb=0.3,sphinx=0.5"):
        scenario = Scenario("test", "test", parse_mix(mix), "e5-2697v4")
        best = best_for(scenario.node, scenario.mix.loads)
        found.append((best.feasible, len(best.partition.regions)))
    assert found == [(True, 2), (True, 1), (False, 1)]


def test_what_the_oracle_did_not_prove_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition that meets all targets proves a mix feasible; without work for more, nothing else is proven."""
    easy, hopeless = (
        Scenario("test", "test", parse_mix(mix), "e5-2697v4") for mix in ("moses=0.4,xapian=0.3", "specjbb=1,sphinx=1")
    )
    assert asked(easy, Answers()).cores is not None
    monkeypatch.setattr(oracle_policy, "LIMIT_WORK", 0)
    assert asked(easy, Answers()) == Feasible(True)
    assert asked(hopeless, Answers()) == Feasible(None)


def test_the_isolating_oracle_never_shares_and_is_never_better() -> None:
    for mix in ("memcached=0.9,moses=0.85", "moses=0.4,xapian=0.3,be:stream"):
        scenario, answers = Scenario("test", "test", parse_mix(mix), "e5-2697v4"), Answers()
        shares, isolates = (answers.best(name, scenario.node, scenario.mix.loads) for name in (NAME, ISOLATED))
        assert len(isolates.partition.regions) == len(scenario.node.tenants)
        assert (shares.feasible is True, -shares.e_s) >= (isolates.feasible is True, -isolates.e_s)
        assert answers.best(ISOLATED, scenario.node, dict(scenario.mix.loads)) is isolates  # asked once


def test_the_oracle_lends_what_jobs_hold_while_targets_are_missed() -> None:
    node = Scenario("test", "test", parse_mix("xapian=0.5,be:stream"), "e5-2697v4").node
    too_little = Partition([Region(["xapian"], 2, 2), Region(["stream"], 34, 18)])
    oracle = Oracle(NAME, lambda _: BestFor(too_little, True, [], 0.0, 2, 2))
    loop = ClosedLoop(node, {"xapian": 0.5}, oracle)
    seen = [d.partition.cores_of("stream") for interval in loop.run(60) if (d := interval.decision) is not None]
    assert seen[0] == 34
    assert 1 in seen
    assert 34 in seen[seen.index(1) :]  # and takes it back when all targets are met


def test_what_the_oracle_lends_of_idle_units_stays_lent_at_these_loads() -> None:
    node = Scenario("test", "test", parse_mix("xapian=0.5"), "e5-2697v4").node
    too_little = Partition([Region(["xapian"], 2, 2)])
    loop = ClosedLoop(node, {"xapian": 0.5}, Oracle(NAME, lambda _: BestFor(too_little, True, [], 0.0, 2, 2)))
    seen = [d.partition.cores_of("xapian") for interval in loop.run(60) if (d := interval.decision) is not None]
    assert seen[0] == 2
    assert set(seen[seen.index(36) :]) == {36}


def test_the_oracle_isolates_again_where_the_loads_have_changed() -> None:
    def parts(cores: int) -> Partition:
        return Partition([Region(["a"], cores, 10), Region(["b"], 36 - cores, 10)])

    shared = Partition([Region(["a", "b"], 36, 20)])
    cores = [10]
    oracle = Oracle(NAME, lambda _: BestFor(parts(cores[0]), True, [], 0.0, 36, 20, instead=shared))
    node = Platform("test", 36, "0-35", ways=20)

    def seen(latency_ms: float) -> Observation:
        latency = Latency(p99_ms=latency_ms)
        services = [Service(name, "lc", target_ms=10.0, latency=latency) for name in "ab"]
        return Observation("n", 0, 0.0, 1.0, node, services)

    state = oracle.initial(seen(5.0), 0)

    def decided(latency_ms: float, times: int) -> Partition:
        nonlocal state
        plan = None
        for _ in range(times):
            plan, state = oracle.decide(seen(latency_ms), state)
        assert plan is not None
        return plan.partition

    assert decided(20.0, oracle_policy.GAVE_UP) == shared
    assert decided(5.0, 20) == shared  # the same loads: apart they would miss again
    cores[0] = 20
    assert decided(5.0, 1) == parts(20)
    assert decided(20.0, oracle_policy.GAVE_UP) == shared
    cores[0] = 10
    assert decided(20.0, 1) == parts(10)


def test_another_time_slice_is_part_of_the_node_and_of_the_name() -> None:
    usual = Scenario("test", "test", parse_mix("moses=0.4,be:stream"), "e5-2697v4")
    shorter = Scenario("test", "test", usual.mix, "e5-2697v4", time_slice_ms=1.0)
    assert (shorter.node.platform.time_slice_ms, shorter.name) == (1.0, f"{usual.name}@1ms")

    def tail_ms(scenario: Scenario) -> float:
        return ClosedLoop(scenario.node, scenario.loads, "unmanaged").run(5)[-1].tail_ms(0, "p99")

    assert tail_ms(shorter) > tail_ms(usual)  # whoever wakes preempts the job, and is put aside the sooner


def test_a_fall_is_a_loss_after_which_the_latency_multiplies_beyond_the_target() -> None:
    node = SCENARIO.node  # targets of moses and xapian are 8.5 and 5.7 ms
    before = judged([5.0, 5.0], [4, 4])
    fallen = [before, judged([5.0, 5.0], [3, 4], changed=True), judged([80.0, 5.0], [3, 4])]
    assert falls(node, fallen) == (1, 1)
    slow = [before, judged([12.0, 5.0], [3, 4], changed=True), judged([12.0, 5.0], [3, 4])]
    assert falls(node, slow) == (1, 0)
    more_load = [before, judged([80.0, 5.0], [3, 4], changed=True, loads=0.8)]
    assert falls(node, more_load) == (0, 0)
    upwards = [before, judged([80.0, 5.0], [5, 4], changed=True)]
    assert falls(node, upwards) == (0, 0)
    missed_before = [judged([11.0, 5.0], [4, 4]), judged([80.0, 5.0], [3, 4], changed=True)]
    assert falls(node, missed_before) == (0, 0)


def test_entropy_and_resources_are_those_of_the_noiseless_node() -> None:
    node = SCENARIO.node
    loop = ClosedLoop(node, SCENARIO.loads, "even", tolerant=True)
    judge = Judge(node, [solo_speed(node.platform, job) for job in node.jobs])
    intervals = loop.run(10)
    found = [judge(interval, dict(SCENARIO.mix.loads)) for interval in intervals]
    assert found[0].used == (36, 20)  # before the first decision everything is everybody's
    assert found[-1].used == (24, 14)  # two of three equal parts, remainders to LC services
    assert [one.changed for one in found] == [False] * 10
    assert found[-1].slowdowns[0] > 1.0
    assert found[-1].e_s == pytest.approx(0.8 * (found[-1].e_lc or 0.0) + 0.2 * (found[-1].e_be or 0.0))


def test_all_of_an_interval_counts_not_only_what_followed_a_decision() -> None:
    node = SCENARIO.node
    [interval] = ClosedLoop(node, SCENARIO.loads, "unmanaged").run(1)
    idle = [flow._replace(dt=1.0, instructions=0.0, cycles=0.0, cpu_s=0.0) for flow in interval.flows]
    judge = Judge(node, [solo_speed(node.platform, job) for job in node.jobs])
    loads = dict(SCENARIO.mix.loads)
    whole, half = judge(interval, loads), judge(replace(interval, before=idle), loads)
    assert half.busy == pytest.approx(whole.busy / 2)
    assert half.slowdowns == pytest.approx([2 * slow for slow in whole.slowdowns])
    assert half.ipcs == pytest.approx(whole.ipcs)  # no cycles, no share in it


def test_ways_of_a_node_of_several_caches_are_those_of_all() -> None:
    """Equal parts of eight caches as one pool, and one cache with the services: the pool's masks hold in each."""
    node = SCENARIO.node
    [interval] = ClosedLoop(node, SCENARIO.loads, "even").run(1)
    judge = Judge(node, [solo_speed(node.platform, job) for job in node.jobs], caches=8)
    assert judge(interval, dict(SCENARIO.mix.loads)).used == (36, 160)
    for domain, ways in ((UNSET, 8 * (6 + 4)), (3, 6 + 4)):
        regions = [Region(["moses"], 5, 6, domain), Region(["xapian"], 5, 4, domain), Region(["stream"], 2, 2, domain)]
        decided = replace(interval, decision=Decision("n", 0, "even", Partition(regions), []))
        assert judge(decided, dict(SCENARIO.mix.loads)).used == (10, ways)


def test_partitions_that_say_the_same_are_no_action() -> None:
    assert Partition([Region(["a"], 1, 1)]) == Partition([Region(["a"], 1, 1)])


def test_statistics_of_known_values() -> None:
    assert mean([1.0, 2.0, 3.0]).value == 2.0
    found = median([float(x) for x in range(101)])
    assert found.value == 50.0
    assert found.low < 50.0 < found.high
    assert mean([]).text() == "-"
    assert mean([math.inf, 1.0]).n == 1
    same = {(i, 0): float(i) for i in range(10)}
    assert paired(same, same) == (0.0, 0.0, 0.0, 10)
    assert paired({(0, 0): 3.0, (5, 5): 1.0}, {(0, 0): 1.0}).value == 2.0
    alike = {mix: [float(mix)] * 3 for mix in range(20)}
    apart = mean([float(mix) for mix in range(20) for _ in range(3)])
    together = mean(alike)
    assert together.value == apart.value
    assert together.high - together.low > 1.4 * (apart.high - apart.low)  # three copies of a mix are one mix
    assert mean([1.0, 5.0, 9.0], seed=3) == mean([1.0, 5.0, 9.0], seed=3)


def test_mixes_are_feasible_infeasible_or_undecided_and_counted_once_whatever_the_seeds() -> None:
    said = {0: True, 1: True, 2: False, 3: None}
    rows = [
        {"case": case, "seed": seed, "policy": policy, "feasible_oracle": said[case], "part": "p"}
        for case in said
        for seed in range(3)
        for policy in ("a", "b")
    ]
    found = Results(rows, [], {"policies": ["a", "b"]})
    assert [found.mixes(answer) for answer in (True, False, None)] == [2, 1, 1]
    apart = found.by_feasibility()
    assert {label: len(group.rows) for label, group in apart.items()} == {
        ", feasible": 12,
        ", infeasible": 6,
        ", undecided by the oracle": 6,
    }
    nobody_asked = Results([row | {"feasible_oracle": None} for row in rows], [], {})
    assert list(nobody_asked.by_feasibility()) == [""]


def test_seeds_of_a_mix_stay_together_in_an_interval() -> None:
    rows = [{"case": case, "seed": seed, "emu": float(case)} for case in range(10) for seed in range(5)]
    rows.append({"case": 3, "seed": 9, "emu": None})
    found = Results(rows, [], {}).by_case(rows, "emu")
    assert found == {case: [float(case)] * 5 for case in range(10)}
    together, apart = mean(found), mean([row["emu"] for row in rows if row["emu"] is not None])
    assert together.value == apart.value
    assert together.high - together.low > 1.5 * (apart.high - apart.low)
