"""When a service moves to another cache domain, which one, and when none does."""

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from osml.decide.decide import decide, decide_by
from osml.domain import Assignment, CacheDomain, Observation, Outcome, Platform, Service
from osml.placement.placed import Placed
from osml.placement.settings import DEFAULT
from osml.placement.sites import sites_of
from osml.placement.state import PlacementState
from osml.policies.even import Even
from tests.placement.two_domains import answered, be, homes, lc, observation, platform

NODE = platform()
PATIENCE = max(DEFAULT.missed, DEFAULT.held)


class Run:
    """A node under the policy even, interval by interval; services stay where `at` says until they move."""

    def __init__(self, at: dict[str, int], node: Platform = NODE) -> None:
        self.node = node
        self.policy = Placed(Even(), sites_of(node))
        self.state = PlacementState(seed=0, homes=dict(at))
        self.time_s = 0.0
        self.said: list[str] = []

    def step(self, services: list[Service], seconds: float = 1.0) -> dict[str, int]:
        self.time_s += seconds
        seen: Observation = observation(services, self.node, time_s=self.time_s)
        plan, self.state = self.policy.decide(seen, self.state)
        self.said = [reason.text for reason in plan.reasons if "moves to" in reason.text]
        return homes(plan.partition)

    def steps(self, n: int, services: list[Service]) -> dict[str, int]:
        found: dict[str, int] = {}
        for _ in range(n):
            found = self.step(services)
        return found


def crowded(tail_ms: float = 12.0, job: float | None = None) -> list[Service]:
    """Two services that need 5.7 and 4.4 of the 8 CPUs of domain 0, beside one in domain 1."""
    jobs = [] if job is None else [be("job", job)]
    return [lc("big", 3.0, tail_ms), lc("little", 2.0), lc("other", 0.2), *jobs]


AT = {"big": 0, "little": 0, "other": 1}


def test_the_smallest_that_helps_moves_once_the_domain_has_missed_long_enough() -> None:
    run = Run(AT)
    assert run.steps(PATIENCE, crowded()) == AT
    assert run.step(crowded()) == AT | {"little": 1}
    assert run.said == [
        f"little moves to cache domain 1: domain 0 has missed targets for {PATIENCE} intervals, "
        "domain 1 has 6.4 idle CPUs"
    ]


def test_a_job_that_frees_enough_goes_before_a_service() -> None:
    run = Run(AT | {"job": 0})
    assert run.steps(PATIENCE + 1, crowded(job=3.5)) == AT | {"job": 1}


def test_a_job_that_frees_too_little_stays() -> None:
    run = Run(AT | {"job": 0})
    assert run.steps(PATIENCE + 1, crowded(job=0.2)) == AT | {"job": 0, "little": 1}


def test_nobody_moves_into_a_domain_that_misses_targets_too() -> None:
    run = Run(AT)
    services = [lc("big", 3.0, 12.0), lc("little", 2.0), lc("other", 0.2, 12.0)]
    assert run.steps(5 * PATIENCE, services) == AT


def test_nobody_moves_where_there_is_no_room() -> None:
    run = Run(AT)
    services = [lc("big", 3.0, 12.0), lc("little", 2.0), lc("other", 3.0)]
    assert run.steps(5 * PATIENCE, services) == AT


def test_one_miss_less_and_nobody_moves() -> None:
    run = Run(AT)
    for _ in range(5):
        run.steps(DEFAULT.missed - 1, crowded())
        assert run.step(crowded(tail_ms=9.0)) == AT


def test_a_service_alone_in_its_domain_stays() -> None:
    run = Run({"big": 0, "other": 1})
    assert run.steps(5 * PATIENCE, [lc("big", 3.0, 12.0), lc("other", 0.2)]) == {"big": 0, "other": 1}


def test_nobody_moves_where_the_operators_minimums_do_not_fit() -> None:
    for limits in ({"min_cores": 6}, {"min_ways": 14}):
        run = Run(AT)
        little = lc("little", 0.1, min_cores=3, min_ways=3)
        assert run.steps(5 * PATIENCE, [lc("big", 3.0, 12.0), little, lc("other", 0.2, **limits)])["little"] == 0


def test_after_a_move_nobody_moves_for_a_while() -> None:
    run = Run({"a": 0, "b": 0, "c": 0, "other": 1})
    services = [lc("a", 1.0, 12.0), lc("b", 0.1), lc("c", 0.2), lc("other", 0.1)]
    moved = run.steps(PATIENCE + 1, services)
    assert moved == {"a": 0, "b": 1, "c": 0, "other": 1}
    assert run.steps(int(DEFAULT.pause_s) - 1, services) == moved
    assert run.steps(2, services) == moved | {"c": 1}


def test_who_has_moved_does_not_come_back_too_early() -> None:
    run = Run(AT)
    moved = run.steps(PATIENCE + 1, crowded())
    back = [lc("big", 0.2), lc("little", 2.0, 12.0), lc("other", 3.0, 12.0)]
    run.steps(int(DEFAULT.pause_s), back)
    found = run.steps(PATIENCE + 1, back)
    assert moved["little"] == found["little"] == 1
    assert run.step(back, DEFAULT.return_s)["little"] == 0


def test_a_clock_that_jumps_back_is_no_end_of_the_pause() -> None:
    run = Run({"a": 0, "b": 0, "c": 0, "other": 1})
    services = [lc("a", 1.0, 12.0), lc("b", 0.1), lc("c", 0.2), lc("other", 0.1)]
    run.time_s = 1000.0
    moved = run.steps(PATIENCE + 1, services)
    run.time_s = 0.0
    assert run.steps(int(DEFAULT.pause_s), services) == moved
    assert run.steps(2, services) == moved | {"c": 1}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_measured_moves_are_single_rare_and_do_not_come_back(data: st.DataObject) -> None:
    names = ["a", "b", "c", "d"]
    run = Run({})
    moves: list[tuple[float, str, int]] = []
    before: dict[str, int] = {}
    for _ in range(60):
        used = data.draw(st.lists(st.sampled_from([0.1, 1.0, 4.0, None]), min_size=4, max_size=4))
        late = data.draw(st.lists(st.sampled_from([12.0, 12.0, 5.0, None]), min_size=4, max_size=4))
        services = [lc(name, u, t) for name, u, t in zip(names[:3], used, late, strict=False)] + [be("d", used[3])]
        found = run.step(services, data.draw(st.sampled_from([1.0, 5.0])))
        moved = [name for name in names if before and found and name in before and found[name] != before[name]]
        assert len(moved) <= 1
        for name in moved:
            assert all(run.time_s - when >= DEFAULT.pause_s for when, _, _ in moves)
            left = [when for when, who, domain in moves if (who, domain) == (name, found[name])]
            assert all(run.time_s - when >= DEFAULT.return_s for when in left)
            moves.append((run.time_s, name, before[name]))
        before = found


def test_a_clock_that_starts_anew_does_not_stop_moves_for_ever() -> None:
    run = Run(AT)
    run.time_s = 1e9
    run.steps(PATIENCE + 1, crowded())
    run.time_s = 0.0
    services = [lc("big", 3.0, 12.0), lc("little", 0.1), lc("other", 0.2), lc("third", 1.0)]
    run.state = replace(run.state, homes={**run.state.homes, "third": 0})
    found = run.steps(int(DEFAULT.pause_s) + PATIENCE + 2, services)
    assert found["third"] == 1


def test_a_service_that_uses_much_when_it_comes_is_placed_first() -> None:
    run = Run({"b": 1, "c": 1})
    services = [lc("b", 0.1), lc("c", 0.1), lc("huge", 8.5, 12.0)]
    assert run.step(services) == {"b": 1, "c": 1, "huge": 0}
    assert run.step([lc("b", 0.1), lc("c", 0.1), lc("huge", 0.2)]) == {"b": 1, "c": 1, "huge": 0}


def test_homes_are_kept_while_the_node_is_divided_as_a_whole() -> None:
    run = Run({"huge": 0, "b": 1, "c": 1})
    small = [lc("b", 0.1), lc("c", 0.1)]
    assert run.steps(PATIENCE + 1, [lc("huge", 7.9, 12.0), *small]) == {}
    assert run.steps(DEFAULT.fitting, [lc("huge", 1.0), *small]) == {"huge": 0, "b": 1, "c": 1}


def test_a_service_alone_that_needs_more_than_its_domain_gets_the_whole_node() -> None:
    n = 16
    node = platform(
        cores=4 * n, cpus=f"0-{4 * n - 1}", domains=[CacheDomain(i, f"{4 * i}-{4 * i + 3}") for i in range(n)]
    )
    run = Run({"web": 3, "job": 3}, node)
    slow = [lc("web", 3.0, 30.0), be("job", 1.0)]
    assert run.steps(PATIENCE, slow)["web"] == 3
    assert run.step(slow) == {}
    assert run.steps(DEFAULT.fitting, [lc("web", 2.7), be("job", 1.0)]) == {}  # it still needs more than 4 CPUs
    assert run.steps(DEFAULT.fitting, [lc("web", 1.0), be("job", 1.0)])["web"] == 3


def test_what_is_not_measured_holds_the_counter_and_fits_in_the_end() -> None:
    run = Run({"huge": 0, "b": 1})
    full, fits, unseen = ([lc("huge", *of), lc("b", 0.1)] for of in ((7.9, 12.0), (1.0,), ()))
    half = DEFAULT.fitting // 2
    run.steps(PATIENCE + 1, full)
    run.steps(half, fits)
    run.steps(3, unseen)
    assert run.steps(DEFAULT.fitting - half - 1, fits) == {}
    assert run.step(fits) == {"huge": 0, "b": 1}
    run.steps(PATIENCE + 1, full)
    assert run.steps(DEFAULT.fitting - 1, unseen) == {}
    assert run.step(unseen) == {"huge": 0, "b": 1}


def test_a_service_that_fills_its_domain_alone_and_still_misses_gets_the_whole_node_until_it_is_smaller() -> None:
    run = Run({"huge": 0, "b": 1})
    full = [lc("huge", 7.9, 12.0), lc("b", 0.1)]
    assert run.steps(PATIENCE, full) == {"huge": 0, "b": 1}
    assert run.step(full) == {}
    smaller = [lc("huge", 4.0), lc("b", 0.1)]
    assert run.steps(DEFAULT.fitting - 1, smaller) == {}
    assert run.step(smaller) == {"huge": 0, "b": 1}


def test_an_operators_minimum_above_every_domain_is_said() -> None:
    decision = decide_by(Even(), observation([lc("a", min_cores=9), lc("b")], NODE))
    assert homes(decision.partition) == {}
    text = "the node is divided as a whole: a has min_cores 9, the largest cache domain has 8 CPUs"
    assert decision.reasons[0].text == text


class Uneven(NamedTuple):
    """What a service alone in a domain of 6 CPUs, beside one of 8, had in each interval; it meets its target with 8."""

    homes: list[int | None]
    cores: list[int]


def uneven(jobs: list[Service], *, refused: bool = False) -> Uneven:
    """140 intervals. `refused`: the agent refuses each decision that moves the service."""
    node = platform(cores=14, cpus="2-15")  # two CPUs of the first domain are reserved
    seen = observation([], node, assignments=[Assignment("a", cpus="2-7"), *(Assignment(j.name, "8-15") for j in jobs)])
    found = Uneven([], [])
    for seq in range(140):
        met = seen.partition is not None and seen.partition.cores_of("a") >= 8
        services = [lc("a", 4.7, 7.0 if met else 13.0), *jobs]
        seen = replace(seen, services=services, policy="osml:formula", seq=seq, time_s=float(seq))
        decision = decide(seen)
        home = homes(decision.partition).get("a")
        seen = replace(seen, policy_state=decision.policy_state, outcome=Outcome(seq, "applied"))
        if refused and home == 1:
            seen = replace(seen, outcome=Outcome(seq, "refused"))
        else:
            seen = replace(seen, partition=decision.partition, assignments=decision.assignments)
        assert seen.partition is not None
        found.homes.append(homes(seen.partition).get("a"))
        found.cores.append(seen.partition.cores_of("a"))
    return found


def test_a_service_alone_moves_to_the_larger_domain_that_is_empty() -> None:
    found = uneven([]).homes
    assert found[-1] == 1
    assert set(found) == {0, 1}, "never the whole node"
    assert found == sorted(found, key=lambda home: home or 0), "once"


def test_a_service_alone_moves_to_the_larger_domain_with_a_job_that_yields() -> None:
    found = uneven([be("j", 1.0, min_cores=0)])
    assert found.homes[-1] == 1
    assert set(found.homes) == {0, 1}
    assert min(found.cores[-60:]) >= 8


@pytest.mark.parametrize(
    ("limits", "refused"),
    [({"min_cores": 2}, False), ({"min_cores": 0, "min_ways": 16}, False), ({"min_cores": 0}, True)],
    ids=["cores", "ways", "refused"],
)
def test_a_service_alone_that_finds_no_room_gets_the_whole_node(limits: dict[str, int], refused: bool) -> None:
    """A job needs the CPUs or ways of the larger domain, or the agent refuses the move."""
    found = uneven([be("j", 1.0, **limits)], refused=refused)
    assert set(found.homes[-60:]) == {None}
    assert min(found.cores[-60:]) >= 8


@pytest.mark.parametrize("policy", ["osml:formula", "even"])
def test_nobody_moves_from_a_domain_whose_ways_are_not_divided_but_where_all_meet_their_targets(policy: str) -> None:
    assignments = [*(Assignment(name, cpus="0-7") for name in "abc"), Assignment("d", cpus="8-15")]
    services = [lc(name, 0.3, 5.0) for name in "abcd"]
    seen = observation(services, platform(max_groups=3), assignments=assignments, policy=policy)
    for _ in range(3 * PATIENCE):
        decision = decide(seen)
        assert decision.infeasible is not None
        assert homes(decision.partition) == {"a": 0, "b": 0, "c": 0, "d": 1}
        seen = answered(seen, decision)


def test_a_service_moves_from_a_domain_that_can_not_satisfy_one_without_a_latency() -> None:
    """Nobody is known to miss a target, but one could."""
    seen = observation(
        [lc("a", 0.3, None), *(lc(name, 0.3, 5.0) for name in "bcd")], platform(max_groups=3), policy="osml:formula",
        assignments=[*(Assignment(name, cpus="0-7") for name in "abc"), Assignment("d", cpus="8-15")],
    )  # fmt: skip
    for _ in range(PATIENCE + 1):
        decision = decide(seen)
        seen = answered(seen, decision)
    assert [reason.text for reason in decision.reasons if "moves to" in reason.text]  # pyright: ignore
