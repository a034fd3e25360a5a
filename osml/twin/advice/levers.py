"""The levers of an operator, and what each would give a service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from osml.base.failure import InputError
from osml.twin import edits
from osml.twin.edits import Edit
from osml.twin.ensemble import Ensemble
from osml.twin.scenes import Scene
from osml.twin.whatif import changes, measured_in, outcomes_of
from osml.twin.world import World, world_of

MEMBERS = 16
PARTITIONING = ("own CPUs", "own cache ways (CAT)", "less memory bandwidth for jobs (MBA)")
"""Levers that divide the machine."""

OF_MEMORY = PARTITIONING[1:]
"""Those that divide its cache and its memory bandwidth."""

MECHANISM = {PARTITIONING[1]: "CAT", PARTITIONING[2]: "MBA"}
"""What a machine needs for them."""

_THROTTLE = 20.0
_LIGHT = 1.0


@dataclass(frozen=True)
class Lever:
    """What a lever gives a service: ms less (negative: more) with 90 % bounds; `available` on this machine.

    `after_ms` is the latency then, `jobs_speed` that of the jobs over what it is now (None without jobs).
    """

    lever: str
    gain: float
    low: float
    high: float
    after_ms: float
    jobs_speed: float | None
    available: bool


def _levers(world: World, ensemble: Ensemble, victim: str) -> dict[str, Edit]:
    """All levers that can be thought of for this service, by name."""
    targets = {one.name: one.target_ms for one in ensemble.tenants if one.target_ms is not None}
    found: dict[str, Edit] = {}
    if len(world.node.names) > 1:
        found[PARTITIONING[0]] = edits.own_cpus(world)
        if len(world.services) + 1 <= world.node.platform.ways:
            found[PARTITIONING[1]] = edits.own_ways(world, targets)
    if world.jobs:
        found[PARTITIONING[2]] = edits.jobs_bandwidth_at_most(_THROTTLE)
        found["lowest CPU weight for jobs"] = edits.jobs_weight(_LIGHT)
    if world.grants[victim].cpu_quota is not None:
        found["no CPU limit of its own"] = edits.quota(victim, None)
    for name in world.node.names:
        if name != victim:
            found[f"move {name} away"] = edits.removed(name)
    found["half of its load elsewhere"] = edits.load(victim, 0.5)
    return found


def _available(name: str, ensemble: Ensemble) -> bool:
    have = {"CAT": ensemble.platform.ways is not None, "MBA": ensemble.platform.mba is not None}
    return have.get(MECHANISM.get(name, ""), True)


def levers_for(ensemble: Ensemble, scene: Scene, victim: str, *, members: int = MEMBERS) -> list[Lever]:
    """What each lever gives a service in a scene, the best first."""
    some = ensemble.some(members)
    world = world_of(some, some.size // 2, scene)
    found: list[Lever] = []
    measured = measured_in(some, [scene], victim) or 0.0  # what it stays at where the twin cannot tell a change
    before = outcomes_of(some, [scene], members=members)
    for name, edit in _levers(world, some, victim).items():
        try:
            changed = changes(some, [scene], [edit], members=members, before=before)
        except InputError:
            continue
        own = next(one for one in changed if one.name == victim)
        gain, low, high = own.gain
        after = measured if own.after is None else own.after
        speeds = [one.ratio for one in changed if one.kind == "be" and one.ratio is not None]
        speed = sum(speeds) / len(speeds) if speeds else None
        found.append(Lever(name, gain, low, high, after, speed, _available(name, some)))
    return sorted(found, key=lambda one: -one.gain)


def best(levers: Sequence[Lever], names: Sequence[str]) -> Lever | None:
    """The lever of these that is there and gives most for sure; None where none does."""
    sure = [one for one in levers if one.lever in names and one.available and one.low > 0]
    return max(sure, key=lambda one: one.gain, default=None)
