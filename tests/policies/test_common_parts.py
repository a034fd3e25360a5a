"""What services share where a resource can't be cut into parts for each of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.allocation.limits import Budget, Limits, common_parts


def ways(total: int, **limits: tuple[int, int]) -> Budget:
    return Budget("ways", total, 1, {name: Limits(*both) for name, both in limits.items()})


def test_without_maxima_all_share_all() -> None:
    assert common_parts(ways(20, a=(1, 20), b=(5, 20)), ["a", "b"], 2) == [(["a", "b"], 20)]


@pytest.mark.parametrize("minimum", [1, 4])
def test_a_service_is_not_held_to_the_maximum_of_a_job(minimum: int) -> None:
    budget = ways(20, a=(minimum, 15), b=(1, 20), d=(1, 20), e=(1, 20), x=(1, 1))
    assert common_parts(budget, list("abdex"), 4) == [(["x"], 1), (["a"], 4), (["b", "d", "e"], 15)]


def test_with_too_few_groups_those_with_the_lowest_maxima_have_one_part() -> None:
    budget = ways(20, a=(1, 6), b=(1, 20), d=(1, 20), x=(1, 1))
    assert common_parts(budget, list("abdx"), 3) == [(["x"], 1), (["a", "b", "d"], 6)]
    assert common_parts(budget, list("abdx"), 2) == [(["a", "b", "d", "x"], 1)]


_LIMITS = st.tuples(st.integers(1, 9), st.integers(0, 15)).map(lambda both: Limits(both[0], both[0] + both[1]))


@given(st.lists(_LIMITS, min_size=1, max_size=6), st.integers(12, 24), st.integers(1, 6))
def test_no_part_is_above_a_maximum_nor_below_a_minimum_that_can_be_kept(
    limits: list[Limits], total: int, groups: int
) -> None:
    names = [f"s{i}" for i in range(len(limits))]
    known = {name: Limits(one.least, min(one.most, total)) for name, one in zip(names, limits, strict=True)}
    parts = common_parts(Budget("ways", total, 1, known), names, groups)
    assert sorted(name for owners, _ in parts for name in owners) == names
    assert sum(units for _, units in parts) <= total
    assert len(parts) == 1 or len(parts) <= groups - 1
    for owners, units in parts:
        assert 1 <= units <= min(known[name].most for name in owners)
        assert len(parts) == 1 or units >= max(known[name].least for name in owners)
