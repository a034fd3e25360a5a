"""Queueing equations against brute force, closed forms and simulation."""

import math

import numpy as np
import pytest

from osml.virtual import queueing
from osml.virtual.queueing import LEVELS, Response, erlang_c, quantiles, queue_response


@pytest.mark.parametrize("servers", [1, 2, 5, 12, 36])
@pytest.mark.parametrize("utilisation", [0.05, 0.5, 0.9, 0.98])
def test_erlang_c_equals_the_textbook_sum(servers, utilisation):
    load = servers * utilisation
    waiting = load**servers / math.factorial(servers) / (1 - utilisation)
    brute = waiting / (sum(load**k / math.factorial(k) for k in range(servers)) + waiting)
    assert erlang_c(servers, load) == pytest.approx(brute, rel=1e-10)


def test_erlang_c_at_its_limits():
    assert erlang_c(4, 0.0) == 0.0
    assert erlang_c(4, 4.0) == 1.0
    assert erlang_c(4, 9.0) == 1.0
    assert erlang_c(1, 0.3) == pytest.approx(0.3)  # M/M/1: waits exactly when the server is busy
    assert 0 < erlang_c(500, 480.0) < 1  # no overflow


@pytest.mark.parametrize("utilisation", [0.1, 0.6, 0.95])
def test_one_server_with_exponential_service_is_m_m_1(utilisation):
    service_ms = 4.0
    probability, wait = queue_response(service_ms, 1.0, 1.0, utilisation / service_ms * 1000, 1)
    assert probability == pytest.approx(utilisation)
    assert probability * wait == pytest.approx(utilisation * service_ms / (1 - utilisation))


def test_fixed_service_waits_half_as_long_as_exponential():
    _, exponential = queue_response(1.0, 1.0, 1.0, 800.0, 1)
    _, fixed = queue_response(1.0, 0.0, 1.0, 800.0, 1)
    assert fixed == pytest.approx(exponential / 2)  # Pollaczek-Khinchine


def test_utilisation_counts_no_higher_than_the_fluid_takes_over():
    assert queue_response(1.0, 1.0, 1.0, 5000.0, 2) == queue_response(1.0, 1.0, 1.0, 1e9, 2)


@pytest.mark.parametrize(
    "response",
    [
        Response(2.0, 0.3),
        Response(2.0, 0.6, 0.4, 3.0),
        Response(1.0, 0.2, 0.0, 0.0, 0.8, 3.0),
        Response(1.0, 0.5, 0.7, 2.0, 0.5, 2.0),
    ],
)
def test_quantiles_agree_with_sampling(response):
    rng = np.random.default_rng(1)
    n = 400_000
    sigma = math.sqrt(math.log1p(response.cv2))
    samples = response.service_ms * np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)
    samples += (rng.random(n) < response.wait_probability) * rng.exponential(response.wait_ms or 1.0, n)
    samples += (rng.random(n) < response.delay_probability) * rng.exponential(response.delay_ms or 1.0, n)
    for level in (0.5, 0.95, 0.99):
        ours = np.interp(level, LEVELS, quantiles(response))
        assert ours == pytest.approx(np.quantile(samples, level), rel=0.03)
    assert response.mean_ms == pytest.approx(samples.mean(), rel=0.01)


def test_quantiles_rise_with_the_level():
    assert (np.diff(quantiles(Response(1.0, 0.3, 0.9, 30.0))) > 0).all()


def test_normal_tail_matches_the_error_function():
    z = np.linspace(-4, 4, 81)
    exact = np.array([0.5 * math.erfc(x / math.sqrt(2)) for x in z])
    assert max(abs(queueing.normal_tail(x) - y) for x, y in zip(z, exact, strict=True)) < 1e-12
