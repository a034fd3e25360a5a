"""How far a search may go, in seconds or in work, and what it says of its progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

_STEPS_A_UNIT = 20_000
_LISTED_A_UNIT = 100
_NO_LIMIT = 1 << 62


@dataclass
class _Spent:
    """What a search and its parts have done together."""

    start_s: float = field(default_factory=time.perf_counter)
    steps: int = 0


class Deadline:
    """Counts from its making: `limit_s` seconds, and `limit_work` units of work; None: no such limit.

    A unit of work is a whole node that is settled, or what takes about as long: 100 partitions that are bounded, or
    20,000 steps of an enumeration. With a limit of work alone an answer does not depend on the machine, nor on what
    else it does. `say` is told in words what the search does now.
    """

    def __init__(
        self, limit_s: float | None, say: Callable[[str], None] | None = None, limit_work: int | None = None
    ) -> None:
        self.limit_s, self.limit_work = limit_s, limit_work
        self._say = say
        self._spent = _Spent()

    def say(self, what: str) -> None:
        """What the search does now."""
        if self._say is not None:
            self._say(what)

    def spend(self, *, nodes: int = 0, listed: int = 0, steps: int = 0) -> None:
        """Work that was done: nodes settled, partitions bounded, steps of an enumeration."""
        self._spent.steps += nodes * _STEPS_A_UNIT + listed * (_STEPS_A_UNIT // _LISTED_A_UNIT) + steps

    @property
    def steps_left(self) -> int:
        """How many steps an enumeration may take."""
        if self.limit_work is None:
            return _NO_LIMIT
        return max(0, int(self.limit_work) * _STEPS_A_UNIT - self._spent.steps)

    @property
    def elapsed_s(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._spent.start_s

    @property
    def passed(self) -> bool:
        """Whether the time is up, or the work is done."""
        return self.steps_left == 0 or (self.limit_s is not None and self.elapsed_s >= self.limit_s)

    def share(self, part: float) -> Deadline:
        """A deadline after this part of the whole, from the same start and for the same work."""
        work = None if self.limit_work is None else int(self.limit_work * part)
        other = Deadline(None if self.limit_s is None else self.limit_s * part, self._say, work)
        other._spent = self._spent
        return other
