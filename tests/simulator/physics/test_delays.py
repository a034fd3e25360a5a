"""Two delays as one, beside draws of both."""

from __future__ import annotations

import numpy as np
import pytest

from osml.simulator.queueing import quantile, together

DRAWS = 200_000
CASES = 150
CV2 = 0.3


def case(rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Two delays, the second of few and up to 100 service times long."""
    common = 1.0 if rng.random() < 0.6 else float(10.0 ** rng.uniform(-2.5, 0.0))
    return common, float(10 ** rng.uniform(-1.5, 1)), float(10 ** rng.uniform(-2.7, 0)), float(10 ** rng.uniform(-1, 2))


def test_the_p99_of_a_response_is_that_of_both_delays() -> None:
    rng, errors = np.random.default_rng(1), list[float]()
    spread = np.log1p(CV2)
    service = np.exp(-0.5 * spread + np.sqrt(spread) * rng.standard_normal(DRAWS))
    for _ in range(CASES):
        p, a, q, b = case(rng)
        first = np.where(rng.random(DRAWS) < p, a * rng.exponential(1.0, DRAWS), 0.0)
        second = np.where(rng.random(DRAWS) < q, b * rng.exponential(1.0, DRAWS), 0.0)
        fixed, share, delay = together(p, a, q, b)
        found = quantile(0.99, 1.0 + fixed, CV2, 0.0, 0.0, share, delay)
        errors.append(abs(np.log(found / np.quantile(service + first + second, 0.99))))
    assert np.mean(errors) < 0.025
    assert max(errors) < 0.5


def test_the_mean_is_that_of_both_and_the_probability_is_one() -> None:
    rng = np.random.default_rng(2)
    for _ in range(2000):
        p, a, q, b = case(rng)
        fixed, share, delay = together(p, a, q, b)
        assert fixed + share * delay == pytest.approx(p * a + q * b)
        assert 0.0 < share <= 1.0
        assert fixed >= 0.0
        assert delay >= 0.0


def test_longer_or_more_frequent_delays_beside_one_of_all_do_not_shorten_the_p99() -> None:
    rng = np.random.default_rng(3)

    def p99(*delays: float) -> float:
        fixed, share, delay = together(*delays)
        return float(quantile(0.99, 1.0 + fixed, CV2, 0.0, 0.0, share, delay))

    for _ in range(500):
        _, a, q, b = case(rng)
        now, more = p99(1.0, a, q, b), 1.0 + float(rng.uniform(0.01, 1.0))
        grown = ((1.0, a * more, q, b), (1.0, a, min(q * more, 1.0), b), (1.0, a, q, b * more))
        for longer in grown:
            assert p99(*longer) > 0.98 * now


@pytest.mark.parametrize("tiny", [0.0, 5e-324, 1e-300, 1e-12])
def test_a_delay_of_nothing_changes_nothing(tiny: float) -> None:
    for delays in ((1.0, tiny, 0.2, 10.0), (tiny, 10.0, 0.2, 10.0), (0.2, 10.0, 1.0, tiny), (0.2, 10.0, tiny, 10.0)):
        fixed, share, delay = together(*delays)
        assert (fixed, share, delay) == pytest.approx((0.0, 0.2, 10.0), rel=0.01, abs=1e-9)


@pytest.mark.parametrize("tiny", [0.0, 5e-324, 1e-300, 1e-12])
def test_two_delays_of_nothing_are_nothing(tiny: float) -> None:
    fixed, share, delay = together(tiny, tiny, tiny, tiny)
    assert 0.0 <= fixed + share * delay < 1e-20
