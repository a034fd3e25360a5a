"""Queueing equations against brute force, closed forms and simulation."""

import math
from dataclasses import astuple
from functools import cache

import numpy as np
import pytest

from osml.simulator import queueing
from osml.simulator.queueing import LEVELS, Response, erlang_c, quantiles, queue_response
from osml.simulator.queueing.distribution import normal_quantile


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


def mean_wait(cv2, burstiness, utilisation, servers, service_ms=4.0):
    arrivals = utilisation * servers / service_ms * 1000
    return math.prod(queue_response(service_ms, cv2, burstiness, arrivals, servers)) / service_ms


# -- mean waits in closed form ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("utilisation", [0.05, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("cv2", [0.0, 0.25, 0.6, 1.0, 1.7])
def test_one_server_waits_as_pollaczek_and_khinchine_say(utilisation, cv2):
    exact = utilisation / (1 - utilisation) * (1 + cv2) / 2
    assert mean_wait(cv2, 1.0, utilisation, 1) == pytest.approx(exact)


@pytest.mark.parametrize("utilisation", [0.1, 0.6, 0.95])
@pytest.mark.parametrize("servers", [1, 2, 7, 36])
def test_exponential_service_waits_as_in_m_m_n(utilisation, servers):
    exact = erlang_c(servers, utilisation * servers) / servers / (1 - utilisation)
    assert mean_wait(1.0, 1.0, utilisation, servers) == pytest.approx(exact)


@pytest.mark.parametrize(("servers", "utilisation"), [(2, 0.3), (2, 0.7), (5, 0.8), (10, 0.9)])
def test_fixed_service_with_many_servers_waits_as_in_m_d_n(servers, utilisation):
    """Exact: requests in M/D/n seen once a service time lose min(n, them) and gain a Poisson number (Crommelin)."""
    size, offered = 400, servers * utilisation
    gain = np.exp([-offered + j * math.log(offered) - math.lgamma(j + 1) for j in range(size)])
    step = np.zeros((size, size))
    for now in range(size):
        left = max(now - servers, 0)
        step[now, left:] = gain[: size - left]
    present = np.linalg.matrix_power(step, 1 << 14)[0]
    waiting = float(np.maximum(np.arange(size) - servers, 0) @ present / present.sum())
    exact = waiting / offered  # Little
    assert mean_wait(0.0, 1.0, utilisation, servers) == pytest.approx(exact, rel=0.10)


@pytest.mark.parametrize("utilisation", [0.1, 0.4, 0.8])
@pytest.mark.parametrize("burstiness", [1.5, 2.5, 6.0])
def test_bursty_arrivals_at_one_exponential_server_wait_as_in_gi_m_1(utilisation, burstiness):
    """P(wait) = sigma and E(wait) = sigma/(1 - sigma) services, where sigma solves sigma = A*(1 - sigma)."""
    p = (1 + math.sqrt((burstiness - 1) / (burstiness + 1))) / 2
    rates = (2 * p * utilisation, 2 * (1 - p) * utilisation)
    sigma = 0.5
    for _ in range(2000):
        sigma = sum(share * r / (r + 1 - sigma) for share, r in zip((p, 1 - p), rates, strict=True))
    assert mean_wait(1.0, burstiness, utilisation, 1) == pytest.approx(sigma / (1 - sigma), rel=1e-6)


def test_steady_arrivals_wait_least():
    found = [queue_response(10.0, 1.0, burstiness, 300.0, 4)[0] for burstiness in (0.0, 1e-4, 1e-3, 0.01, 0.5)]
    assert found[0] == pytest.approx(found[2], rel=0.01)
    assert found == sorted(found)


def test_without_arrivals_nobody_waits():
    assert queue_response(1.0, 0.5, 1.0, 0.0, 4) == (0.0, 0.0)
    assert queue_response(1.0, 0.5, 2.0, 0.0, 4) == (0.0, 0.0)


@pytest.mark.parametrize("burstiness", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("servers", [1, 2, 5, 36])
@pytest.mark.parametrize("cv2", [0.0, 0.3, 1.5])
def test_waits_rise_with_the_load_up_to_the_cap(burstiness, servers, cv2):
    waits = [mean_wait(cv2, burstiness, u, servers) for u in (*np.linspace(0.01, 0.98, 60), queueing.MAX_UTILISATION)]
    assert (np.diff(waits) >= 0).all()
    assert mean_wait(cv2, burstiness, 0.995, servers) == pytest.approx(waits[-1])


def test_random_waits_in_overload_fade_with_the_distance_from_saturation_and_behind_a_backlog():
    _, wait = queue_response(1.0, 0.3, 1.0, 8 * 1100.0, 8)
    _, further = queue_response(1.0, 0.3, 1.0, 8 * 1300.0, 8)
    assert further < wait
    assert queueing.behind_backlog(wait, 0.0) == wait
    assert queueing.behind_backlog(wait, wait) == pytest.approx(wait / math.e)
    assert queueing.behind_backlog(0.0, wait) == 0.0


# -- the whole distribution ------------------------------------------------------------------------------------------


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
        assert ours == pytest.approx(np.quantile(samples, level), rel=0.01)
        assert ours == pytest.approx(queueing.quantile(level, *astuple(response)), rel=0.005)
    assert response.mean_ms == pytest.approx(samples.mean(), rel=0.01)


def test_quantiles_rise_with_the_level():
    assert (np.diff(quantiles(Response(1.0, 0.3, 0.9, 30.0))) > 0).all()


def test_normal_tail_matches_the_error_function():
    z = np.linspace(-4, 4, 81)
    exact = np.array([0.5 * math.erfc(x / math.sqrt(2)) for x in z])
    assert max(abs(queueing.normal_tail(x) - y) for x, y in zip(z, exact, strict=True)) < 1e-12


@pytest.mark.parametrize("level", [1e-6, 0.01, 0.3, 0.5, 0.9, 0.99, 1 - 1e-6])
def test_normal_quantile_inverts_the_tail(level):
    assert queueing.normal_tail(-normal_quantile(level)) == pytest.approx(level, rel=1e-7)


@cache
def normal_grades():
    return np.array([normal_quantile((k + 0.5) / 200_000) for k in range(200_000)])


@pytest.mark.parametrize("wait", [1e-4, 0.02, 1.0, 50.0])
@pytest.mark.parametrize("cv2", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99, 0.9999])
def test_a_quantile_is_where_a_fine_integral_of_the_tail_says(wait, cv2, level):
    probability = 0.6
    found = queueing.quantile(level, 1.0, cv2, probability, wait, 0.0, 0.0)
    sigma = max(math.sqrt(math.log1p(cv2)), 1e-6)
    service = np.exp(sigma * normal_grades() - sigma**2 / 2)
    late = np.where(service > found, 1.0, probability * np.exp(-np.maximum(found - service, 0.0) / wait))
    assert late.mean() == pytest.approx(1 - level, rel=0.02)


# -- the table -------------------------------------------------------------------------------------------------------


def random_queues(count, seed=3):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        cv2 = float(rng.choice([0.05, 0.15, 0.25, 0.6, 0.8, 1.5]))
        servers = int(rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 36, 64]))
        utilisation = float(rng.choice([rng.uniform(0.01, 0.985), rng.uniform(0.9, 0.985)]))
        burstiness = float(rng.choice([1.0, 1.0, 2.0, 4.0]))
        service_ms = float(10 ** rng.uniform(-2, 3))
        yield (
            service_ms,
            cv2,
            *queue_response(service_ms, cv2, burstiness, utilisation * servers * 1000 / service_ms, servers),
        )


def test_the_table_is_within_one_percent_of_the_quantile():
    for service_ms, cv2, probability, wait in random_queues(4000):
        fast = queueing.percentiles(queueing.percentile_table(cv2), service_ms, cv2, probability, wait, 0.0, 0.0)
        assert fast[0] == pytest.approx(service_ms + probability * wait)
        for level, ours in zip(queueing.PERCENTILES, fast[1:], strict=True):
            exact = queueing.quantile(level, service_ms, cv2, probability, wait, 0.0, 0.0)
            assert ours == pytest.approx(exact, rel=0.01), (service_ms, cv2, probability, wait, level)


def test_percentiles_with_a_scheduling_delay_are_within_one_percent_of_the_quantile():
    rng = np.random.default_rng(4)
    for service_ms, cv2, probability, wait in random_queues(1500, seed=5):
        certain = rng.random() < 0.3
        delay = 1.0 if certain else float(rng.uniform(0, 1)), float(10 ** rng.uniform(-4, 2)) * service_ms
        fast = queueing.percentiles(queueing.percentile_table(cv2), service_ms, cv2, probability, wait, *delay)
        for level, ours in zip(queueing.PERCENTILES, fast[1:], strict=True):
            exact = queueing.quantile(level, service_ms, cv2, probability, wait, *delay)
            assert ours == pytest.approx(exact, rel=0.01), (service_ms, cv2, probability, wait, delay, level)


def test_a_table_of_an_impossible_cv2_is_refused():
    with pytest.raises(ValueError, match="cv2 is nan, expected a finite number from 0"):
        queueing.percentile_table(math.nan)
