"""Who makes a service slow, and by what: Shapley values of its neighbours' pressures over the members of a twin."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from osml.entropy import RELATIVE_IMPORTANCE, intolerable
from osml.twin.advice.counterfactual import BANDWIDTH, CACHE, RESOURCES, Pressure, Pressures
from osml.twin.advice.shapley import shapley
from osml.twin.ensemble import Ensemble
from osml.twin.machine import caches_of
from osml.twin.scenes import Scene
from osml.twin.world import LONGEST_MS, World, world_of

MEMBERS = 8
OWN_LIMIT, OWN_LOAD, UNKNOWN = "own limit", "own load", "unknown"
PART = 0.1
"""A cause counts in a member where it makes at least this share of what the service suffers."""

MISSES = 0.01
"""Share of the intervals above the target from which on a service has a problem."""

MAIN, SURE = 0.35, 0.6
"""Share of what is suffered, and of the members, that a cause needs to be named. Chosen on development seeds."""

STOPPED = 0.01
"""Share of the time in which its own limit stopped it, from which on no neighbour is named before that limit."""

_MEMORY_COUNTERS = ("bias:mpki", "bias:occupancy", "bias:bandwidth")
"""Numbers that a twin has of a tenant of which these counters were measured."""

SUFFERS = 0.1
"""Share of its latency below which a service does not suffer: the equations are not better."""


@dataclass(frozen=True)
class Cause:
    """A share of what a service suffers. `confidence` is the share of members in which it has a part of at least 10 %.

    It is None where nothing was measured of what the culprit needs of the cache and the memory: all members then have
    it from known programs, so that they agree says nothing. So it is for the cache of a machine with several of them.

    The culprit is the service itself for its own CPU limit and its own load, None where nobody can be named.
    """

    culprit: str | None
    resource: str
    ms: float
    e_s: float
    confidence: float | None


@dataclass(frozen=True)
class Blame:
    """`measured_ms` and the twin's `predicted_ms` (with 90 % bounds); the causes add up to `suffers_ms` and `e_s`.

    `alone_ms` is what it would take without neighbours and without a limit of its own. What is suffered counts from
    there, or from the target where it can't be met alone. Who hardly suffers has no causes, and `suffers_ms` is 0;
    `e_s` stays that of what was measured.

    `confined`: it had not all CPUs or ways of the machine, so what it takes alone may be for want of them.
    `stopped`: its own CPU limit stopped it, and the twin does not see what that costs, so no neighbour is named.
    """

    service: str
    measured_ms: float
    predicted_ms: float
    predicted_low_ms: float
    predicted_high_ms: float
    alone_ms: float
    suffers_ms: float
    e_s: float
    causes: tuple[Cause, ...]
    explained: bool
    stopped: bool = False
    confined: bool = False

    @property
    def main(self) -> Cause | None:
        """The cause that can be named: the largest one, where it makes MAIN of the whole in SURE of the members."""
        first = self.causes[0] if self.causes else None
        if first is None or first.culprit is None or not self.explained:
            return None
        return first if first.ms >= MAIN * self.suffers_ms and (first.confidence or 0.0) >= SURE else None

    @property
    def neighbour(self) -> tuple[str, float] | None:
        """Who makes MAIN of the whole over all resources, and ms, where no single one of them can be named."""
        if self.main is not None or not self.explained:
            return None
        sums: dict[str, float] = defaultdict(float)
        for cause in self.causes:
            neighbour = cause.culprit is not None and cause.culprit != self.service
            if cause.culprit is not None and neighbour and (cause.confidence or 0.0) >= SURE:
                sums[cause.culprit] += cause.ms
        name = max(sums, key=lambda one: sums[one], default=None)
        return None if name is None or sums[name] < MAIN * self.suffers_ms else (name, sums[name])


@dataclass(frozen=True)
class _Member:
    now: float
    alone: float
    base: float
    parts: Mapping[Pressure, float]
    entropy: Mapping[Pressure, float]


def _member(
    pressures: Pressures, victim: str, target_ms: float, importance: float, measured: float, seed: int
) -> _Member:
    """The causes of one member, in ms and in E_S; they add up to `now` less `base`, and to E_S of what was measured.

    The latencies of a member are not the measured ones: for E_S, which has a threshold, they are scaled to them.
    """
    world = pressures.world
    neighbours = [name for name in world.node.names if name != victim]
    causes: list[Pressure] = [(name, resource) for name in neighbours for resource in RESOURCES]
    quota = world.grants[victim].cpu_quota
    if quota is not None:
        causes.append((victim, OWN_LIMIT))
    known: dict[int, float] = {}

    def latency(there: int) -> float:
        if there not in known:
            off = {one for at, one in enumerate(causes) if not there >> at & 1}
            limited = quota is not None and (victim, OWN_LIMIT) not in off
            known[there] = pressures.latency_ms(off - {(victim, OWN_LIMIT)}, limited=limited)
        return known[there]

    alone = latency(0)
    base = min(alone, target_ms)
    parts = dict(zip(causes, shapley(latency, len(causes), seed=seed), strict=True))
    parts[victim, OWN_LOAD] = alone - base

    def entropy(there: int) -> float:
        return importance * intolerable(latency(there) * measured / everything, target_ms)

    everything = max(latency((1 << len(causes)) - 1), 1e-9)
    entropies = dict(zip(causes, shapley(entropy, len(causes), seed=seed), strict=True))
    entropies[victim, OWN_LOAD] = entropy(0)
    return _Member(everything, alone, base, parts, entropies)


def blamed(
    ensemble: Ensemble, scene: Scene, victim: str, noise: Sequence[float], *, members: int = MEMBERS, seed: int = 0,
    worlds: Callable[[int], World] | None = None,
) -> Blame:  # fmt: skip
    """Who makes `victim` slow in a scene. `noise` are quantiles 5, 50, 95 % of what intervals have beyond the twin.

    Where what was measured is far outside of what the twin can explain, nobody is named. `worlds` are those of the
    members where they do not follow from the ensemble.
    """
    tenant = ensemble.tenant(victim)
    target = tenant.target_ms or LONGEST_MS
    some = ensemble.some(members)
    importance = _importance(some, scene)
    pressures = [Pressures(worlds(at) if worlds else world_of(some, at, scene), victim) for at in range(some.size)]
    low, now, high = np.quantile([one.now_ms for one in pressures], [0.05, 0.5, 0.95]).tolist()
    reading = scene.seen.get(victim, {}).get(tenant.percentile)
    measured = math.exp(reading.log) if reading else now
    low, high = low * math.exp(noise[0] - noise[1]), high * math.exp(noise[2] - noise[1])
    explained = 0.8 * low <= measured <= 1.25 * high
    entropy = importance * intolerable(measured, target)
    if not explained:  # what it would be alone is not known either: it is at most what it is
        alone = min(float(np.median([one.alone_ms() for one in pressures])), measured)
        rest = measured - min(alone, target)
        unknown = Cause(None, UNKNOWN, rest, entropy, 0.0)
        return Blame(victim, measured, now, low, high, alone, rest, entropy, (unknown,), explained=False)
    found = [_member(one, victim, target, importance, measured, seed + at) for at, one in enumerate(pressures)]
    suffers = float(np.median([one.now - one.base for one in found])) * measured / now
    alone = float(np.median([one.alone for one in found]))
    known = {key[0] for key in ensemble.keys if key[1] in _MEMORY_COUNTERS} if worlds is None else set(scene.present)
    causes = _causes(found, suffers, entropy, measured, known)
    if worlds is None and caches_of(some.platform) > 1:  # who shares a cache with whom is not known
        causes = tuple(replace(one, confidence=None) if one.resource == CACHE else one for one in causes)
    if scene.throttled.get(victim, 0.0) >= STOPPED and causes and causes[0].culprit != victim:
        unknown = Cause(None, UNKNOWN, suffers, entropy, 0.0)
        return Blame(
            victim, measured, now, low, high, alone, suffers, entropy, (unknown,), explained=False, stopped=True
        )
    suffers = suffers if causes else 0.0
    confined = _confined(pressures[0].world, victim)
    return Blame(victim, measured, now, low, high, alone, suffers, entropy, causes, explained=True, confined=confined)


def _confined(world: World, name: str) -> bool:
    """Whether somebody has fewer CPUs or ways than the machine."""
    grant, machine = world.grants[name], world.node.platform
    return len(grant.cpus) < machine.cpus or grant.way_mask.bit_count() < machine.ways


def _importance(ensemble: Ensemble, scene: Scene) -> float:
    """The weight of one service in E_S of the node, which counts only those with a measurement."""
    there = [ensemble.tenant(name) for name in scene.present]
    judged = [one for one in there if one.kind == "lc" and one.target_ms is not None]
    measured = sum(one.percentile in scene.seen.get(one.name, {}) for one in judged)
    jobs = scene.slowed and any(one.kind == "be" for one in there)
    return (RELATIVE_IMPORTANCE if jobs else 1.0) / max(measured, 1)


def _causes(
    found: Sequence[_Member], suffers: float, entropy: float, measured: float, known: AbstractSet[str]
) -> tuple[Cause, ...]:
    """The causes, the largest first; they add up to `suffers` and `entropy`. None where the service hardly suffers.

    In a member in which it does not suffer there are no shares of that. A neighbour that makes it quicker is no cause.
    `known` are those whose need of cache and memory was measured.
    """
    telling = [one for one in found if one.now - one.base >= SUFFERS * one.now]
    if suffers < SUFFERS * measured or not telling:
        return ()
    rows: list[Cause] = []
    for cause in found[0].parts:
        shares = np.array([one.parts[cause] / (one.now - one.base) for one in telling])
        share = max(float(shares.mean()), 0.0)
        e_s = max(float(np.mean([one.entropy[cause] for one in found])), 0.0) if share else 0.0
        sure = cause[1] not in (CACHE, BANDWIDTH) or cause[0] in known
        confidence = float((shares >= PART).sum() / len(found)) if sure else None
        rows.append(Cause(cause[0], cause[1], share, e_s, confidence))
    total, entropies = sum(one.ms for one in rows), sum(one.e_s for one in rows)
    rows = [
        replace(one, ms=one.ms / total * suffers, e_s=entropy * (one.e_s / entropies if entropies else one.ms / total))
        for one in rows
    ]
    return tuple(sorted(rows, key=lambda one: -one.ms))


def worst_scene(scenes: Sequence[Scene], ensemble: Ensemble, victim: str) -> Scene | None:
    """Where a service misses its target most, or else is nearest to it; None where nowhere both its latency and its
    requests are known.

    A long scene with few misses comes after a short one in which the service has a problem.
    """
    tenant = ensemble.tenant(victim)
    known = [scene for scene in scenes if tenant.percentile in scene.seen.get(victim, {}) and scene.rates.get(victim)]
    return max(
        known,
        key=lambda scene: (
            scene.missed.get(victim, 0.0) >= MISSES,
            scene.missed.get(victim, 0.0) * len(scene.intervals), scene.seen[victim][tenant.percentile].log,
        ),
        default=None,
    )  # fmt: skip
