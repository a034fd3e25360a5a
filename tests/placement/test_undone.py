"""A move that the agent does not take is undone, and not tried again and again."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from osml.decide.decide import decide
from osml.domain import Assignment, Decision, Observation, Outcome, Service
from osml.placement.placed import Placed
from osml.placement.settings import DEFAULT
from osml.placement.sites import sites_of
from osml.policies.arq import Arq
from tests.placement.two_domains import answered, homes, lc, observation, platform

MAX_CORE_STEP = 4
PATIENCE = max(DEFAULT.missed, DEFAULT.held)
NODE = platform(24)
AT = {"big": 0, "little": 0, "other": 1}
HELD = [Assignment("big", cpus="0-11"), Assignment("little", cpus="12-23"), Assignment("other", cpus="24-47")]
STATUSES = ("refused", "rolled_back", "failed", "applied", "unchanged", "dry_run")


def services(tail_ms: float = 12.0) -> list[Service]:
    """Two that need more than the 24 CPUs of domain 0, beside one in domain 1."""
    return [lc("big", 14.0, tail_ms), lc("little", 8.0), lc("other", 0.2)]


def start(policy: str) -> Observation:
    """All are placed, and that is applied."""
    seen = observation(services(5.0), NODE, policy=policy, assignments=HELD)
    return answered(seen, decide(seen), services())


def after(seen: Observation, decision: Decision, status: str) -> Observation:
    """The next observation: a decision that was not taken leaves all as it was, but the new state comes back."""
    following = answered(seen, decision, services())
    if status not in ("applied", "unchanged"):
        following = replace(following, partition=seen.partition, assignments=seen.assignments)
    return replace(following, outcome=Outcome(seen.seq, status))


def steps_too_far(seen: Observation, decision: Decision) -> bool:
    assert seen.partition is not None
    before, now = seen.partition, decision.partition
    return any(abs(now.cores_of(name) - before.cores_of(name)) > MAX_CORE_STEP for name in AT)


def test_a_refused_move_is_undone_and_every_further_decision_is_taken() -> None:
    seen = start("even")
    refused: list[int] = []
    for interval in range(int(DEFAULT.return_s) - PATIENCE):
        decision = decide(seen)
        if steps_too_far(seen, decision):
            refused.append(interval)
        else:
            assert homes(decision.partition) == AT
        said = any("stays in cache domain 0: the move was refused by the agent" in one.text for one in decision.reasons)
        assert said is (interval - 1 in refused)
        seen = after(seen, decision, "refused" if interval in refused else "applied")
    assert 1 <= len(refused) <= 2  # each of the two has tried once
    assert all(later - earlier >= DEFAULT.pause_s for earlier, later in pairwise(refused))


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("policy", ["parties", "arq", "osml:formula"])
def test_only_what_is_not_in_force_is_undone(policy: str, status: str) -> None:
    seen = start(policy)
    for _ in range(2 * PATIENCE):
        decision = decide(seen)
        if homes(decision.partition) != AT:
            break
        seen = after(seen, decision, "applied")
    moved = homes(decision.partition)
    assert moved != AT
    following = homes(decide(after(seen, decision, status)).partition)
    assert following == (AT if STATUSES.index(status) < 3 else moved)
    other = replace(after(seen, decision, status), outcome=Outcome(seen.seq + 7, status))
    assert homes(decide(other).partition) == moved


def test_the_states_of_both_domains_are_those_from_before_the_move() -> None:
    policy = Placed(Arq(), sites_of(NODE))
    seen = observation(services(), NODE, assignments=HELD)
    state = policy.initial(seen, 0)
    before = state
    while not state.moves:
        before = state
        plan, state = policy.decide(seen, state)
        seen = replace(seen, seq=seen.seq + 1, time_s=seen.time_s + 1.0)
        if not state.moves:
            seen = replace(seen, partition=plan.partition)
    seen = replace(seen, outcome=Outcome(seen.seq - 1, "refused"))
    plan, state = policy.decide(seen, state)
    quiet = replace(before, homes=AT, moves=state.moves)
    expected, same = policy.decide(replace(seen, outcome=None), quiet)
    assert plan.partition == expected.partition
    assert state.inner == same.inner
