"""The time that a search may take, and what it says of its progress."""

from __future__ import annotations

import time
from collections.abc import Callable


class Deadline:
    """Counts from its making. `limit_s` None: no limit. `say` is told in words what the search does now."""

    def __init__(self, limit_s: float | None, say: Callable[[str], None] | None = None) -> None:
        self.start_s = time.perf_counter()
        self.limit_s = limit_s
        self._say = say

    def say(self, what: str) -> None:
        """What the search does now."""
        if self._say is not None:
            self._say(what)

    @property
    def elapsed_s(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self.start_s

    @property
    def passed(self) -> bool:
        """Whether the time is up."""
        return self.limit_s is not None and self.elapsed_s >= self.limit_s

    def share(self, part: float) -> Deadline:
        """A deadline after this part of the whole time, from the same start."""
        other = Deadline(None if self.limit_s is None else self.limit_s * part, self._say)
        other.start_s = self.start_s
        return other
