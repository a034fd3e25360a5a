"""What the osml policy knows of a service after one more interval."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from osml.allocation.staffing import used_cpus
from osml.domain import Counters, Latency, Service
from osml.policies.osml.answers.forecast import Answer
from osml.policies.osml.memory.state import Correction, Track
from osml.policies.osml.node import Cell
from osml.policies.osml.settings import DEFAULT
from osml.policies.osml.track import after_interval, drains, really_missed
from tests.kit.fake_models import service

CELL = Cell(8, 4)


def _answer(oaa: float = 6.0) -> Answer:
    return Answer("a", "m", True, (5.0, 4.0), (5.6, 6.0), (oaa, 2.0), (oaa + 0.7, 2.0), 1.0, None)


def learned(track: Track | None, answer: Answer, one: Service, cell: Cell | None = CELL) -> Track:
    return after_interval(track, answer, one, cell, 1.0, DEFAULT)[0]


def moved(track: Track, one: Service) -> bool:
    return after_interval(track, _answer(), one, CELL, 1.0, DEFAULT)[1]


def _track(**changes: Any) -> Track:
    return replace(learned(None, _answer(), service("a")), **changes)


def test_needs_are_means_of_what_was_predicted_while_nothing_changed() -> None:
    track = _track()
    for _ in range(3):
        track = learned(track, _answer(8.0), service("a"))
    assert track.oaa[0] == pytest.approx(6.0 + 3 * 2.0 / 4)
    other = learned(track, _answer(20.0), service("a"), Cell(20, 4))
    assert other.oaa == track.oaa  # a part of the interval was in the old cell
    assert other.settled == 0


def test_old_predictions_fade() -> None:
    track = _track()
    for _ in range(60):
        track = learned(track, _answer(8.0), service("a"))
    assert track.oaa[0] > 7.99


def test_what_a_cell_showed_is_believed_among_others_for_a_while_and_then_forgotten() -> None:
    track, believed = _track(cell=None, confined=True), 0
    while track.confined:
        assert track.oaa[0] == 6.0
        track = learned(track, _answer(20.0), service("a"), None)
        believed += 1
    assert believed == 14
    assert track.oaa[0] == 20.0


def test_a_starved_service_teaches_nothing() -> None:
    track = _track(settled=3)
    assert learned(track, _answer(1.0), service("a", 5.0)).oaa == track.oaa


def test_a_queue_that_drains_in_a_new_cell_teaches_nothing_and_one_that_stays_does() -> None:
    track = _track(confined=False, settled=1, streak=-2, latency_ms=40.0)
    assert learned(track, _answer(20.0), service("a", 3.0)).oaa == track.oaa  # 40 ms, now 30
    stays = learned(replace(track, latency_ms=30.0), _answer(20.0), service("a", 3.0))
    assert stays.oaa[0] == 20.0


def test_another_rate_of_requests_is_another_load_beyond_its_noise() -> None:
    track = _track(rate=1000.0)
    assert not moved(track, service("a", rate=1100.0))
    assert moved(track, service("a", rate=1500.0))
    assert learned(track, _answer(20.0), service("a", rate=1500.0)).oaa[0] == 20.0
    assert not moved(_track(rate=10.0), service("a", rate=15.0))  # ten requests more or less are noise
    long, short = (replace(track, streak=-2, latency_ms=latency_ms) for latency_ms in (900.0, 12.0))
    assert not moved(long, service("a", 3.0, rate=1500.0))  # a queue drains: completions are not arrivals
    # a wait of 12 ms can't have held back half of a second's requests
    assert moved(short, service("a", 3.0, rate=1500.0))
    assert not moved(short, service("a", 3.0, rate=500.0))


def test_another_target_is_another_question() -> None:
    track = _track(correction=Correction(3, 1, 900.0, 2))
    strict, lax = replace(service("a"), target_ms=5.0), replace(service("a"), target_ms=20.0)
    assert moved(track, strict)
    assert learned(track, _answer(9.0), strict).correction == track.correction
    assert learned(track, _answer(9.0), lax).correction == Correction()
    assert learned(track, _answer(9.0), lax).oaa[0] == 9.0


def test_a_smaller_load_keeps_its_share_of_a_correction() -> None:
    track = _track(rate=1000.0, streak=3, correction=Correction(8, 4, 900.0, 2))
    assert learned(track, _answer(), service("a", rate=500.0)).correction == Correction(4, 2, 900.0, 2)
    assert learned(track, _answer(), service("a", rate=2000.0)).correction == track.correction


def test_streaks_count_intervals_that_were_measured() -> None:
    track = _track()
    for ratio, met, missed in (
        (0.5, 2, 0),
        (None, 2, 0),
        (0.9, 3, 0),
        (1.1, 0, 1),
        (1.1, 0, 2),
        (None, 0, 2),
        (0.5, 1, 0),
    ):
        track = learned(track, _answer(), service("a", ratio))
        assert (track.met, track.missed) == (met, missed)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -1.0, 1e30])
def test_what_is_no_amount_counts_as_not_measured(odd: float) -> None:
    one = service("a", counters=Counters(cpu_usage_cores=odd))
    one = replace(one, latency=replace(one.latency, requests_per_s=odd))
    track = learned(None, _answer(), one)
    assert (track.rate, used_cpus(one)) == (None, None)
    assert not moved(replace(track, rate=1000.0), one)


def test_a_miss_is_real_beyond_the_noise_of_its_tail_or_in_the_mean() -> None:
    track = _track(streak=-1, level=1.02, settled=5)

    def missed(known: Track, ratio: float, samples: int) -> bool:
        one = replace(service("a"), latency=Latency(p99_ms=10.0 * ratio, samples=samples))
        return really_missed(known, one, DEFAULT)

    assert not missed(track, 1.3, 400)  # four requests in the tail: 1 + 1 / sqrt(4)
    assert missed(track, 1.6, 400)
    assert missed(track, 1.15, 100_000)
    assert missed(replace(track, level=1.2), 1.1, 400)
    assert missed(replace(track, settled=DEFAULT.hovers), 1.01, 400)  # however small: it lasts
    assert not missed(replace(track, settled=DEFAULT.hovers, level=0.99), 1.01, 400)
    assert not missed(replace(track, streak=1), 0.9, 400)


def test_a_tail_of_few_requests_moves_the_mean_latency_less() -> None:
    def level(samples: int | None) -> float:
        one = replace(service("a"), latency=Latency(p99_ms=15.0, samples=samples))
        found = learned(_track(cell=CELL, level=0.5, settled=5), _answer(), one).level
        assert found is not None
        return found

    assert level(None) == level(100_000) == pytest.approx(0.5 + 0.3 * 0.8)  # 1.5 counts as 1.3
    assert level(400) == pytest.approx(0.5 + 0.15 * 0.8)
    assert level(10) == pytest.approx(0.5 + 0.1 * 0.8)


def test_a_queue_drains_where_its_end_is_in_sight() -> None:
    track = _track(latency_ms=200.0)
    assert drains(track, service("a", 19.0), DEFAULT)
    assert not drains(track, service("a", 19.99), DEFAULT)
    assert not drains(track, service("a", 21.0), DEFAULT)
    assert not drains(None, service("a", 19.0), DEFAULT)
