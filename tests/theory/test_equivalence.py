"""Resource equivalence: of a policy with itself, of shifted curves, and against the paper's table II."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from osml.base.failure import InputError
from osml.lab.theory.equivalence import EntropyCurve, cores_needed, cores_worth, equivalence, isentropic_line

CORES = tuple(range(4, 11))
FALLING = st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7).map(
    lambda e: EntropyCurve(CORES, tuple(sorted(e)[::-1]))
)
ANY = st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7).map(lambda e: EntropyCurve(CORES, tuple(e)))
LEVEL = st.floats(0.01, 0.99)


@given(ANY, LEVEL)
def test_a_policy_is_worth_nothing_against_itself(curve, level):
    assert equivalence(curve, curve, level) in (0.0, None)


@given(ANY, ANY, LEVEL)
def test_what_one_saves_the_other_spends(one, other, level):
    saved, spent = equivalence(one, other, level), equivalence(other, one, level)
    assert (saved is None) == (spent is None)
    assert saved is None or saved == -spent


@given(FALLING, LEVEL)
def test_with_the_cores_that_it_needs_a_policy_has_that_entropy(curve, level):
    need = cores_needed(curve, level)
    if need.cores is None:
        assert curve.e_s[0] <= level if need.beyond == "fewer" else curve.e_s[-1] > level
    else:
        assert curve.at(need.cores) == pytest.approx(level)


@given(FALLING, LEVEL, st.integers(1, 5))
def test_a_policy_that_needs_k_cores_more_everywhere_is_worth_k_cores_less(curve, level, k):
    later = EntropyCurve(tuple(cores + k for cores in curve.cores), curve.e_s)
    assume(cores_needed(curve, level).cores is not None)
    assert equivalence(curve, later, level) == pytest.approx(k)


def test_table_ii_puts_unmanaged_at_6_83_cores_where_figure_12_says_7_61():
    table = EntropyCurve((6, 7, 8), (0.55, 0.19, 0.0))
    assert cores_needed(table, 0.25).cores == pytest.approx(6.833, abs=0.001)


def test_a_lucky_dip_on_the_way_does_not_count():
    curve = EntropyCurve((4, 5, 6, 7), (0.6, 0.1, 0.5, 0.1))
    assert cores_needed(curve, 0.3).cores == pytest.approx(6.5)
    assert curve.rises == [(6, pytest.approx(0.4))]


def test_cores_worth_is_where_the_other_reaches_the_same_entropy():
    better, worse = EntropyCurve((4, 5, 6), (0.4, 0.2, 0.1)), EntropyCurve((4, 5, 6), (0.6, 0.4, 0.0))
    assert cores_worth(better, worse, 4).cores == 5.0
    assert cores_worth(better, worse, 5).cores == 5.5
    assert cores_worth(worse, worse, 5).cores == 5.0


def test_an_isentropic_line_has_one_need_for_each_number_of_ways():
    grid = np.array([[0.9, 0.5, 0.2], [0.6, 0.3, 0.1]])  # (cores, ways)
    line = isentropic_line([4, 5], grid, 0.4)
    assert [need.cores for need in line] == [None, pytest.approx(4.5), None]
    assert [need.beyond for need in line] == ["more", None, "fewer"]
    assert [str(need)[:5] for need in line] == ["more ", f"{line[1].cores:.2f}", "fewer"]


@pytest.mark.parametrize(
    ("cores", "entropies", "said"),
    [
        ((), (), "expected one for each"),
        ((5, 4), (0.1, 0.2), "expected ascending numbers"),
        ((4, 5), (0.1, 1.2), "E_S is 1.2, expected a number from 0 to 1"),
        ((4, 5), (0.1, float("nan")), "E_S is nan"),
    ],
)
def test_a_curve_that_can_not_be_is_refused(cores, entropies, said):
    with pytest.raises(InputError, match=said):
        EntropyCurve(cores, entropies)


def test_levels_and_sizes_out_of_range_are_refused():
    curve = EntropyCurve((4, 5), (0.5, 0.1))
    with pytest.raises(InputError, match="level is 1"):
        cores_needed(curve, 1.0)
    with pytest.raises(InputError, match="cores are 6, measured are 4 to 5"):
        curve.at(6)
    with pytest.raises(InputError, match=r"E_S has the shape \(3, 1\)"):
        isentropic_line([4, 5], np.zeros((3, 1)), 0.5)
