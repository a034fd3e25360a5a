"""What programs that share a cache or CPUs do to each other."""

import math

import pytest
from scipy.integrate import quad

from osml.virtual.cache import insertion_ratio, miss_ratio
from osml.virtual.cpu import turn_ms


@pytest.mark.parametrize("curve", [(0.01, 2.0, 1.5), (0.4, 18.0, 2.0), (0.05, 10.0, 3.0)])
@pytest.mark.parametrize("mib", [0.5, 5.0, 30.0])
def test_sharers_insert_as_much_as_lets_all_lines_have_the_same_age(curve, mib):
    age = quad(lambda held: 1.0 / miss_ratio(*curve, held), 0.0, mib)[0]
    assert insertion_ratio(*curve, mib) == pytest.approx(mib / age, rel=0.03)


def test_whoever_uses_its_data_again_inserts_no_less_than_it_misses():
    for mib in (0.1, 1.0, 10.0, 50.0):
        assert miss_ratio(0.01, 2.0, 2.0, mib) <= insertion_ratio(0.01, 2.0, 2.0, mib) <= 1.0


def test_a_turn_of_cfs_is_sched_latency_until_there_are_more_than_eight_threads():
    assert turn_ms(3.0, 1.0, False) == pytest.approx(12.0)  # two threads: half of 24 ms each
    assert turn_ms(3.0, 7.0, False) == pytest.approx(21.0)
    assert turn_ms(3.0, 11.0, False) == pytest.approx(33.0)  # min_granularity each
    assert turn_ms(100.0, 2.0, True) == pytest.approx(200.0)  # SCHED_RR
    assert math.isfinite(turn_ms(3.0, 0.0, False))
