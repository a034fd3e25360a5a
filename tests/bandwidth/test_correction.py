"""The runtime correction: it relaxes slowly, gives up at once, and does not try again what failed."""

from hypothesis import given
from hypothesis import strategies as st

from osml.bandwidth import Correction, Outlook, corrected
from osml.bandwidth.correction import PARTS, part_of


def seen(tail_ms: float, position: float = 0.5) -> Outlook:
    return Outlook(position, tail_ms, slo_ms=200.0, best_ms=2.0)


def after(correction: Correction, outlook: Outlook, times: int = 1) -> Correction:
    for _ in range(times):
        correction = corrected(correction, outlook)
    return correction


def test_calm_intervals_lower_the_factor_of_their_part_only():
    found = after(Correction(), seen(2.0), 40)
    part = part_of(0.5)
    assert 0.2 <= found.factors[part] < 0.8
    assert all(factor == 1.0 for i, factor in enumerate(found.factors) if i != part)


def test_one_calm_interval_changes_nothing():
    assert corrected(Correction(), seen(2.0)).factors == Correction().factors


def test_a_queue_is_neither_calm_nor_an_alarm():
    assert seen(50.0).queued and not seen(50.0).calm and not seen(50.0).alarming
    assert after(Correction(), seen(50.0), 50).factors == Correction().factors


def test_an_alarm_raises_the_factor_and_what_failed_is_not_tried_again():
    relaxed = after(Correction(), seen(2.0), 20)
    part = part_of(0.5)
    failed = relaxed.factors[part]
    alarmed = corrected(relaxed, seen(150.0))
    assert alarmed.factors[part] > failed
    assert after(alarmed, seen(2.0), 200).factors[part] > failed
    assert all(alarmed.floors[near] > failed for near in (part - 1, part, part + 1))


def test_a_backlog_is_laid_to_the_part_that_was_decided_on():
    relaxed = after(Correction(), seen(2.0, 0.9), 20)
    alarmed = corrected(relaxed, seen(150.0, 0.1))
    assert alarmed.floors[part_of(0.9)] > relaxed.floors[part_of(0.9)]
    assert alarmed.factors[part_of(0.1)] == 1.0


def test_a_profile_that_promised_too_much_is_raised_above_one():
    started = corrected(Correction(), seen(50.0))
    assert after(started, seen(190.0), 3).factors[part_of(0.5)] > 1.2


def test_a_wait_that_hides_the_rate_is_an_alarm_though_the_target_is_far():
    assert not Outlook(0.5, 600.0, slo_ms=5000.0, best_ms=2.0).alarming
    assert Outlook(0.5, 600.0, slo_ms=5000.0, best_ms=2.0, interval_ms=1000.0).alarming
    assert not Outlook(0.5, 400.0, slo_ms=5000.0, best_ms=2.0, interval_ms=1000.0).alarming


def test_a_target_below_the_best_tail_is_an_alarm():
    assert Outlook(0.5, 3.0, slo_ms=1.0, best_ms=2.0).alarming


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(-1, 2)), max_size=60))
def test_factors_stay_within_their_bounds(history):
    correction = Correction()
    for tail_ms, position in history:
        correction = corrected(correction, seen(tail_ms, position))
        assert len(correction.factors) == PARTS
        assert all(0.2 <= factor <= 4.0 for factor in correction.factors)
        assert all(floor <= 1.0 for floor in correction.floors)
