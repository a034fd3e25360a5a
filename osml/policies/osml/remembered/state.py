"""What the policy `osml` carries from decision to decision, and the ways in which it runs a node."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from osml.domain import Infeasible, Partition
from osml.policies.arq import ArqState
from osml.policies.osml.remembered.backoff import on_new_clock
from osml.policies.osml.remembered.service_memory import Known

SHARED, PARTED, SOME, POOLED = "shared", "parted", "some", "pooled"
"""Everybody on everything, everybody in a cell, some in cells and the others in what is left, one in a cell and the
others together on all the rest."""


_MOST = 1e9
"""CPUs or ways: no need is as much."""


class Pair(Struct, frozen=True, array_like=True):
    """Two services that share core units beside their cells (OSML, algorithm 4): `taker` missed its target."""

    taker: str
    giver: str
    cores: Annotated[int, Meta(ge=1)]


class Refused(Struct, frozen=True, array_like=True):
    """Decisions in a row that the agent did not carry out.

    For `wait` more intervals what is applied is held; `asked`: the last decision asked for something else again.
    """

    times: Annotated[int, Meta(ge=1, le=64)]
    wait: Annotated[int, Meta(ge=0, le=64)]
    asked: bool = False


class Trial(Struct, frozen=True, array_like=True):
    """More ways for a service than it had before, and what the jobs did then, in sum."""

    service: str
    ways: Annotated[int, Meta(ge=0)]
    sums: dict[str, float]


class Barter(Struct, frozen=True, omit_defaults=True):
    """What is known of ways for CPU time: `cells` for `age` intervals, and what each job did in those that count.

    `kept` are ways that services have for the jobs' sake, those on trial among them; `tried` are services that more was
    no gain for, at these loads.
    """

    cells: dict[str, tuple[int, int]] = {}
    age: Annotated[int, Meta(ge=0)] = 0
    sums: dict[str, float] = {}
    kept: dict[str, int] = {}
    tried: list[str] = []
    trial: Trial | None = None


class OsmlState(Struct, frozen=True):
    """`known` are the services, `kind` is the way that the node is run, for `age` intervals, `scores` the E_S of ways.

    `calm` counts intervals in a row with all targets met, `stuck` those in which all misses together (the sum of
    logarithms of latency over target) were none less than the `lowest` so far. `aside` are services in what others
    leave, `pairs` those that share cores. `narrow`: where all share, BE jobs have few ways of their own. `apart`:
    BE jobs don't run on the services' CPUs; `clear`: not on those of these services. `barter`: ways that services have
    for what jobs gain by it. `unfamiliar` counts the familiar intervals of services whose predictions are not used yet.
    `lack` is what the scheduler above was told last, `refused` what the agent did not carry out, `seq` the number of
    this decision. `arq` is kept while ARQ's rules decide.
    """

    known: dict[str, Known] = {}
    kind: str = SHARED
    age: int = 0
    scores: dict[str, float] = {}
    aside: list[str] = []
    pairs: list[Pair] = []
    calm: int = 0
    stuck: int = 0
    lowest: float | None = None
    narrow: bool = False
    apart: bool = False
    clear: list[str] = []
    barter: Barter = Barter()
    wanted: Partition | None = None
    unfamiliar: dict[str, int] = {}
    lack: Infeasible | None = None
    refused: Refused | None = None
    seq: int = -1
    arq: ArqState | None = None
    violated_since_s: float | None = None
    time_s: float = 0.0


def sound(state: OsmlState) -> OsmlState:
    """The state without what no decision of this policy can have left in it: it has been in other hands."""
    known = {
        name: one for name, one in state.known.items()
        if one.count >= 0 and math.hypot(*one.oaa, *one.oaa_upper, *one.cliff, *one.upper) < _MOST  # NaN is not
        and (one.gbps is None or 0 < one.gbps < math.inf)
    }  # fmt: skip
    pairs = [pair for pair in state.pairs if pair.taker != pair.giver]
    trial, barter = state.barter.trial, state.barter
    if trial is not None and (trial.service not in barter.cells or trial.sums.keys() != barter.sums.keys()):
        barter = Barter()
    same = len(known) == len(state.known) and len(pairs) == len(state.pairs) and barter is state.barter
    return state if same else replace(state, known=known, pairs=pairs, barter=barter)


def at_this_time(state: OsmlState, now_s: float) -> OsmlState:
    """The state, without timers of another clock where node time began anew."""
    if now_s >= state.time_s:
        return state
    known = {name: replace(one, bans=on_new_clock(one.bans, now_s)) for name, one in state.known.items()}
    return replace(state, known=known, violated_since_s=None)
