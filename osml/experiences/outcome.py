"""How a call on the store can end."""

from __future__ import annotations

from typing import NamedTuple


class StoreError(Exception):
    """The database said no; the message is its own sentence."""


class StoreAwayError(StoreError):
    """The database can't be reached, or does not answer: it makes no sense to ask again at once."""


class StoreFullError(StoreError):
    """The database's disk has no room: it takes no other batch either."""


class StoreConflictError(StoreError):
    """Another transaction was in the way of this one: the database works, and may take the same batch later."""


class BusyError(Exception):
    """More wait to be written than there is room for."""


class Added(NamedTuple):
    """What became of a batch: rows that are new, and those that were there already."""

    accepted: int
    duplicates: int


class Newest(NamedTuple):
    """JSON of a node's newest experiences, newest first; how many rows among them could not be read; CPU time."""

    experiences: list[bytes]
    damaged: int
    seconds: float


class CanaryReturn(NamedTuple):
    """A canary (its name) that the server took back, when (seconds since 1970), and why."""

    canary: str
    at: float
    why: str
