"""Part (c): cases with a known culprit and resource, injected into hidden nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from osml.lab.twins.hidden import Hidden, hidden, loads_then, record_of
from osml.lab.twins.truth import mean_node, true_world
from osml.records import Record
from osml.simulator.columns import F_CPU_S
from osml.simulator.models import JobModel, MemoryBehaviour, PlatformModel
from osml.simulator.state import Node
from osml.simulator.variation.spread import log_uniform
from osml.twin.advice.blame import OWN_LIMIT, Blame, blamed, worst_scene
from osml.twin.advice.counterfactual import BANDWIDTH, CACHE, CPU
from osml.twin.document import noise_at
from osml.twin.ensemble import Ensemble
from osml.twin.forward import settled
from osml.twin.make import made
from osml.twin.scenes import Scene, Tenant, scenes_of, tenants_of
from osml.twin.world import World

KINDS = (CPU, CACHE, BANDWIDTH, OWN_LIMIT)
SECONDS = 600
_MAIN, _SUFFERS = 0.6, 0.25
"""A case is taken where the hidden node's own Shapley values give one cause so large a share of what is suffered, and
the service's latency is so much longer by it."""

_TRIES = 24
_VICTIM = "service-1"


def _presser(kind: str, platform: PlatformModel, rng: np.random.Generator) -> JobModel:
    """A job that presses on one resource in the main."""
    cpus, cache = platform.cpus, platform.ways * platform.way_mib
    if kind == CPU:
        memory = MemoryBehaviour(log_uniform(rng, 0.4, 1.0), 0.2, 0.1, 1.0, 2.0, 4.0, 100.0, 500.0, 1.0)
        return JobModel("job-1", round(cpus * log_uniform(rng, 1.0, 3.0)), 0.0, 0.0, 0.0, memory)
    if kind == CACHE:
        memory = MemoryBehaviour(
            0.5, log_uniform(rng, 10.0, 40.0), 0.05, cache * log_uniform(rng, 0.5, 2.0), 2.0, 8.0, 64.0, 4000.0, 1.0
        )
        return JobModel("job-1", max(1, round(cpus * log_uniform(rng, 0.1, 0.4))), 0.0, 0.0, 0.0, memory)
    if kind == BANDWIDTH:
        moved = log_uniform(
            rng, 700.0, 1024.0
        )  # with prefetched and written lines; past the cache, as streaming stores go
        memory = MemoryBehaviour(0.5, log_uniform(rng, 5.0, 20.0), 0.95, 500.0, 2.0, 10.0, moved, 0.5, 1.0)
        return JobModel("job-1", max(1, round(cpus * log_uniform(rng, 0.15, 0.5))), 0.0, 0.0, 0.0, memory)
    memory = MemoryBehaviour(0.6, log_uniform(rng, 0.5, 3.0), 0.2, 2.0, 2.0, 4.0, 100.0, 500.0, 1.0)
    return JobModel("job-1", max(1, round(cpus * log_uniform(rng, 0.1, 0.5))), 0.0, 0.0, 0.0, memory)


def _injected(condition: str, kind: str, seed: int) -> Hidden:
    """A hidden node of a condition with this presser, or with a limit of its own that is nearly used up."""
    one = hidden(condition, seed, beside_job=True, seconds=SECONDS)
    rng = np.random.default_rng([seed, 99])
    node = Node(one.node.platform, one.node.services, (_presser(kind, one.node.platform, rng),))
    if kind != OWN_LIMIT:
        return replace(one, node=node)
    loads = loads_then(one, 0.5 * SECONDS)
    mean = mean_node(replace(one, node=node))
    rates = {service.name: loads[service.name] * service.max_load for service in mean.services}
    grants = dict(zip(mean.names, one.grants(), strict=True))
    busy = float(settled(mean, [grants[name] for name in mean.names], rates)[mean.names.index(_VICTIM), F_CPU_S])
    return replace(one, node=node, quotas={_VICTIM: busy * log_uniform(rng, 1.02, 1.4)})


def truth_of(one: Hidden, record: Record) -> tuple[Scene, str, tuple[str, str]] | None:
    """The scene, the victim and the true main cause; None where the case has no single one."""
    scenes = scenes_of(record)
    node = mean_node(one)
    exact = _OneWorld(one, node, tenants_of(record))
    for victim in (_VICTIM, *(name for name in (s.name for s in node.services) if name != _VICTIM)):
        scene = worst_scene(scenes, exact.ensemble, victim)
        if scene is None or (one.quotas and victim != _VICTIM):
            continue
        blame = exact.blame(scene, victim)
        if not blame.causes or blame.suffers_ms < _SUFFERS * blame.predicted_ms:
            continue
        first = blame.causes[0]
        if first.ms >= _MAIN * blame.suffers_ms and first.culprit is not None:
            return scene, victim, (first.culprit, first.resource)
    return None


def _promising(one: Hidden, kind: str) -> bool:
    """Whether the injected cause is the main one somewhere at the loads of the middle: records take seconds."""
    loads = loads_then(one, 0.5 * SECONDS)
    node = mean_node(one)
    rates = {service.name: loads[service.name] * service.max_load for service in node.services}
    scene = Scene((0,), tuple(node.names), {}, rates, {}, {}, {})
    exact = _OneWorld(one, node, _described(node))
    for victim in [_VICTIM] if one.quotas else [service.name for service in node.services]:
        blame = exact.blame(scene, victim)
        if blame.causes and blame.suffers_ms >= _SUFFERS * blame.predicted_ms:
            first = blame.causes[0]
            if first.resource == kind and first.ms >= _MAIN * blame.suffers_ms:
                return True
    return False


def _described(node: Node) -> list[Tenant]:
    """The tenants as a record would describe them."""
    services = [Tenant(one.name, "lc", one.target_ms, one.percentile, one.threads) for one in node.services]
    return [*services, *(Tenant(one.name, "be", None, "p99", one.threads) for one in node.jobs)]


class _OneWorld:
    """The hidden node's own Shapley values."""

    def __init__(self, one: Hidden, node: Node, tenants: Sequence[Any]) -> None:
        self.hidden = one
        self.ensemble = Ensemble(
            node.platform, _no_platform(), tuple(tenants), {}, {}, (), np.zeros((1, 0))
        )  # fmt: skip

    def blame(self, scene: Scene, victim: str) -> Blame:
        world: World = true_world(self.hidden, scene)
        return blamed(self.ensemble, scene, victim, (-9.0, 0.0, 9.0), members=1, worlds=lambda _at: world)


def _no_platform() -> Any:
    return None


def case(condition: str, seed: int, members: int) -> dict[str, Any] | None:
    """One case: what the truth is, what the twin says, and what the simplest rule says; None where none was found."""
    kind = KINDS[seed % len(KINDS)]
    for attempt in range(_TRIES):
        one = _injected(condition, kind, seed * 1000 + attempt)
        if not _promising(one, kind):
            continue
        record = record_of(one, SECONDS)
        true = truth_of(one, record)
        if true is not None and (true[2][1] == kind):
            break
    else:
        return None
    _, victim, (culprit, resource) = true
    twin = made(record, seed=seed, members=members)
    ensemble = twin.ensemble
    scene = worst_scene(twin.scenes, ensemble, victim)
    assert scene is not None  # noqa: S101 - the truth has one
    found = blamed(
        ensemble, scene, victim, noise_at(twin, victim, ensemble.tenant(victim).percentile).quantiles, seed=seed
    )
    top = found.causes[0] if found.causes else None
    busiest = _busiest(scene, victim)
    return {
        "seed": seed, "attempt": attempt, "kind": kind, "victim": victim, "culprit": culprit, "resource": resource,
        "twin_culprit": None if top is None else top.culprit, "twin_resource": None if top is None else top.resource,
        "confidence": None if top is None else top.confidence, "explained": found.explained,
        "suffers": found.suffers_ms / found.measured_ms, "named": None if top is None else top.ms / found.suffers_ms,
        "certain": found.main is not None,
        "simple_culprit": busiest,
    }  # fmt: skip


def _busiest(scene: Scene, victim: str) -> str | None:
    """The simplest rule: blame the neighbour that uses most CPU."""
    used = {n: seen["cpu"].log for n, seen in scene.seen.items() if n != victim and "cpu" in seen}
    return max(used, key=lambda name: used[name], default=None)


def _right(row: Mapping[str, Any]) -> bool:
    return (row["twin_culprit"], row["twin_resource"]) == (row["culprit"], row["resource"])


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Shares of cases with the right culprit and resource, by kind and in all."""

    def of(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        if not found:
            return {"cases": 0}
        sure = [row for row in found if row["certain"]]
        right = [_right(row) for row in found]
        return {
            "cases": len(found), "right": float(np.mean(right)), "named": len(sure),
            "right_when_named": float(np.mean([_right(row) for row in sure])) if sure else None,
            "right_culprit": float(np.mean([row["twin_culprit"] == row["culprit"] for row in found])),
            "simple_right_culprit": float(np.mean([row["simple_culprit"] == row["culprit"] for row in found])),
            "simple_right": float(np.mean([
                (row["simple_culprit"], CPU) == (row["culprit"], row["resource"]) for row in found
            ])),
        }  # fmt: skip

    own = [row for row in rows if row["kind"] == OWN_LIMIT]
    return {
        "overall": of(rows), "by_resource": {kind: of([row for row in rows if row["kind"] == kind]) for kind in KINDS},
        "own_limit_blamed_on_neighbour": sum(
            row["certain"] and row["twin_culprit"] not in (None, row["victim"]) for row in own
        ),
        "own_limit_blamed_on_neighbour_simple": sum(row["simple_culprit"] is not None for row in own),
    }  # fmt: skip
