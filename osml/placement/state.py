"""What the placement remembers between two decisions, beside the states of the policy in each cache domain."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from osml.domain import Observation

T = TypeVar("T")


class Move(Struct, frozen=True):
    """A service that left a cache domain, and when in node time. `undone`: the node did not take the move."""

    service: str
    left: int
    time_s: float
    undone: bool = False


class Trial(Struct, Generic[T], frozen=True):
    """A move of the decision `seq`, and the policy's states of both domains before it."""

    seq: int
    move: Move
    inner: dict[int, T]


class Large(Struct, frozen=True):
    """A service that is too large: intervals in which it would fit, and intervals in a row without a measurement."""

    fits: int = 0
    unseen: int = 0


class PlacementState(Struct, Generic[T], frozen=True):
    """Where each service is, and what the policy has to know.

    `inner` is the policy's state in each cache domain, `whole` that for the whole node, while it cannot be divided by
    domains. `missed` and `held` count the intervals in a row with a target missed, and with all met. `large`
    names services that are too large. `sharing` are the domains whose services share all ways, since the node has too
    few cache groups; until services come, go or move. `trial` is a move of which the node has not said yet whether it
    took it.
    """

    seed: int
    homes: dict[str, int] = {}
    inner: dict[int, T] = {}
    whole: T | None = None
    missed: dict[int, int] = {}
    held: dict[int, int] = {}
    moves: list[Move] = []
    large: dict[str, Large] = {}
    sharing: list[int] = []
    trial: Trial[T] | None = None
    time_s: float = 0.0


def as_of(state: PlacementState[T], observation: Observation, domains: set[int], longest_s: float) -> PlacementState[T]:
    """The state without services and domains that are gone, and without times of another clock.

    Moves of longer ago than `longest_s` count no more.
    """
    now_s = observation.time_s
    here = {service.name for service in observation.services}
    homes = {name: home for name, home in state.homes.items() if name in here and home in domains}
    moves = state.moves
    if now_s < state.time_s:
        moves = [replace(move, time_s=now_s) for move in moves]
    moves = [move for move in moves if move.service in here and 0 <= now_s - move.time_s < longest_s]
    return replace(
        state,
        homes=homes,
        inner={domain: inner for domain, inner in state.inner.items() if domain in domains},
        missed={domain: count for domain, count in state.missed.items() if domain in domains},
        held={domain: count for domain, count in state.held.items() if domain in domains},
        moves=moves,
        sharing=[domain for domain in state.sharing if domain in domains],
        large={name: one for name, one in state.large.items() if name in here},
        trial=state.trial if state.trial is not None and state.trial.move.left in domains else None,
        time_s=now_s,
    )
