"""The rules of PARTIES (ASPLOS 2019, section 4), one by one."""

from msgspec.structs import replace

from osml.allocation.holding import POOL
from osml.domain import Latency, Observation, Outcome, Partition, Platform, Region, Service
from osml.policies.parties.policy import Action, Parties, PartiesState, Trial
from tests.kit.toy_node import ToyNode, demo_tenants

PLATFORM = Platform(id="p", cores=12, cpus="0-11", ways=12)


def lc(name: str, p99_ms: float | None, target_ms: float = 10.0, **more: object) -> Service:
    return Service(name=name, kind="lc", target_ms=target_ms, latency=Latency(p99_ms=p99_ms), **more)


def be(name: str = "job") -> Service:
    return Service(name=name, kind="be")


def divided(**parts: tuple[int, int]) -> Partition:
    return Partition([Region([name], cores, ways) for name, (cores, ways) in parts.items()])


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


def after(partition: Partition, **more: object) -> PartiesState:
    return PartiesState(seed=1, wanted=partition, time_s=9.0, **more)


START = divided(a=(4, 4), b=(4, 4), job=(4, 4))


def counts(partition: Partition, name: str) -> tuple[int, int]:
    return partition.cores_of(name), partition.ways_of(name)


def test_it_starts_from_a_fair_split() -> None:
    observation = observed([lc("a", None), lc("b", None), be()], None)
    plan, state = Parties().decide(observation, Parties().initial(observation, 0))
    assert [counts(plan.partition, name) for name in ("a", "b", "job")] == [(4, 4)] * 3
    assert "fair start" in plan.reasons[-1].text
    assert state.wanted == plan.partition


def test_the_smallest_slack_is_upsized_and_best_effort_jobs_pay_first() -> None:
    services = [lc("a", 12.0), lc("b", 30.0), be()]
    plan, state = Parties().decide(observed(services, START), after(START, actions={"b": Action("up", "cores")}))
    assert counts(plan.partition, "b") == (5, 4)
    assert counts(plan.partition, "job") == (3, 4)
    assert counts(plan.partition, "a") == (4, 4)
    assert (
        plan.reasons[-1].text
        == "b gets 1 unit of cores from be:job: p99 30 ms is above the target of 10 ms (slack -2.00)"
    )
    assert state.trial == Trial("b", Action("up", "cores"), POOL, 30.0)


def test_without_best_effort_jobs_idle_units_go_first_and_then_the_largest_slack_pays() -> None:
    services = [lc("a", 30.0), lc("b", 9.0), lc("c", 2.0)]
    idle = divided(a=(3, 4), b=(4, 4), c=(4, 4))
    plan, _ = Parties().decide(observed(services, idle), after(idle, actions={"a": Action("up", "cores")}))
    assert [counts(plan.partition, n) for n in "abc"] == [(4, 4), (4, 4), (4, 4)]
    full = divided(a=(4, 4), b=(4, 4), c=(4, 4))
    plan, _ = Parties().decide(observed(services, full), after(full, actions={"a": Action("up", "cores")}))
    assert [counts(plan.partition, n) for n in "abc"] == [(5, 4), (4, 4), (3, 4)]


def test_a_slack_below_five_percent_is_upsized_and_above_it_nothing_happens_up_to_twenty() -> None:
    plan, _ = Parties().decide(observed([lc("a", 9.6), lc("b", 8.5), be()], START), after(START))
    assert sum(counts(plan.partition, "a")) == 9
    plan, _ = Parties().decide(observed([lc("a", 9.4), lc("b", 8.5), be()], START), after(START))
    assert plan.partition == START
    assert "all targets met with slack >= 0.05" in plan.reasons[-1].text


def test_an_upsize_that_did_not_lower_latency_moves_on_to_the_next_resource() -> None:
    trial = Trial("a", Action("up", "cores"), POOL, latency_ms=20.0)
    state = after(START, trial=trial, actions={"a": Action("up", "cores")})
    plan, _ = Parties().decide(observed([lc("a", 21.0), lc("b", 9.0), be()], START), state)
    assert counts(plan.partition, "a") == (4, 5)
    assert "did not help" in plan.reasons[0].text
    plan, _ = Parties().decide(observed([lc("a", 19.0), lc("b", 9.0), be()], START), state)
    assert counts(plan.partition, "a") == (5, 4)


def test_the_largest_slack_above_twenty_percent_is_downsized_in_favour_of_best_effort() -> None:
    services = [lc("a", 2.0), lc("b", 7.0), be()]
    plan, state = Parties().decide(observed(services, START), after(START, actions={"a": Action("down", "ways")}))
    assert counts(plan.partition, "a") == (4, 3)
    assert counts(plan.partition, "job") == (4, 5)
    assert state.trial == Trial("a", Action("down", "ways"), POOL, 2.0)


def test_without_best_effort_jobs_what_is_reclaimed_stays_idle() -> None:
    full = divided(a=(6, 6), b=(6, 6))
    plan, _ = Parties().decide(observed([lc("a", 2.0), lc("b", 8.5)], full), after(full))
    assert plan.partition.cores + plan.partition.ways == 23


def test_a_downsize_that_missed_the_target_is_reverted_and_not_tried_again_for_thirty_seconds() -> None:
    now = divided(a=(3, 4), b=(4, 4), job=(5, 4))
    state = after(now, trial=Trial("a", Action("down", "cores"), POOL, 2.0), actions={"a": Action("down", "cores")})
    plan, state = Parties().decide(observed([lc("a", 11.0), lc("b", 9.0), be()], now), state)
    assert counts(plan.partition, "a") == (4, 4)
    assert "back from be:job" in plan.reasons[-1].text
    assert state.actions["a"] == Action("down", "ways")
    good = [lc("a", 2.0), lc("b", 9.0), be()]
    plan, state = Parties().decide(observed(good, plan.partition, 39.0), state)
    assert counts(plan.partition, "a") == (4, 4)
    plan, state = Parties().decide(observed(good, plan.partition, 41.0), state)
    assert counts(plan.partition, "a") == (4, 3)


def test_a_victim_at_the_same_place_in_the_wheel_moves_on() -> None:
    full = divided(a=(6, 6), b=(6, 6))
    same = {"a": Action("up", "cores"), "b": Action("up", "cores")}
    plan, state = Parties().decide(observed([lc("a", 20.0), lc("b", 11.0)], full), after(full, actions=same))
    assert counts(plan.partition, "a") == (7, 6)
    assert state.actions["b"] == Action("up", "ways")


def test_a_resource_that_nobody_can_give_is_skipped() -> None:
    now = divided(a=(10, 4), b=(1, 4), job=(1, 4))
    plan, _ = Parties().decide(
        observed([lc("a", 20.0), lc("b", 9.0), be()], now), after(now, actions={"a": Action("up", "cores")})
    )
    assert counts(plan.partition, "a") == (10, 5)


def test_a_service_at_its_limit_gets_the_other_resource() -> None:
    services = [lc("a", 20.0, max_cores=4), lc("b", 9.0), be()]
    plan, _ = Parties().decide(observed(services, START), after(START, actions={"a": Action("up", "cores")}))
    assert counts(plan.partition, "a") == (4, 5)


def test_a_minute_of_violation_asks_to_move_the_most_relaxed_service_away() -> None:
    services = [lc("a", 20.0), lc("b", 90.0, target_ms=100.0), be()]
    state = after(START)
    partition, messages = START, []
    for time_s in (10.0, 40.0, 69.0, 71.0):
        plan, state = Parties().decide(observed(services, partition, time_s), state)
        partition = plan.partition
        messages.append(plan.infeasible)
    assert messages[:3] == [None, None, None]
    assert messages[3] is not None
    assert messages[3].services == ["a"]
    assert "'b' has the most relaxed target (100 ms)" in messages[3].message
    plan, state = Parties().decide(observed([lc("a", 5.0), services[1], be()], partition, 72.0), state)
    assert plan.infeasible is None
    assert state.violated_since_s is None


def test_a_service_without_a_measurement_neither_gives_nor_takes() -> None:
    full = divided(a=(6, 6), b=(6, 6))
    plan, _ = Parties().decide(observed([lc("a", 20.0), lc("b", None)], full), after(full))
    assert plan.partition == full
    assert any(
        "b: no p99 was measured in this interval; its resources do not change" in reason.text for reason in plan.reasons
    )


def test_the_first_resource_is_random_but_the_seed_decides() -> None:
    def first(seed: int) -> tuple[int, int]:
        observation = observed([lc("a", 20.0), lc("b", 9.0), be()], START)
        plan, _ = Parties().decide(observation, replace(after(START), seed=seed))
        return counts(plan.partition, "a")

    assert {first(seed) for seed in range(20)} == {(5, 4), (4, 5)}
    assert all(first(seed) == first(seed) for seed in range(20))


def test_a_vanished_service_gives_back_and_a_newcomer_gets_a_part() -> None:
    plan, state = Parties().decide(observed([lc("a", 9.0), be()], START), after(START))
    assert counts(plan.partition, "job") == (8, 8)
    assert any(reason.text == "b is no longer here: its resources are free" for reason in plan.reasons)
    plan, _ = Parties().decide(observed([lc("a", 9.0), lc("c", None), be()], plan.partition), state)
    assert counts(plan.partition, "c") == (4, 4)
    assert counts(plan.partition, "a") == (4, 4)


def test_a_newcomer_on_a_full_node_makes_everybody_start_from_equal_parts_again() -> None:
    trial = Trial("a", Action("down", "cores"), POOL, 2.0)
    for full, n in ((divided(a=(11, 11)), 6), (divided(a=(6, 6), b=(6, 6)), 4)):
        here = [lc(region.owners[0], 2.0) for region in full.regions]
        state = after(full, trial=trial, paused_until_s={"a": 39.0})
        plan, state = Parties().decide(observed([*here, lc("c", None)], full), state)
        assert [counts(plan.partition, service.name) for service in here] == [(n, n)] * len(here)
        assert counts(plan.partition, "c") == (n, n)
        assert (state.trial, state.paused_until_s) == (None, {"a": 39.0})
        assert "fair start again for c" in plan.reasons[-1].text


def test_a_new_job_gets_what_is_idle_and_takes_nothing() -> None:
    alone = divided(a=(6, 6), b=(4, 4))
    plan, _ = Parties().decide(observed([lc("a", 9.0), lc("b", 9.0), be()], alone), after(alone))
    assert [counts(plan.partition, name) for name in ("a", "b", "job")] == [(6, 6), (4, 4), (2, 2)]


def test_a_service_that_became_a_best_effort_job_is_forgotten() -> None:
    state = after(START, trial=Trial("a", Action("up", "cores"), POOL, 20.0), actions={"a": Action("up", "cores")})
    _, state = Parties().decide(observed([be("a"), lc("b", 9.0), be()], None), state)
    assert (state.trial, state.actions) == (None, {})


def test_a_refused_decision_goes_on_with_the_other_resource() -> None:
    wanted = divided(a=(5, 4), b=(4, 4), job=(3, 4))
    state = after(wanted, trial=Trial("a", Action("up", "cores"), POOL, 20.0), actions={"a": Action("up", "cores")})
    services = [lc("a", 20.0), lc("b", 9.0), be()]
    outcome = Outcome(seq=0, status="refused", message="cpuset.cpus: Device or resource busy")
    plan, _ = Parties().decide(observed(services, START, outcome=outcome), state)
    assert counts(plan.partition, "a") == (4, 5)
    assert "refused: cpuset.cpus" in plan.reasons[0].text


def test_a_refused_decision_is_repeated_where_the_applied_partition_shares_what_it_divides() -> None:
    everybody = Partition([Region(["a", "b", "job"], 12, 12)])
    state = after(START)
    outcome = Outcome(seq=0, status="refused", message="max_core_step")
    messages: list[str | None] = []
    for _ in range(5):
        seen = observed([lc("a", 20.0), lc("b", 9.0), be()], everybody, outcome=outcome)
        plan, state = Parties().decide(seen, state)
        assert plan.partition == START
        assert "the same request is repeated" in plan.reasons[-1].text
        messages.append(None if plan.infeasible is None else plan.infeasible.message)
    assert messages == [None, *["the agent does not apply this policy's request: max_core_step"] * 4]
    plan, state = Parties().decide(observed([lc("a", 20.0), lc("b", 9.0), be()], START), state)
    assert plan.infeasible is None
    assert state.refused == 0


def test_a_machine_changed_by_others_is_asked_for_the_same_again() -> None:
    wanted = divided(a=(5, 4), b=(4, 4), job=(3, 4))
    plan, _ = Parties().decide(observed([lc("a", 20.0), lc("b", 9.0), be()], None), after(wanted))
    assert plan.partition == wanted
    assert "the same request is repeated" in plan.reasons[-1].text


def test_it_converges_on_a_toy_node() -> None:
    node = ToyNode(demo_tenants(), policy="parties", seed=1)
    steps = node.steps_to_converge()
    assert steps is not None
    assert steps < 60
