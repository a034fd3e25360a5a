"""The trading wheels of PARTIES (ASPLOS 2019, section 4.2.3 and figure 4): which resource is adjusted next.

Resources that can stand in for each other turn in one wheel: compute (cores, cache, frequency) or storage (memory,
disk), once for each direction. A resource that a node can't divide is missing in its wheel.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from osml.domain import Resource

COMPUTE: tuple[Resource, ...] = ("cores", "ways", "frequency")
STORAGE: tuple[Resource, ...] = ("memory", "disk")

Direction = Literal["up", "down"]


class Action(Struct, frozen=True):
    """What was done to a service last: its place in the trading wheels."""

    direction: Direction
    resource: Resource


class Wheels:
    """Where each service stands. `turn_from` is the resource at which its turn of the present wheel began."""

    def __init__(
        self,
        resources: Sequence[Resource],
        seed: int,
        draws: int,
        actions: Mapping[str, Action],
        turn_from: Mapping[str, Resource],
    ) -> None:
        self.compute: list[Resource] = [resource for resource in COMPUTE if resource in resources]
        self.storage: list[Resource] = [resource for resource in STORAGE if resource in resources]
        self.seed, self.draws = seed, draws
        self.actions, self.turn_from = dict(actions), dict(turn_from)

    def path(self, name: str, direction: Direction, *, storage_short: bool) -> Iterator[Resource]:
        """All resources in the order in which they are tried, those that can't be adjusted being skipped.

        First what is left of this turn, then the other wheel. A service that is to get more does another round of
        compute before it comes to storage, unless storage may be what is short.
        """
        at = self._stand(name, direction)
        if at is None:
            return
        wheel, other = self._wheels(at)
        began = self.turn_from.get(name, at) if self.actions.get(name) == Action(direction, at) else at
        turn = _from(wheel, at)
        left = turn[: turn.index(began)] if began in turn[1:] else turn
        again = turn[len(left) :]
        if self._another_round(wheel, direction, storage_short):
            left, again = turn, []
        yield from left
        if other:
            yield from _from(other, self._entry(name, other))
        yield from again

    def land(self, name: str, action: Action) -> None:
        """The action was done: this is where the service stands now."""
        before = self.actions.get(name)
        wheel, _ = self._wheels(action.resource)
        if before is None or before.direction != action.direction or before.resource not in wheel:
            self.turn_from[name] = action.resource
        self.actions[name] = action

    def advance(self, name: str, action: Action, *, storage_short: bool) -> None:
        """The next state after an action that was of no use (next_action of algorithms 2 to 4).

        Its resource must be one of the wheels'.
        """
        wheel, other = self._wheels(action.resource)
        began = self.turn_from.setdefault(name, action.resource)
        following = wheel[(wheel.index(action.resource) + 1) % len(wheel)]
        if following == began and other and not self._another_round(wheel, action.direction, storage_short):
            following = self.turn_from[name] = self._entry(name, other)
        self.actions[name] = Action(action.direction, following)

    def _stand(self, name: str, direction: Direction) -> Resource | None:
        """The present place; who enters the wheels of a direction lands on a random resource of all of them."""
        present: list[Resource] = [*self.compute, *self.storage]
        action = self.actions.get(name)
        if action is not None and action.direction == direction and action.resource in present:
            return action.resource
        return self._draw(name, present) if present else None

    def _wheels(self, resource: Resource) -> tuple[list[Resource], list[Resource]]:
        """The wheel of a resource and the other one."""
        return (self.storage, self.compute) if resource in STORAGE else (self.compute, self.storage)

    def _another_round(self, wheel: list[Resource], direction: Direction, storage_short: bool) -> bool:
        return wheel is self.compute and direction == "up" and not storage_short

    def _entry(self, name: str, wheel: list[Resource]) -> Resource:
        """Where another wheel is entered: compute anywhere, storage at memory, which is what is looked at."""
        return wheel[0] if wheel is self.storage else self._draw(name, wheel)

    def _draw(self, name: str, among: list[Resource]) -> Resource:
        draw = random.Random(f"{self.seed}/{self.draws}/{name}")  # noqa: S311
        self.draws += 1
        return draw.choice(among)


def _from(wheel: list[Resource], resource: Resource) -> list[Resource]:
    """The wheel from one of its resources on."""
    at = wheel.index(resource) if resource in wheel else 0
    return wheel[at:] + wheel[:at]
