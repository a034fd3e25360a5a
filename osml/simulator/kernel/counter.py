"""Counters that the engine moves in steps and readers see run evenly."""

from __future__ import annotations

import time


class Clock:
    """Node time in seconds. Between two settings it runs `speed` times as fast as the wall clock (0: it stands)."""

    def __init__(self, speed: float = 0.0) -> None:
        self._speed = speed
        self._base = 0.0
        self._set_at = time.monotonic()

    def set(self, now: float) -> None:
        """It is `now`."""
        self._base, self._set_at = now, time.monotonic()

    @property
    def now(self) -> float:
        """Node time."""
        return self._base + (time.monotonic() - self._set_at) * self._speed if self._speed else self._base


class Counter:
    """A running total that lags by one step: between two steps it glides from the last total to the newest one.

    Without this a reader whose interval is not in step with the engine would see rates jump.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._from = self._to = 0.0
        self._since = clock.now
        self._span = 1.0

    def add(self, amount: float, span: float) -> None:
        """Another step of `span` seconds brought `amount`."""
        self._from = self.value()
        self._to += amount
        self._since, self._span = self._clock.now, span

    def value(self) -> float:
        """The total at the clock's now. It never goes back."""
        share = min(1.0, max(0.0, (self._clock.now - self._since) / self._span))
        return self._from + (self._to - self._from) * share
