"""Abilities of partitions: the paper's lemmas, its table II, and the counting behind its observations."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.base.failure import InputError
from osml.domain import Knobs, Partition, Region
from osml.lab.theory.abilities import abilities, changes, mean_abilities, relative_gain, tolerance_ability, uncertainty

NAMES = ("a", "b", "c")
RANKS = {"a": 0, "b": 0, "c": 1}
EVERYBODY = Partition([Region(list(NAMES), 8, 11)])


@st.composite
def partitions(draw):
    owners = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)
    regions = draw(st.lists(st.builds(Region, owners, st.integers(0, 4), st.integers(0, 4)), max_size=6))
    priorities = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3)))
    return Partition(regions, knobs={name: Knobs(realtime_priority=p) for name, p in priorities.items()})


@given(partitions(), st.sampled_from(["cores", "ways"]))
def test_isolation_and_priority_each_imply_distinction(partition, resource):
    found = abilities(partition, resource, 24, RANKS)
    assert found.da >= found.ia - 1e-12  # lemma 1
    assert found.da >= found.pa - 1e-12  # lemma 2
    assert found.ia + found.pa <= 1.0 + 1e-12  # lemma 3: no slice has both
    assert min(found.ia, found.pa) >= 0.0
    assert found.da <= 1.0 + 1e-12


def test_the_three_strategies_of_the_paper_are_of_the_kinds_that_it_says():
    even = Partition([Region(["a"], 3, 4), Region(["b"], 3, 4), Region(["c"], 2, 3)])
    priority = Partition(EVERYBODY.regions, knobs={"a": Knobs(realtime_priority=9), "b": Knobs(realtime_priority=9)})
    kinds = [abilities(partition, "cores", 8, RANKS).kind for partition in (EVERYBODY, even, priority)]
    assert kinds == ["{}", "{D, I}", "{D, P}"]
    assert abilities(priority, "ways", 11, RANKS).kind == "{}"


def test_a_region_of_some_is_told_apart_but_neither_isolated_nor_ordered():
    partly = Partition([Region(["a"], 2), Region(["b", "c"], 4), Region(["a", "b", "c"], 2)])
    found = abilities(partly, "cores", 10, RANKS)  # 2 cores are nobody's
    assert (found.ia, found.pa, found.da) == (0.4, 0.0, 0.8)


def test_a_priority_against_criticality_is_none():
    upside_down = Partition(EVERYBODY.regions, knobs={"c": Knobs(realtime_priority=9)})
    assert abilities(upside_down, "cores", 8, RANKS).pa == 0.0


def test_tolerance_of_table_ii():
    table = [(2.77, 4.22), (2.80, 10.53), (1.41, 3.98)]
    assert [round(tolerance_ability([row]), 2) for row in table] == [0.34, 0.73, 0.65]
    assert tolerance_ability(table) / 3 == pytest.approx(0.57, abs=0.01)  # the paper's row "System"


def test_uncertainty_is_standard_deviation_over_mean():
    assert uncertainty([1.0, 3.0]) == 0.5
    assert uncertainty([4.0, 4.0, 4.0]) == 0.0
    assert uncertainty([4.0]) is None
    assert uncertainty([4.0, math.inf]) is None


@given(st.floats(0.01, 100.0), st.floats(0.01, 100.0))
def test_a_gain_of_latency_is_one_of_speed(before, after):
    gain = relative_gain(before, after, smaller_is_better=True)
    assert gain == pytest.approx(relative_gain(1.0 / before, 1.0 / after, smaller_is_better=False))
    assert (gain > 0) == (after < before)


def test_gains_against_what_never_answered():
    assert relative_gain(math.inf, 5.0, smaller_is_better=True) == math.inf
    assert relative_gain(5.0, math.inf, smaller_is_better=True) == -1.0
    assert math.isnan(relative_gain(math.inf, math.inf, smaller_is_better=True))


def test_changes_are_counted_with_a_margin():
    found = changes([0.5, 0.0005, -0.0005, -0.5, math.nan, math.inf], 0.001)
    assert (found.better, found.same, found.worse) == (2, 3, 1)
    assert found.better_pct == pytest.approx(100 / 3)
    assert changes([], 0.1).better_pct is None


def test_abilities_over_time_are_the_mean():
    shared, own = (abilities(p, "cores", 8, RANKS) for p in (EVERYBODY, Partition([])))
    assert mean_abilities([shared, own]).ia == 0.5
    with pytest.raises(InputError, match="no time slices"):
        mean_abilities([])
