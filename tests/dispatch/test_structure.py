"""What has to hold for every farm: thresholds, their order, and that nothing is better than the optimum."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from osml.base.failure import InputError
from osml.dispatch.mdp.parameters import FarmParameters
from osml.dispatch.mdp.thresholds import ThresholdTable, mean_number, solve

# Rates over several orders of magnitude, as exponents; the time unit is that of the service rate without interference.
EXPONENT = st.floats(-2.5, 1.5)


@st.composite
def farms(draw, most_servers=2, fewest=2, epochs=("literal", "anytime")):
    mu_high = 10.0
    mu_low = mu_high * 10 ** draw(st.floats(-2.5, 0.0))
    alpha_high, alpha_low = 10 ** draw(EXPONENT), 10 ** draw(EXPONENT)
    farm = FarmParameters(
        draw(st.integers(fewest, most_servers)),
        1.0,
        mu_high,
        mu_low,
        alpha_high,
        alpha_low,
        draw(st.sampled_from(epochs)),
    )
    load = draw(st.floats(0.02, 0.98))
    return FarmParameters(farm.servers, load * farm.capacity, mu_high, mu_low, alpha_high, alpha_low, farm.epochs)


@settings(max_examples=60, deadline=None)
@given(farm=farms(most_servers=5, fewest=1))
def test_the_optimal_policy_is_a_threshold_policy_no_worse_than_non_idling(farm):
    solved = solve(farm)
    assert solved.is_threshold_policy
    assert solved.solution.mean_optimal <= solved.solution.mean_non_idling * (1 + 1e-9)
    assert mean_number(farm, solved.table) == pytest.approx(solved.solution.mean_optimal, rel=1e-9)
    idle = mean_number(farm, ThresholdTable.non_idling(farm.servers))
    assert idle == pytest.approx(solved.solution.mean_non_idling, rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(farm=farms())
def test_thresholds_of_two_servers_are_ordered(farm):
    named = solve(farm).table.named()
    assert named["N_i"] >= named["N_ib"] >= named["N_ii"] >= named["N_ib"] - 1


@settings(max_examples=60, deadline=None)
@given(farm=farms(most_servers=4), seed=st.integers(0, 2**32 - 1))
def test_no_other_thresholds_are_better(farm, seed):
    solved = solve(farm)
    moves = np.random.default_rng(seed).integers(-3, 4, len(solved.table.sizes))
    other = {
        state: max(0, size + int(move)) for (state, size), move in zip(solved.table.sizes.items(), moves, strict=True)
    }
    mean = mean_number(farm, ThresholdTable(farm.servers, other))
    assert mean >= solved.solution.mean_optimal * (1 - 1e-9) - solved.solution.error_bound


@settings(max_examples=40, deadline=None)
@given(farm=farms(epochs=("literal",), most_servers=4))
def test_to_decide_at_any_time_is_never_worse(farm):
    anytime = FarmParameters(**{**farm.__dict__, "epochs": "anytime"})
    assert solve(anytime).solution.mean_optimal <= solve(farm).solution.mean_optimal * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(farm=farms(most_servers=4, fewest=1))
def test_the_stationary_distribution_says_the_same_as_the_relative_values(farm):
    optimal = solve(farm).solution.optimal
    assert optimal.mean_by_distribution() == pytest.approx(optimal.mean, rel=1e-7)
    assume(farm.load < 0.6)
    marginal = optimal.distribution(60)
    assert (marginal >= 0).all()
    assert marginal.sum() <= 1 + 1e-9


def test_with_more_than_two_servers_one_more_busy_server_can_move_the_threshold_by_more_than_one():
    found = solve(FarmParameters(5, 0.59, 50.0, 0.27, 1.17, 0.02)).table.sizes
    assert found[2, 1] - found[2, 0] == 12
    assert all(size >= 5 - i + b for (i, b), size in found.items())


@pytest.mark.parametrize("load", [0.999, 0.999999])
def test_next_to_saturation_the_mean_grows_as_the_distance_shrinks(load):
    farm = FarmParameters(2, load * 51.0, 50.0, 1.0, 0.3, 0.3)
    solution = solve(farm).solution
    assert solution.mean_optimal * (1 - load) == pytest.approx(40.24, rel=0.03)
    assert solution.error_bound < 1e-6 * solution.mean_optimal


def test_never_using_a_slow_server_can_be_too_little():
    farm = FarmParameters(2, 50.9, 50.0, 1.0, 0.3, 0.3)
    with pytest.raises(InputError, match="grows without bound"):
        mean_number(farm, ThresholdTable.avoid(2))
