"""The osml policy on states that have been in other hands: whatever they say, each decision is legal."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from osml.decide.decide import decide_by
from osml.decide.state import open_state, seal_state
from osml.domain import (
    Counters,
    Infeasible,
    Latency,
    MbaRange,
    Observation,
    Partition,
    Platform,
    Region,
    Service,
    partition_error,
)
from osml.policies.osml import Osml
from osml.policies.osml.agent_refuses import stands
from osml.policies.osml.answers.models import Models
from osml.policies.osml.memory.state import CELLS, POOLED, SHARED, SOME, Correction, OsmlState
from osml.policies.osml.node import node_of
from tests.kit.fake_models import PLATFORM, Fake

INF = float("inf")
FLOATS = (0.0, 1.0, -1.0, 0.5, 1e9, 1e308, -1e308, INF, -INF, float("nan"))
COUNTS = (0, 1, 2, 7, 12, 100, 2**40)
AMOUNTS = (-5, -1, 0, 1, 2, 3, 20, 10**6)

Damage = Callable[[OsmlState, random.Random, list[str]], OsmlState]


def _tracks(state: OsmlState, rng: random.Random, names: list[str]) -> OsmlState:
    here = [name for name in names if name in state.tracks]
    if not here:
        return state
    name, number = rng.choice(here), lambda: rng.choice(FLOATS)
    odd = replace(
        state.tracks[name],
        level=number(),
        streak=rng.choice(COUNTS) * rng.choice((1, -1)),
        settled=rng.choice(COUNTS),
        before=(rng.choice(AMOUNTS), rng.choice(AMOUNTS)),
        cell=(rng.choice(AMOUNTS), rng.choice(AMOUNTS)),
        rate=number(),
        latency_ms=number(),
        oaa=(number(), number()),
        cliff_upper=(number(), number()),
    )
    return replace(state, tracks={**state.tracks, name: odd})


def _corrections(state: OsmlState, rng: random.Random, names: list[str]) -> OsmlState:
    def odd() -> Correction:
        return Correction(rng.choice(AMOUNTS), rng.choice(AMOUNTS), rng.choice(FLOATS), rng.choice((0, 1, 64)))

    return replace(state, tracks={name: replace(one, correction=odd()) for name, one in state.tracks.items()})


DAMAGES: dict[str, Damage] = {
    "tracks": _tracks,
    "corrections": _corrections,
    "age": lambda s, rng, names: replace(s, age=rng.choice(COUNTS) * rng.choice((1, -1)), seq=rng.choice(COUNTS)),
    "aside": lambda s, rng, names: replace(s, set_aside=rng.sample([*names, "gone"], 2)),
    "scores": lambda s, rng, names: replace(
        s, scores={way: rng.choice(FLOATS) for way in (CELLS, SHARED, SOME, POOLED, "x")}
    ),
    "shortage": lambda s, rng, names: replace(s, shortage=Infeasible(["gone", *names], "whatever")),
    "unfamiliar": lambda s, rng, names: replace(
        s, unfamiliar=dict.fromkeys([*names, "gone"], rng.choice(COUNTS) * rng.choice((1, -1)))
    ),
    "wanted": lambda s, rng, names: replace(
        s, wanted=Partition([Region(names, rng.choice((0, 1, 99)), rng.choice((0, 1, 99)))])
    ),
    "in_force": lambda s, rng, names: replace(
        s, in_force=Partition([Region(names, rng.choice((0, 1, 99)), 1), Region(["gone"], 99, 99)])
    ),
    "times": lambda s, rng, names: replace(s, violated_since_s=rng.choice(FLOATS)),
}


def _platform(rng: random.Random) -> Platform:
    quantum, cpus, ways = rng.choice((1.0, 1.0, 0.1)), rng.choice((8, 36)), rng.choice((None, 11, 20))
    return replace(
        PLATFORM,
        cores=round(cpus / quantum),
        cpus=f"0-{cpus - 1}",
        core_quantum=quantum,
        ways=ways,
        mba=rng.choice((None, MbaRange(10, 100, 10))),
    )


def _services(rng: random.Random) -> list[Service]:
    tails = rng.choice(((3.0,), (3.0, 3.0, 6.0, 10.3, 20.0)))  # all calm, or not
    limits: dict[str, Any] = {"min_cores": rng.choice((1, 1, 2)), "max_cores": rng.choice((None, None, 5))}
    found = [
        Service(
            name,
            "lc",
            target_ms=10.0,
            min_ways=rng.choice((1, 1, 2)),
            **limits,
            latency=Latency(p99_ms=rng.choice(tails), requests_per_s=10.0, samples=2000),
            counters=Counters(cpu_usage_cores=rng.choice((None, 0.5, 3.0))),
        )
        for name in "abc"[: rng.randint(1, 3)]
    ]
    return [*found, Service("job", "be", counters=Counters(work_rate=rng.choice((None, 50.0, 50.0))))]


@pytest.mark.parametrize("what", DAMAGES)
def test_every_decision_is_legal_whatever_the_state_says(what: str) -> None:
    rng = random.Random(what)
    for _ in range(20):
        platform, services, need = _platform(rng), _services(rng), rng.choice((1.0, 4.0, 14.0))
        names = [service.name for service in services]
        fake: Any = Fake(lambda row, need=need: [need - 1.0, 1.0, need, 1.0, 1.0])
        policy, partition, state = Osml(Models(a=fake, a2=fake)), None, None
        for seq in range(32):
            seen = Observation("n", seq, 10.0 + seq, 1.0, platform, services, partition=partition, policy_state=state)
            decision = decide_by(policy, seen)
            partition, state = decision.partition, decision.policy_state
            assert partition_error(partition, platform, names) is None
            node = node_of(seen)
            assert node.obstacle is not None or stands(partition, seen, node) or decision.infeasible
            before, why = open_state(state, policy)
            assert why is None
            if seq % 8 == 7:
                state = seal_state(policy, DAMAGES[what](before, rng, names))
