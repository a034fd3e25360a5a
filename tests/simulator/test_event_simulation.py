"""The event simulation against closed forms that it knows nothing of, and by its own accounts."""

import math
from dataclasses import replace

import numpy as np
import pytest

from osml.simulator.queueing.event_simulation import Workload, long_run, window


@pytest.mark.parametrize("utilisation", [0.2, 0.7, 0.9])
def test_regular_service_waits_as_pollaczek_and_khinchine_say(utilisation):
    for cv2 in (0.0, 0.4, 1.5):
        found = long_run(Workload(2.0, cv2, utilisation * 500, 1), 2_000_000, seed=1)
        exact = 2.0 * (1 + utilisation / (1 - utilisation) * (1 + cv2) / 2)
        assert found.all.mean_ms == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize("servers", [1, 4])
def test_without_a_queue_only_the_service_and_the_delay_are_left(servers):
    alone = long_run(Workload(3.0, 0.3, 0.01, servers), 200_000, seed=2).all
    sigma = math.sqrt(math.log1p(0.3))
    assert alone.mean_ms == pytest.approx(3.0, rel=0.01)
    assert alone.quantile(0.99) == pytest.approx(3.0 * math.exp(2.3263 * sigma - sigma**2 / 2), rel=0.02)
    delayed = long_run(Workload(3.0, 0.3, 0.01, servers, delay_probability=0.5, delay_ms=8.0), 200_000, seed=2).all
    assert delayed.mean_ms == pytest.approx(3.0 + 0.5 * 8.0, rel=0.02)


@pytest.mark.parametrize("burstiness", [0.4, 1.0, 2.5, 6.0])
def test_arrivals_have_the_mean_and_burstiness_asked_for(burstiness):
    counts = [len(window(Workload(0.001, 0.0, 1000.0, 50, burstiness), 1.0, seed).latencies_ms) for seed in range(600)]
    assert np.mean(counts) == pytest.approx(1000.0, rel=0.01)
    # For a renewal process the variance of long counts over their mean tends to that of the intervals.
    assert np.var(counts) / np.mean(counts) == pytest.approx(burstiness, rel=0.25)


def test_one_fast_server_serves_better_than_many_slow_ones_but_not_than_all_of_them():
    fast = long_run(Workload(1.0, 1.0, 700.0, 1), 300_000, seed=3).all.mean_ms
    many = long_run(Workload(8.0, 1.0, 700.0, 8), 300_000, seed=3).all.mean_ms
    assert fast < many < 8 * fast


def test_a_server_held_longer_is_a_slower_server_with_shorter_answers():
    held = long_run(Workload(1.0, 0.4, 300.0, 1, hold=2.0), 400_000, seed=4).all
    slow = long_run(Workload(2.0, 0.4, 300.0, 1), 400_000, seed=4).all
    assert held.mean_ms == pytest.approx(slow.mean_ms - 1.0, rel=0.01)


def test_requests_are_neither_lost_nor_made():
    load = Workload(1.0, 0.3, 3000.0, 2)
    left = [window(load, 5.0, seed, backlog=400).backlog for seed in range(40)]
    assert np.mean(left) == pytest.approx(400 + 1000 * 5.0, rel=0.02)
    seen = window(load, 5.0, seed=5, backlog=400)
    last = window(load, 1.0, seed=5, backlog=400, lead_s=4.0)
    assert last.backlog == seen.backlog
    assert (last.latencies_ms == seen.latencies_ms[-len(last.latencies_ms) :]).all()


def test_a_backlog_delays_who_comes_after_and_drains():
    load = Workload(1.0, 0.3, 1000.0, 2)
    behind = window(load, 0.5, seed=6, backlog=2000)
    assert np.median(behind.latencies_ms) == pytest.approx(1000 - 0.25 * 500, rel=0.06)
    assert window(load, 4.0, seed=6, backlog=2000).backlog < 20


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not():
    load = Workload(1.0, 0.3, 1500.0, 2, 2.0, 0.2, 3.0)
    first, again, other = (window(load, 2.0, seed).latencies_ms for seed in (7, 7, 8))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()
    assert (long_run(load, 50_000, 7).all.counts == long_run(load, 50_000, 7).all.counts).all()


def test_the_histogram_agrees_with_the_sorted_response_times():
    load = Workload(1.0, 0.5, 1500.0, 2)
    whole = window(load, 60.0, seed=9).latencies_ms
    counted = long_run(load, len(whole), seed=10)
    for level in (0.5, 0.95, 0.99):
        assert counted.all.quantile(level) == pytest.approx(np.quantile(whole, level), rel=0.05)
    assert counted.all.requests == len(whole)


def test_the_error_of_the_p99_shrinks_with_the_run_and_covers_the_truth():
    load = Workload(1.0, 0.4, 800.0, 1)
    short, long = (long_run(load, n, seed=11).p99_error for n in (60_000, 2_000_000))
    assert long < short / 2
    truth = long_run(load, 4_000_000, seed=12).all.quantile(0.99)
    covered = sum(
        abs(found.all.quantile(0.99) / truth - 1) <= found.p99_error + 0.01
        for found in (long_run(load, 100_000, seed=seed) for seed in range(20, 40))
    )
    assert covered >= 17


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"service_ms": 0.0}, "service_ms is 0.0, expected a finite number above 0"),
        ({"arrivals_per_s": math.nan}, "arrivals_per_s is nan"),
        ({"burstiness": -1.0}, "burstiness is -1.0"),
        ({"cv2": -0.1}, "cv2 is -0.1, expected a finite number from 0"),
        ({"servers": 0}, "servers is 0, expected at least 1"),
        ({"delay_probability": 1.1}, "delay_probability is 1.1"),
    ],
)
def test_an_impossible_workload_is_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        replace(Workload(1.0, 0.3, 500.0, 1), **change)


def test_a_long_run_in_overload_is_refused():
    with pytest.raises(ValueError, match="utilisation is 2, expected less than 1"):
        long_run(Workload(1.0, 0.3, 2000.0, 1), 1000, seed=1)
    with pytest.raises(ValueError, match="backlog is -1"):
        window(Workload(1.0, 0.3, 2000.0, 1), 1.0, seed=1, backlog=-1)
