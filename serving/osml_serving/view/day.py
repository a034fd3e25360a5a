"""The last 24 hours of a node in bins of ten minutes, and its events, in memory only: 6 KiB, with all events 16."""

from __future__ import annotations

from array import array
from collections import deque

from msgspec import Struct

from osml_serving.view.happenings import Event, Seen, Watch

BIN_S = 600
BINS = 144
MAX_EVENTS = 32


class DayBin(Struct):
    """Ten minutes of a node. `at` is their beginning, on the server's clock; `seconds` is what was seen of them.

    `missed_s` and `infeasible_s` are parts of these; `e_s` is the mean, None where nothing was measured.
    """

    at: int
    seconds: float
    missed_s: float
    infeasible_s: float
    e_s: float | None


class Day:
    """Rings of BINS bins. A server's clock that jumps writes into the bin of its present time."""

    def __init__(self, node: str) -> None:
        self._number = array("i", [-1]) * BINS
        self._seconds = array("f", [0.0]) * BINS
        self._missed = array("f", [0.0]) * BINS
        self._infeasible = array("f", [0.0]) * BINS
        self._e_s = array("f", [0.0]) * BINS
        self._measured = array("f", [0.0]) * BINS
        self._watch = Watch(node)
        self.events: deque[Event] = deque(maxlen=MAX_EVENTS)

    def add(self, seen: Seen, e_s: float | None) -> list[Event]:
        """Count an interval; returns what happened."""
        number = int(seen.at // BIN_S)
        place = number % BINS
        if self._number[place] != number:
            self._number[place] = number
            for ring in (self._seconds, self._missed, self._infeasible, self._e_s, self._measured):
                ring[place] = 0.0
        seconds = seen.interval_s
        self._seconds[place] += seconds
        if any(met is False for met in seen.met.values()):
            self._missed[place] += seconds
        if seen.infeasible is not None:
            self._infeasible[place] += seconds
        if e_s is not None:
            self._e_s[place] += seconds * e_s
            self._measured[place] += seconds
        found = self._watch.events(seen)
        self.events.extend(found)
        return found

    def bins(self, now_s: float) -> list[DayBin]:
        """Those of the last 24 hours in which the node was seen, oldest first."""
        last = int(now_s // BIN_S)
        found: list[DayBin] = []
        for number in range(last - BINS + 1, last + 1):
            place = number % BINS
            if self._number[place] == number:
                measured = self._measured[place]
                found.append(
                    DayBin(
                        number * BIN_S,
                        round(self._seconds[place], 3),
                        round(self._missed[place], 3),
                        round(self._infeasible[place], 3),
                        round(self._e_s[place] / measured, 5) if measured else None,
                    )
                )
        return found
