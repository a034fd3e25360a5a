"""When a canary returns: often where it is worse, seldom where it is not."""

import random

import numpy as np
import pytest
from osml_serving.rollout.judge import Tally, difference
from osml_serving.rollout.plan import Limits
from scipy import stats

LIMITS = Limits(node_hours=0.1, settle_s=0)


def played(seed: int, worse: float, nodes: int = 12, hours: float = 4.0, limits: Limits = LIMITS) -> tuple[bool, float]:
    """Whether a canary on half of the nodes returned, and after how many hours; looked at every minute."""
    rng = random.Random(seed)
    tally = Tally(limits)
    usual = {k: rng.betavariate(2, 20) for k in range(nodes)}  # how often each misses, canary or not
    for minute in range(0, int(hours * 60), 2):
        for k, share in usual.items():
            canary = k < nodes // 2
            missed = rng.random() < min(1.0, share + (worse if canary else 0.0))
            tally.add(f"n{k}", "canary" if canary else "others", 120.0, missed=missed, e_s=None)
        if tally.verdict() is not None:
            return True, minute / 60
    return False, hours


def test_a_canary_that_is_no_worse_seldom_returns():
    returned = sum(played(seed, 0.0)[0] for seed in range(100))
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


def test_failures_of_the_canary_alone_end_it_at_once():
    tally = Tally(LIMITS)
    tally.failures["canary"] = 3
    assert "failed 3 times" in (tally.verdict() or "")
    tally.failures["others"] = 1
    assert tally.verdict() is None


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
