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


class WaysForCores(Struct, frozen=True, omit_defaults=True):
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
    """What is known after a decision.

    - `known`: the services; `kind`: how the node is run, for `age` intervals; `scores`: E_S of each kind.
    - `calm`: intervals in a row with all targets met. `no_progress`: intervals in which the sum of all misses (logs of
      latency over target) did not fall below `lowest`.
    - `on_leftovers`: services that use what the others leave. `pairs`: services that share cores.
    - `few_job_ways`: where all share, BE jobs have a few ways of their own.
    - `jobs_isolated`: BE jobs do not run on the CPUs of services; `without_jobs`: not on those of these services.
    - `ways_for_cores`: ways that services have for the gain of jobs.
    - `unfamiliar`: in-distribution intervals of services whose predictions are not used yet.
    - `shortage`: what the scheduler above was told last. `refused`: decisions that the agent did not carry out.
    - `seq`: number of this decision. `arq`: the state of ARQ while its rules decide.
    """

    known: dict[str, Known] = {}
    kind: str = SHARED
    age: int = 0
    scores: dict[str, float] = {}
    on_leftovers: list[str] = []
    pairs: list[Pair] = []
    calm: int = 0
    no_progress: int = 0
    lowest: float | None = None
    few_job_ways: bool = False
    jobs_isolated: bool = False
    without_jobs: list[str] = []
    ways_for_cores: WaysForCores = WaysForCores()
    wanted: Partition | None = None
    unfamiliar: dict[str, int] = {}
    shortage: Infeasible | None = None
    refused: Refused | None = None
    seq: int = -1
    arq: ArqState | None = None
    violated_since_s: float | None = None
    time_s: float = 0.0


def sound(state: OsmlState) -> OsmlState:
    """The state without what no decision of this policy can have left in it: it has been in other hands."""
    known = {
        name: one
        for name, one in state.known.items()
        if one.count >= 0
        and math.hypot(*one.oaa, *one.oaa_upper, *one.cliff, *one.upper) < _MOST  # NaN is not
        and (one.gbps is None or 0 < one.gbps < math.inf)
    }
    pairs = [pair for pair in state.pairs if pair.taker != pair.giver]
    trial, ways_for_cores = state.ways_for_cores.trial, state.ways_for_cores
    if trial is not None and (
        trial.service not in ways_for_cores.cells or trial.sums.keys() != ways_for_cores.sums.keys()
    ):
        ways_for_cores = WaysForCores()
    same = len(known) == len(state.known) and len(pairs) == len(state.pairs) and ways_for_cores is state.ways_for_cores
    return state if same else replace(state, known=known, pairs=pairs, ways_for_cores=ways_for_cores)


def at_this_time(state: OsmlState, now_s: float) -> OsmlState:
    """The state, without timers of another clock where node time began anew."""
    if now_s >= state.time_s:
        return state
    known = {name: replace(one, bans=on_new_clock(one.bans, now_s)) for name, one in state.known.items()}
    return replace(state, known=known, violated_since_s=None)
