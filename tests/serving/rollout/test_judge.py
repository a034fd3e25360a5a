"""When a canary returns: often where it is worse, seldom where it is not."""

import random

import numpy as np
import pytest
from osml_serving.rollout.judge import Tally, difference
from osml_serving.rollout.plan import Limits
from scipy import stats

LIMITS = Limits(node_hours=0.1, settle_s=0)


def played(
    seed: int, worse: float, nodes: int = 12, hours: float = 4.0, limits: Limits = LIMITS, interval_s: float = 120.0
) -> tuple[bool, float]:
    """Whether a canary on half of the nodes returned, and after how many hours; looked at in every interval."""
    rng, now_s = random.Random(seed), [0.0]
    tally = Tally(limits, clock=lambda: now_s[0])
    usual = {k: rng.betavariate(2, 20) for k in range(nodes)}  # how often each misses, canary or not
    while now_s[0] < 3600 * hours:
        now_s[0] += interval_s
        for k, share in usual.items():
            canary = k < nodes // 2
            missed = rng.random() < min(1.0, share + (worse if canary else 0.0))
            tally.add(f"n{k}", "canary" if canary else "others", interval_s, missed=missed, e_s=None)
        if tally.verdict() is not None:
            return True, now_s[0] / 3600
    assert tally.looks >= hours - 1, "it looks once an hour at least"
    return False, hours


def test_a_canary_that_is_no_worse_seldom_returns():
    """Three days: three windows with their hourly looks."""
    returned = sum(played(seed, 0.0, hours=72.0, interval_s=600.0)[0] for seed in range(100))
    assert returned <= 0.05 * 100 + 3 * (100 * 0.05 * 0.95) ** 0.5


def test_a_canary_that_is_clearly_worse_returns_soon():
    found = [played(seed, 0.4) for seed in range(30)]
    assert sum(returned for returned, _ in found) >= 0.9 * len(found)
    assert np.median([hours for _, hours in found]) < 1


def test_the_margin_is_tolerated():
    generous = Limits(node_hours=0.1, settle_s=0, missed=0.4)
    assert not any(played(seed, 0.3, limits=generous)[0] for seed in range(20))


def test_the_bound_is_that_of_welch():
    rng = np.random.default_rng(3)
    one, other = rng.normal(0.3, 0.1, 5).tolist(), rng.normal(0.2, 0.2, 9).tolist()
    found = difference(one, other, 0.975)
    interval = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    assert found is not None
    assert found.low == pytest.approx(interval.low)


def test_two_nodes_are_too_few_to_judge_by():
    assert difference([1.0, 1.0], [0.0] * 10, 0.95) is None


def with_failures(canary: list[int], others: list[int], decisions: int = 20) -> Tally:
    """So many failures on each node."""
    tally = Tally(LIMITS)
    for arm, failures in (("canary", canary), ("others", others)):
        for k, count in enumerate(failures):
            for _ in range(decisions - count):
                tally.add(f"{arm}-{k}", arm, 1.0, missed=False, e_s=0.1)
            for _ in range(count):
                tally.add_failure(f"{arm}-{k}", arm)
    return tally


def test_failures_of_the_canary_end_it_at_once_where_they_are_its_own():
    assert "failed on 2 of its nodes" in (with_failures([2, 2, 0], [0, 0, 0]).verdict() or "")
    assert with_failures([1, 1, 0], [0, 0, 0]).verdict() is None, "fewer than the limit"
    assert with_failures([9, 0, 0], [0, 0, 0]).verdict() is None, "one node may send what no policy can handle"
    assert "failed on 1 of its nodes" in (with_failures([9], [0, 0]).verdict() or ""), "it has no other node"
    assert with_failures([4, 4, 4], [2, 2, 2]).verdict() is None, "the others fail as well"
    assert with_failures([9, 9, 9], [0] * 99 + [1]).verdict() is not None, "a failure long ago excuses nothing"


def test_a_few_failures_end_no_canary_of_a_large_fleet():
    assert with_failures([2, 2] + [0] * 48, [0] * 50, decisions=100).verdict() is None, "4 of 5,000"
    assert "6 of 5000 decisions" in (with_failures([3, 3] + [0] * 48, [0] * 50, decisions=100).verdict() or "")


def test_a_canary_that_makes_services_fall_silent_is_worse():
    tally = Tally(LIMITS)
    for k in range(12):
        arm = "canary" if k < 6 else "others"
        for second in range(120):
            silent = arm == "canary" and second % 10 >= k % 3
            tally.add(f"n{k}", arm, 60.0, missed=not silent and second % 20 == 1, e_s=None, unmeasured=silent)
    assert "the share of time without a measured latency" in (tally.verdict() or "")
    assert tally.figures("canary").unmeasured == pytest.approx(0.9)
    assert tally.figures("others").unmeasured == 0.0


@pytest.mark.parametrize(("of_the_others", "worse"), [(60, False), (5, True)])
def test_a_canary_whose_decisions_are_not_applied_is_worse(of_the_others, worse):
    """Its agents keep the allocation of before, which meets all targets."""
    tally = Tally(LIMITS)
    for k in range(12):
        arm = "canary" if k < 6 else "others"
        for second in range(120):
            unapplied = second % 60 < (60 if arm == "canary" else of_the_others)
            tally.add(f"n{k}", arm, 60.0, missed=False, e_s=0.1, unapplied=unapplied)
    assert tally.figures("canary").unmeasured == 1.0
    assert tally.figures("others").unmeasured == pytest.approx(of_the_others / 60)
    assert tally.figures("canary").missed == 0.0
    verdict = tally.verdict()
    assert (verdict is not None) == worse
    assert not worse or "without a measured latency or an applied decision is 1.000 on its nodes and 0.083 on" in (
        verdict or ""
    )


def test_time_without_a_latency_hides_no_missed_target():
    tally = Tally(LIMITS)
    for second in range(100):
        tally.add("n", "canary", 1.0, missed=second < 10, e_s=None, unmeasured=second >= 50)
    assert tally.figures("canary").missed == pytest.approx(0.2), "of the 50 s that were measured"


def test_entropy_alone_is_a_verdict():
    tally = Tally(LIMITS)
    for k in range(12):
        arm = "canary" if k < 6 else "others"
        for _ in range(120):
            tally.add(f"n{k}", arm, 60.0, missed=False, e_s=0.4 + 0.01 * k if arm == "canary" else 0.1 + 0.01 * k)
    assert "E_S is 0.425 on its nodes" in (tally.verdict() or "")


def test_looks_with_too_few_nodes_cost_nothing():
    tally = Tally(LIMITS)
    for _ in range(50):
        for k in range(2):
            tally.add(f"c{k}", "canary", 3600.0, missed=True, e_s=None)
            tally.add(f"o{k}", "others", 3600.0, missed=False, e_s=None)
        assert tally.verdict() is None
    assert tally.looks == 0
    assert tally.blind
    for k in (2, 3):
        tally.add(f"c{k}", "canary", 3600.0, missed=True, e_s=None)
        tally.add(f"o{k}", "others", 3600.0, missed=False, e_s=None)
    assert tally.verdict() is not None


@pytest.mark.parametrize("canaries", [0, 2])
def test_a_canary_of_too_few_nodes_is_blind_before_these_have_had_their_time(canaries):
    tally = Tally(Limits(node_hours=10, settle_s=0))
    for hour in range(3):
        assert not tally.blind, f"after {hour} h"
        for k in range(canaries):
            tally.add(f"c{k}", "canary", 3600.0, missed=False, e_s=None)
        for k in range(4):
            tally.add(f"o{k}", "others", 3600.0, missed=False, e_s=None)
    assert tally.blind


def test_a_canary_that_needs_days_for_its_time_is_looked_at_then():
    now = [0.0]
    tally = Tally(Limits(node_hours=200, settle_s=0), clock=lambda: now[0])
    verdicts: list[str | None] = []
    for _ in range(50):
        now[0] += 3600
        for k in range(10):
            tally.add(f"n{k}", "canary" if k < 4 else "others", 3600.0, missed=k < 4, e_s=None)
        verdicts.append(tally.verdict())
    assert verdicts[:-1] == [None] * 49
    assert "a missed target is 1.000 on its nodes" in (verdicts[-1] or "")


@pytest.mark.parametrize("good_hours", [10, 16, 23, 20 * 24])
def test_a_canary_that_turns_bad_later_is_found_within_hours(good_hours):
    now = [0.0]
    tally = Tally(LIMITS, clock=lambda: now[0])

    def hour(share: float) -> str | None:
        now[0] += 3600
        for k in range(20):
            arm = "canary" if k < 10 else "others"
            usual = 0.02 * (k % 5)
            missed = usual + (share if arm == "canary" else 0.0)
            tally.add(f"n{k}", arm, 3600 * missed, missed=True, e_s=None)
            tally.add(f"n{k}", arm, 3600 * (1 - missed), missed=False, e_s=None)
        return tally.verdict()

    assert not any(hour(0.0) for _ in range(good_hours))
    assert any(hour(0.3) for _ in range(6))


def test_the_first_seconds_after_a_change_do_not_count():
    tally = Tally(Limits(settle_s=60))
    for _ in range(90):
        tally.add("n", "others", 1.0, missed=True, e_s=0.5)
    tally.add("n", "canary", 1.0, missed=True, e_s=0.5)
    assert tally.figures("others").seconds == 0, "the node left this arm, and its time with it"
    assert tally.figures("canary").missed is None
    for _ in range(60):
        tally.add("n", "canary", 1.0, missed=False, e_s=0.1)
    assert tally.figures("canary").seconds == pytest.approx(1)
    assert tally.figures("canary").missed == 0
