"""Shapley values add up, give equals the same, and give those who do nothing nothing."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.twin.advice.shapley import MOST_EXACT, shapley


@given(st.lists(st.floats(-100, 100), min_size=32, max_size=32))
def test_they_add_up_and_are_the_mean_over_all_orders(values: list[float]) -> None:
    found = shapley(lambda there: values[there], 5)
    assert sum(found) == pytest.approx(values[31] - values[0], abs=1e-6)
    added = np.zeros(5)
    for order in permutations(range(5)):
        there = 0
        for cause in order:
            added[cause] += values[there | 1 << cause] - values[there]
            there |= 1 << cause
    assert found == pytest.approx((added / 120).tolist(), abs=1e-6)


@given(st.lists(st.floats(0, 10), min_size=MOST_EXACT + 3, max_size=MOST_EXACT + 3), st.integers(0, 5))
def test_drawn_orders_add_up_too_and_are_exact_where_causes_do_not_mix(parts: list[float], seed: int) -> None:
    found = shapley(
        lambda there: sum(p for i, p in enumerate(parts) if there >> i & 1), len(parts), seed=seed, orders=3
    )
    assert found == pytest.approx(parts, abs=1e-6)


def test_the_same_seed_gives_the_same_values_and_each_set_is_asked_for_once() -> None:
    asked: list[int] = []

    def value(there: int) -> float:
        asked.append(there)
        return float(there.bit_count() ** 2)

    first = shapley(value, 12, seed=4, orders=2)
    assert len(asked) == len(set(asked))
    assert first == shapley(value, 12, seed=4, orders=2)
    assert sum(first) == pytest.approx(144)


def test_who_changes_nothing_has_nothing_and_equals_share() -> None:
    found = shapley(lambda there: 6.0 if there & 0b011 == 0b011 else 0.0, 3)
    assert found == pytest.approx([3.0, 3.0, 0.0])
