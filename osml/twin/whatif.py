"""What would change: the members of a twin before and after an edit, with bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import numpy as np

from osml.base.failure import InputError
from osml.twin.edits import Edit
from osml.twin.ensemble import Ensemble
from osml.twin.forward import SETTLED_S
from osml.twin.scenes import Scene, Tenant
from osml.twin.world import outcome, world_of

MEMBERS = 32
SCENES = 4
WIDER, PART, LEAST = 3.0, 0.5, 0.04
"""Bounds are so much wider than the members, and at least this part of the change and this log-spread: members know
nothing of what the equations leave out. Chosen on development seeds, see docs/notes/2026-11-25-your-nodes-twin.md."""

_MISFIT = 0.15
"""Log-error of a member's latency in a scene at which its weight falls."""

_MOST_OFF = 1.0


@dataclass(frozen=True)
class Change:
    """Of a service its latency in ms, of a job its speed (1: alone): measured or predicted before, and then.

    `ratio` is after over before, with 90 % bounds; None for who comes or goes. `before` is None for who comes. All are
    None for a service that has no load in any of the scenes.
    """

    name: str
    kind: str
    before: float | None
    after: float | None
    low: float | None
    high: float | None
    ratio: float | None
    target_ms: float | None

    @property
    def gain(self) -> tuple[float, float, float]:
        """How much less it is after (median, low, high); 0 for who comes or goes."""
        if self.before is None or self.after is None or self.low is None or self.high is None:
            return 0.0, 0.0, 0.0
        return self.before - self.after, self.before - self.high, self.before - self.low


def bounds(logs: Sequence[float], weights: Sequence[float]) -> tuple[float, float, float]:
    """(median, low, high) of a change over the weighted members, as logarithms."""
    low, half, high = weighted_quantiles(logs, weights, (0.05, 0.5, 0.95))
    least = math.hypot(1.645 * LEAST, PART * half)
    return half, half - math.hypot(WIDER * (half - low), least), half + math.hypot(WIDER * (high - half), least)


def weighted_quantiles(values: Sequence[float], weights: Sequence[float], levels: Sequence[float]) -> list[float]:
    """Quantiles of weighted values, by interpolation between the middles of their weights."""
    order = np.argsort(values, kind="stable")
    heavy = np.asarray(weights)[order]
    at = (np.cumsum(heavy) - 0.5 * heavy) / heavy.sum()
    return [float(x) for x in np.interp(levels, at, np.asarray(values)[order])]


Outcomes = list[dict[str, float]]
"""What everybody shows, by scene."""


def outcomes_of(
    ensemble: Ensemble, scenes: Sequence[Scene], edits: Sequence[Edit] = (), *, members: int = MEMBERS,
    seconds: float = SETTLED_S,
) -> list[Outcomes]:  # fmt: skip
    """What every member shows in every scene, `seconds` after these edits."""
    some = ensemble.some(members)
    found: list[Outcomes] = []
    for member in range(some.size):
        shown: Outcomes = []
        for scene in scenes:
            world = world_of(some, member, scene)
            for edit in edits:
                world = edit(world, member)
            shown.append(outcome(world, seconds))
        found.append(shown)
    return found


def weights_of(ensemble: Ensemble, scenes: Sequence[Scene], before: Sequence[Outcomes], name: str) -> list[float]:
    """How well each member explains what was measured of a tenant in these scenes; they add up to 1."""
    tenant = ensemble.tenant(name)
    quantity = tenant.percentile if tenant.kind == "lc" else "speed"
    misfits = np.zeros(len(before))
    for at, scene in enumerate(scenes):
        reading = scene.seen.get(name, {}).get(quantity)
        if reading is not None:
            offs = np.array([abs(math.log(max(one[at][name], 1e-9)) - reading.log) for one in before])
            misfits += (np.minimum(offs, _MOST_OFF) / _MISFIT) ** 2 / len(scenes)
    found = np.exp(-0.5 * (misfits - misfits.min())) + 1e-3
    return [float(x) for x in found / found.sum()]


def mean_over(shown: Outcomes, scenes: Sequence[Scene], name: str) -> float | None:
    """Mean of what somebody shows over the scenes by their length; None where nobody of that name is."""
    known = [(len(scene.intervals), one[name]) for scene, one in zip(scenes, shown, strict=True) if name in one]
    return sum(n * value for n, value in known) / sum(n for n, _ in known) if known else None


def measured_in(ensemble: Ensemble, scenes: Sequence[Scene], name: str) -> float | None:
    """What the record has of a tenant in these scenes, the mean by their length; None where it has nothing."""
    tenant = ensemble.tenant(name)
    quantity = tenant.percentile if tenant.kind == "lc" else "speed"
    known = [
        (len(scene.intervals), math.exp(scene.seen[name][quantity].log))
        for scene in scenes
        if quantity in scene.seen.get(name, {})
    ]
    return sum(n * value for n, value in known) / sum(n for n, _ in known) if known else None


def changes(
    ensemble: Ensemble, scenes: Sequence[Scene], edits: Sequence[Edit], *, members: int = MEMBERS,
    before: Sequence[Outcomes] | None = None,
) -> list[Change]:  # fmt: skip
    """What an edit changes for everybody, services first. InputError where an edit is not possible.

    `before` are the outcomes without it, where they are known.
    """
    known = before or outcomes_of(ensemble, scenes, members=members)
    after = outcomes_of(ensemble, scenes, edits, members=members)
    return compared(ensemble, scenes, known, after, _jobs_after(ensemble, scenes, edits))


def _jobs_after(ensemble: Ensemble, scenes: Sequence[Scene], edits: Sequence[Edit]) -> frozenset[str]:
    """The names of all jobs that are there after the edits, newcomers too."""
    found: set[str] = set()
    for scene in scenes:
        world = world_of(ensemble, 0, scene)
        for edit in edits:
            world = edit(world, 0)
        found |= set(world.jobs)
    return frozenset(found)


def compared(
    ensemble: Ensemble, scenes: Sequence[Scene], before: Sequence[Outcomes], after: Sequence[Outcomes],
    jobs: AbstractSet[str] = frozenset(),
) -> list[Change]:  # fmt: skip
    """Outcomes before and after as changes of what was measured. Members that explain it better weigh more.

    A service is compared in the scenes in which it has load: without, it answers nothing, whatever changes. `jobs`
    tells the jobs from the services among those who come.
    """
    known = {one.name: one for one in ensemble.tenants}
    found: list[Change] = []
    for name in dict.fromkeys(name for shown in (*before[0], *after[0]) for name in shown):
        kind = known[name].kind if name in known else ("be" if name in jobs else "lc")
        target = known[name].target_ms if name in known else None
        awake = [at for at, scene in enumerate(scenes) if not _idle(known.get(name), scene)]
        its = [scenes[at] for at in awake]
        was, will = ([[shown[at] for at in awake] for shown in outcomes] for outcomes in (before, after))
        now = [mean_over(shown, its, name) for shown in was]
        then = [mean_over(shown, its, name) for shown in will]
        weights = weights_of(ensemble, its, was, name) if None not in now else [1.0] * len(then)
        real = None
        if None not in now:
            real = measured_in(ensemble, its, name) or weighted_quantiles(_known(now), weights, [0.5])[0]
        if None in then:
            found.append(Change(name, kind, real, None, None, None, None, target))
        elif real is None:
            low, half, high = np.quantile(_known(then), [0.05, 0.5, 0.95]).tolist()
            found.append(Change(name, kind, None, half, low, high, None, target))
        else:
            logs = [math.log(x / y) for x, y in zip(_known(then), _known(now), strict=True)]
            half, low, high = (math.exp(x) for x in bounds(logs, weights))
            found.append(Change(name, kind, real, real * half, real * low, real * high, half, target))
    return sorted(found, key=lambda one: one.kind == "be")


def _idle(tenant: Tenant | None, scene: Scene) -> bool:
    """Whether somebody is a service that is there and got no requests, or none that were counted."""
    if tenant is None or tenant.kind != "lc" or tenant.name not in scene.present:
        return False
    return not scene.rates.get(tenant.name)


def _known(values: Sequence[float | None]) -> list[float]:
    return [max(value, 1e-9) for value in values if value is not None]


def chosen_scenes(scenes: Sequence[Scene], names: AbstractSet[str] = frozenset()) -> list[Scene]:
    """The scenes that a what-if looks at: the longest ones with the same tenants, among them all of these names.

    InputError where these were not on the machine, or not together.
    """
    longest = sorted(scenes, key=lambda scene: (-len(scene.intervals), scene.intervals[0]))
    first = next((scene for scene in longest if names <= set(scene.present)), None)
    if first is None:
        there = list(dict.fromkeys(name for scene in scenes for name in scene.present))
        strangers = names - set(there)
        if strangers:
            raise InputError(
                f"'{min(strangers)}' is not on the machine in any scene of the twin; there are {', '.join(there)}"
            )
        raise InputError(f"{' and '.join(sorted(names))} were not on the machine together; ask for each of them alone")
    return [scene for scene in longest if set(scene.present) == set(first.present)][:SCENES]


def rows_of(found: Sequence[Change]) -> list[dict[str, Any]]:
    """Changes as rows of a document: `p99_ms`-like keys for services, `speed` for jobs."""
    return [
        {
            "name": one.name, "class": one.kind, "unit": "ms" if one.kind == "lc" else "share of its speed alone",
            "before": one.before, "after": one.after, "low": one.low, "high": one.high, "ratio": one.ratio,
            "target_ms": one.target_ms,
        }
        for one in found
    ]  # fmt: skip
