"""Who slows the services of a node right now: its twin's blame for the last intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from osml.decide.outlook import BlameNow, CauseNow, ServiceNow
from osml.domain import Observation
from osml.records import Line, Record, gaps_in
from osml.twin.advice.advise import cause_in_words
from osml.twin.advice.blame import Blame, blamed
from osml.twin.document import Twin, check_machine, check_tenants, load, noise_at
from osml.twin.ensemble import judged_by
from osml.twin.scenes import Scene, Tenant, check_one_cache, last_scene

SMALL_MS = 1e-6
NEAR = 0.8
"""Share of its target from which on a service is asked about."""


def blame_now(file: Path, observations: Sequence[Observation]) -> BlameNow:
    """The blame of the twin in a file for the allocation that is in force at the end of the observations.

    Raises InputError where the file is no twin of this node as it is now.
    """
    twin, newest = load(file), observations[-1]
    check_one_cache([newest])
    _check(twin, newest)
    scene = last_scene(Record([Line(one, None) for one in observations], frozenset(gaps_in(observations))))
    if scene is None:
        why = "the allocation changed a moment ago, or the hypervisor took much CPU time: ask again in some intervals"
        return BlameNow(newest.node, 0, [], why)
    services = [_service(found) for found in _found(twin, scene, newest)]
    untold = _untold(scene, newest, {one.name for one in services})
    reason = untold or (None if services else f"no service is above {NEAR:.0%} of its target")
    return BlameNow(newest.node, len(scene.intervals), services, reason)


def _check(twin: Twin, newest: Observation) -> None:
    check_machine(twin, newest.node, [newest.platform], "the observation")
    check_tenants(twin, [newest], "the observation")


def _found(twin: Twin, scene: Scene, newest: Observation) -> list[Blame]:
    """Judged by the targets of the newest observation: those of the twin are as old as its record."""
    ensemble = judged_by(twin.ensemble, newest.services)
    found = [
        blamed(ensemble, scene, one.name, noise_at(twin, one.name, one.percentile).quantiles)
        for one in ensemble.tenants
        if _near(one, scene)
    ]
    return sorted(found, key=lambda one: -one.suffers_ms)


def _near(tenant: Tenant, scene: Scene) -> bool:
    """Whether a service misses its target, or may soon. To ask about the others would only take time."""
    reading = scene.seen.get(tenant.name, {}).get(tenant.percentile)
    if tenant.kind != "lc" or reading is None or not scene.rates.get(tenant.name):
        return False  # without a count of its requests the twin takes it as idle
    late = tenant.target_ms is not None and math.exp(reading.log) > NEAR * tenant.target_ms
    return late or scene.missed.get(tenant.name, 0.0) > 0


def _untold(scene: Scene, newest: Observation, told: AbstractSet[str]) -> str | None:
    """Of which services near or above their targets the twin can tell nothing, and why; None without any."""
    said: list[str] = []
    for one in newest.services:
        close = scene.missed.get(one.name, 0.0) > 0 or (one.slack is not None and one.slack < 1.0 - NEAR)
        if one.kind != "lc" or one.name in told or not close:
            continue
        if not scene.rates.get(one.name):
            said.append(f"{one.name} is near or above its target; why can't be told, for its requests are not counted")
        elif one.percentile not in scene.seen.get(one.name, {}):
            said.append(f"{one.name} is near or above its target; why can't be told, for it was measured too seldom")
    return ". ".join(said) or None


def _service(blame: Blame) -> ServiceNow:
    causes = [CauseNow(c.culprit, c.resource, c.ms, c.e_s, c.confidence) for c in blame.causes if abs(c.ms) >= SMALL_MS]
    words = cause_in_words(blame) if causes or not blame.explained else f"{blame.service} hardly suffers."
    return ServiceNow(
        blame.service, blame.measured_ms, blame.alone_ms, blame.suffers_ms, blame.explained, words, causes
    )
