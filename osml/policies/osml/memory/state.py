"""What the policy `osml` carries from decision to decision."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from osml.domain import Infeasible, Partition
from osml.policies.osml.memory.past import Past, whole

CELLS, SHARED, POOLED, SOME = "cells", "shared", "pooled", "some"
"""Ways to run a node: a cell for each service; everybody on everything; cells for some and the others together on the
rest, where a service has just come or another policy left it so; cells for some and too little for others."""

_MOST = 1e9
"""CPUs or ways: no need is as much."""


class Correction(Struct, frozen=True, array_like=True):
    """By how much a prediction was wrong: core units and ways added to it, tried again without them at `until_s`.

    `times`: misses so far.
    """

    cores: int = 0
    ways: int = 0
    until_s: float = 0.0
    times: Annotated[int, Meta(ge=0, le=64)] = 0


class Track(Struct, frozen=True, array_like=True):
    """A service as the last intervals showed it. Needs are means of predictions, in logical CPUs and ways.

    - `oaa`, `oaa_upper`, `cliff_upper`: predicted OAA, its bound and the bound of RCliff; means of `count` predictions.
    - `confined`: they were made while the service had a cell of its own, where the models are most accurate.
    - `target_ms`, `rate`: the target and the requests/s that this is about.
    - `cell`: what it had in the last interval, for `settled` intervals since the change; `before`: the cell before the
      last step down.
    - `streak`: intervals in a row with the target met (above 0) or missed (below 0).
    - `latency_ms`: of the last interval; `level`: mean latency over target.
    - `missed_with`: the last cell with which the target was missed at this load.
    - `past`: means over the last minutes, in whatever cell. `fell_s`: when its load fell last.
    """

    oaa: tuple[float, float]
    oaa_upper: tuple[float, float]
    cliff_upper: tuple[float, float]
    count: int
    confined: bool
    target_ms: float | None
    rate: float | None = None
    cell: tuple[int, int] | None = None
    settled: int = 0
    streak: int = 0
    latency_ms: float | None = None
    level: float | None = None
    before: tuple[int, int] | None = None
    missed_with: tuple[int, int] | None = None
    correction: Correction = Correction()
    past: Past = Past()
    fell_s: float | None = None

    @property
    def missed(self) -> int:
        """Intervals in a row with a missed target."""
        return max(0, -self.streak)

    @property
    def met(self) -> int:
        """Intervals in a row with the target met."""
        return max(0, self.streak)


class Refused(Struct, frozen=True, array_like=True):
    """Decisions in a row that the agent did not carry out; in `wait` intervals it is asked again, at 0 it was.

    `message`: the agent's, of the last one.
    """

    times: Annotated[int, Meta(ge=1, le=64)]
    wait: Annotated[int, Meta(ge=0, le=64)]
    message: str = ""


class Undo(Struct, frozen=True, array_like=True):
    """What a decision changed that is only true if it is carried out, as it was before: by service where it changed."""

    set_aside: list[str]
    corrections: dict[str, Correction]


class OsmlState(Struct, frozen=True):
    """What is known after a decision.

    - `tracks`: the services. `set_aside`: those that use what the others leave.
    - `age`: intervals in the present way to run the node. `scores`: E_S of each way that was tried at these loads.
    - `good`: the last cells in which all met their targets at these loads; since then all have returned to them
      `returned` times.
    - `unfamiliar`: in-distribution intervals of services whose predictions are not used yet.
    - `wanted`: the last decision, number `seq`. `refused`: decisions that the agent did not carry out. `undo`: what
      to remember in place of what `wanted` supposes, if it is not carried out. `in_force`: the last partition that is
      known to be applied. `halvings`: so often the way to other cells is halved after a refusal, until all of a way
      was not refused.
    - `shortage`: what the scheduler above was told last. `violated_since_s`: since when some target is missed.
    """

    tracks: dict[str, Track] = {}
    set_aside: list[str] = []
    age: int = 0
    scores: dict[str, float] = {}
    good: dict[str, tuple[int, int]] = {}
    returned: Annotated[int, Meta(ge=0, le=64)] = 0
    unfamiliar: dict[str, int] = {}
    wanted: Partition | None = None
    refused: Refused | None = None
    undo: Undo | None = None
    in_force: Partition | None = None
    halvings: Annotated[int, Meta(ge=0, le=64)] = 0
    shortage: Infeasible | None = None
    violated_since_s: float | None = None
    seq: int = -1


def sound(state: OsmlState, latest_s: float) -> OsmlState:
    """The state without what no decision of this policy can have left in it: it has been in other hands.

    `latest_s`: until when a correction can be kept at most. A later time is of a clock that has begun anew since.
    """
    tracks = {
        name: _sound(one, latest_s)
        for name, one in state.tracks.items()
        if one.count > 0 and math.hypot(*one.oaa, *one.oaa_upper, *one.cliff_upper) < _MOST  # NaN is not
    }
    same = len(tracks) == len(state.tracks) and all(tracks[name] is state.tracks[name] for name in tracks)
    return state if same else replace(state, tracks=tracks)


def _sound(track: Track, latest_s: float) -> Track:
    known = track if whole(track.past) else replace(track, past=Past())
    if known.correction.until_s <= latest_s:
        return known
    return replace(known, correction=replace(known.correction, until_s=latest_s))
