"""How one more interval changes what is known of a service."""

from __future__ import annotations

import math

from msgspec.structs import replace

from osml.domain import Service
from osml.policies.osml.answers.forecast import Answer
from osml.policies.osml.memory.state import Correction, Track
from osml.policies.osml.node import Cell
from osml.policies.osml.settings import Settings

_RATE_ERRORS = 4.0  # standard errors of a counted rate
_FADE = 0.3  # share of the last interval in a mean of measurements
_FADE_LEAST = 0.1  # the same where few requests make the tail
_TAIL_FULL = 8.0  # requests beyond the percentile in an interval, from which it has its full share of the mean
_WORST = 1.3  # latency over target that counts at most in its mean: what a queue was once is forgotten soon
_EASES = 0.9  # of the latency before: a queue drains, and what the models say of it is no need
_SHARED_FOR = 15  # intervals among all others after which what a service's own cell has shown is forgotten
_MOST_RATE = 1e12  # requests/s: a measurement of more is none
_BEYOND = {"p99": 0.01, "p95": 0.05}  # share of the requests that are slower than the percentile


def after_interval(
    track: Track | None, answer: Answer, service: Service, cell: Cell | None, interval_s: float, settings: Settings
) -> tuple[Track, bool]:
    """The track of a service after one more interval in `cell` (None: shared), and whether load or target changed."""
    rate = _rate(service)
    if track is None or track.target_ms != service.target_ms:
        relaxed = track is not None and (track.target_ms or 0.0) < (service.target_ms or 0.0)
        kept = Correction() if track is None or relaxed else track.correction
        needs = answer.oaa, answer.oaa_upper, answer.upper
        fell_s = None if track is None else track.fell_s
        fresh = Track(*needs, 1, cell is not None, service.target_ms, rate, cell, correction=kept, fell_s=fell_s)
        return _measured(fresh, service, cell), track is not None
    now = _measured(track, service, cell)
    if service.slack is None:
        return now, False
    if _load_moved(track, now, rate, interval_s, settings.moved):
        less = min(1.0, rate / track.rate) if rate is not None and track.rate else 1.0
        old = now.correction
        correction = replace(old, cores=round(old.cores * less), ways=round(old.ways * less))
        now = replace(_predicted(now, answer), rate=rate, confined=cell is not None, correction=correction)
        return replace(now, before=None, missed_with=None), True
    return _with_prediction(track, now, answer, rate, cell, settings.memory), False


def _rate(service: Service) -> float | None:
    """Requests/s, where a number that can be one was measured."""
    rate = None if service.latency is None else service.latency.requests_per_s
    return rate if rate is not None and 0.0 <= rate < _MOST_RATE else None


def _measured(track: Track, service: Service, cell: Cell | None) -> Track:
    """The track with what was measured, its prediction as it was."""
    settled = track.settled + 1 if cell == track.cell else 0
    streak, latency_ms, level = track.streak, service.latency_ms, track.level if settled else None
    if latency_ms is not None and service.target_ms is not None:
        ratio = latency_ms / service.target_ms
        streak = min(streak, 0) - 1 if ratio > 1.0 else max(streak, 0) + 1
        level = _faded(level, min(ratio, _WORST), _fade(service))
    return replace(
        track,
        cell=cell,
        settled=settled,
        streak=streak,
        latency_ms=latency_ms if latency_ms is not None else track.latency_ms,
        level=level,
    )


def _with_prediction(
    before: Track, now: Track, answer: Answer, rate: float | None, cell: Cell | None, memory: int
) -> Track:
    """The track with one more prediction in its mean, where that tells of the need."""
    comes_to_cell = cell is not None and not before.confined
    eases = now.latency_ms is not None and before.latency_ms is not None and now.latency_ms < _EASES * before.latency_ms
    if now.missed and (eases or not (comes_to_cell and now.settled)):
        return now  # starved services, and queues that drain, look alike whatever the load
    if now.settled == 0:
        return now  # a part of the interval was under the old allocation
    if comes_to_cell:
        fresh = replace(_predicted(now, answer), confined=True, rate=rate)
        return _at_least(fresh, before) if now.missed else fresh
    if before.confined and cell is None:
        return now if now.settled < _SHARED_FOR else replace(_predicted(now, answer), confined=False)
    share = 1.0 / min(before.count + 1, memory)
    known = before.rate if rate is None else _faded(before.rate, rate, share)
    return replace(
        now,
        oaa=_mean(before.oaa, answer.oaa, share),
        oaa_upper=_mean(before.oaa_upper, answer.oaa_upper, share),
        cliff_upper=_mean(before.cliff_upper, answer.upper, share),
        count=before.count + 1,
        rate=known,
    )


def _predicted(track: Track, answer: Answer) -> Track:
    return replace(track, oaa=answer.oaa, oaa_upper=answer.oaa_upper, cliff_upper=answer.upper, count=1)


def _at_least(now: Track, before: Track) -> Track:
    """A service that misses its target does not need less than was thought before."""
    return replace(
        now,
        oaa=(max(now.oaa[0], before.oaa[0]), max(now.oaa[1], before.oaa[1])),
        oaa_upper=(max(now.oaa_upper[0], before.oaa_upper[0]), max(now.oaa_upper[1], before.oaa_upper[1])),
    )


def _load_moved(before: Track, now: Track, rate: float | None, interval_s: float, moved: float) -> bool:
    """Whether the load is another one: the rate changed by more than its own noise, the queue and `moved`.

    While a queue drains, completions are not arrivals: more of them say nothing of the load beyond what a wait so long
    as the tail can hold back, and fewer say nothing at all.
    """
    if not before.rate or rate is None:
        return False
    if rate <= before.rate and (before.missed or now.missed):
        return False
    queued_s = 0.0 if before.missed == 0 else (before.latency_ms or math.inf) / 1000.0
    noise = _RATE_ERRORS / math.sqrt(max(1.0, before.rate * interval_s))
    return abs(rate / before.rate - 1.0) > moved + noise + queued_s / interval_s


def really_missed(track: Track, service: Service, settings: Settings) -> bool:
    """Whether a missed target is more than the noise of a tail that few requests made."""
    if not track.missed:
        return False
    latency_ms, target_ms, latency = service.latency_ms, service.target_ms, service.latency
    if latency_ms is None or target_ms is None or latency is None:
        return False
    level, counted = track.level or 0.0, _tail(service)
    if level > 1.0 and track.settled >= settings.hovers:
        return True
    tail = math.inf if counted is None else max(1.0, counted)
    once = latency_ms > (1.0 + settings.noise_once / math.sqrt(tail)) * target_ms
    noise = settings.noise_mean * math.sqrt(_fade(service) / tail)
    return once or (track.settled >= settings.settle and level > 1.0 + noise)


def drains(before: Track | None, service: Service, settings: Settings) -> bool:
    """Whether the latency of a service falls so that it meets its target within `drain` intervals."""
    latency_ms, target_ms = service.latency_ms, service.target_ms
    if before is None or before.latency_ms is None or latency_ms is None or target_ms is None:
        return False
    fall = before.latency_ms - latency_ms
    return fall > 0.01 * before.latency_ms and latency_ms - target_ms <= settings.drain * fall


def _fade(service: Service) -> float:
    """Share of the last interval in a mean of latencies: the less, the fewer requests made its tail."""
    tail = _tail(service)
    return _FADE if tail is None else min(_FADE, max(_FADE_LEAST, _FADE * tail / _TAIL_FULL))


def _tail(service: Service) -> float | None:
    """Requests of the interval that are slower than the percentile; None where nobody counted."""
    samples = None if service.latency is None else service.latency.samples
    return None if samples is None else _BEYOND.get(service.percentile, 0.5) * samples


def _faded(before: float | None, now: float, share: float) -> float:
    """A mean in which an interval counts less the older it is."""
    return now if before is None else before + share * (now - before)


def _mean(old: tuple[float, float], new: tuple[float, float], share: float) -> tuple[float, float]:
    return old[0] + share * (new[0] - old[0]), old[1] + share * (new[1] - old[1])
