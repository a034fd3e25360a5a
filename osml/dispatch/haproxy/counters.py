"""What happened at a backend between looks, as the samples that the estimates take in."""

from __future__ import annotations

from collections.abc import Mapping

from osml.dispatch.haproxy.estimate import Sample
from osml.dispatch.haproxy.show_stat import BackendRows

EVERY_S = 0.25


class Tally:
    """Adds up looks at HAProxy's counters. Counters that went back (a restart) begin a new sample."""

    def __init__(self) -> None:
        self._rows: BackendRows | None = None
        self._modes: Mapping[str, bool] = {}
        self._at = 0.0
        self._clear(0.0)

    def look(self, rows: BackendRows, interfered: Mapping[str, bool], now: float) -> Sample | None:
        """Add the time since the last look; a sample when a quarter of a second is full.

        A backend that `interfered` does not name counts for nothing: it is not known in which mode it was.
        """
        before, modes, elapsed = self._rows, self._modes, now - self._at
        self._rows, self._modes, self._at = rows, dict(interfered), now
        if before is None or rows.arrivals < before.arrivals:
            self._clear(now)
            return None
        self._arrivals += rows.arrivals - before.arrivals
        for name, row in rows.servers.items():
            if name in before.servers and name in modes:
                old, mode = before.servers[name], modes[name]
                done = (row.total - row.in_service) - (old.total - old.in_service)
                self._completions[mode] += max(0, done)
                self._busy_s[mode] += elapsed * ((old.in_service > 0) + (row.in_service > 0)) / 2
                self._mode_s[mode] += elapsed
                self._switches[mode] += name in interfered and interfered[name] != mode
        return self._sample(now) if now - self._since >= EVERY_S else None

    def forget(self) -> None:
        """HAProxy was away: what happened meanwhile is not known."""
        self._rows = None

    def _sample(self, now: float) -> Sample:
        sample = Sample(
            now - self._since,
            self._arrivals,
            _pair(self._completions),
            _pair(self._busy_s),
            _pair(self._switches),
            _pair(self._mode_s),
        )
        self._clear(now)
        return sample

    def _clear(self, now: float) -> None:
        """Lists are by mode: without, under interference."""
        self._since, self._arrivals = now, 0.0
        self._completions, self._busy_s, self._switches, self._mode_s = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]


def _pair(values: list[float]) -> tuple[float, float]:
    return values[0], values[1]
