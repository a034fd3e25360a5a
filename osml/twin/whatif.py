"""What would change: the members of a twin before and after an edit, with bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from osml.twin.edits import Edit
from osml.twin.ensemble import Ensemble
from osml.twin.scenes import Scene
from osml.twin.world import busiest, outcome, world_of

MEMBERS = 24
SCENES = 4
WIDER = 1.5
"""Bounds are so much wider than the members: they know nothing of what the equations leave out. Chosen on development
seeds, see docs/notes/2026-11-25-your-nodes-twin.md."""

LEAST = 0.03
"""Log-spread that every predicted change has at least."""


@dataclass(frozen=True)
class Change:
    """Of a service its latency in ms, of a job its speed (1: alone): measured or predicted before, and then.

    `ratio` is after over before, with 90 % bounds; None for who comes or goes. `before` is None for who comes.
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


def bounds(ratios: Sequence[float]) -> tuple[float, float, float]:
    """(median, low, high) of a change over the members, as logarithms."""
    low, half, high = np.quantile(np.array(ratios), [0.05, 0.5, 0.95]).tolist()
    least = 1.645 * LEAST
    return half, half - math.hypot(WIDER * (half - low), least), half + math.hypot(WIDER * (high - half), least)


def ratios_of(
    ensemble: Ensemble, scenes: Sequence[Scene], edits: Sequence[Edit], *, members: int = MEMBERS
) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Outcomes of every member before and after, means over the scenes by their length."""
    some = ensemble.some(members)
    before, after = [_outcomes(some, member, scenes, ()) for member in range(some.size)], list[dict[str, float]]()
    for member in range(some.size):
        after.append(_outcomes(some, member, scenes, edits))
    return before, after


def _outcomes(ensemble: Ensemble, member: int, scenes: Sequence[Scene], edits: Sequence[Edit]) -> dict[str, float]:
    total: dict[str, float] = {}
    weights: dict[str, float] = {}
    for scene in scenes:
        world = world_of(ensemble, member, scene)
        for edit in edits:
            world = edit(world, member)
        for name, value in outcome(world).items():
            total[name] = total.get(name, 0.0) + len(scene.intervals) * value
            weights[name] = weights.get(name, 0.0) + len(scene.intervals)
    return {name: value / weights[name] for name, value in total.items()}


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
    ensemble: Ensemble, scenes: Sequence[Scene], edits: Sequence[Edit], *, members: int = MEMBERS
) -> list[Change]:
    """What an edit changes for everybody, services first. InputError where an edit is not possible."""
    before, after = ratios_of(ensemble, scenes, edits, members=members)
    return compared(ensemble, scenes, before, after)


def compared(
    ensemble: Ensemble, scenes: Sequence[Scene], before: Sequence[Mapping[str, float]],
    after: Sequence[Mapping[str, float]],
) -> list[Change]:  # fmt: skip
    """Outcomes before and after as changes of what was measured."""
    known = {one.name: one for one in ensemble.tenants}
    found: list[Change] = []
    for name in dict.fromkeys([*before[0], *after[0]]):
        kind = known[name].kind if name in known else ("be" if _is_share(after, name) else "lc")
        target = known[name].target_ms if name in known else None
        if name not in before[0]:
            low, half, high = np.quantile([one[name] for one in after], [0.05, 0.5, 0.95]).tolist()
            found.append(Change(name, kind, None, half, low, high, None, target))
            continue
        real = measured_in(ensemble, scenes, name) or float(np.median([one[name] for one in before]))
        if name not in after[0]:
            found.append(Change(name, kind, real, None, None, None, None, target))
            continue
        logs = [math.log(then[name] / now[name]) for now, then in zip(before, after, strict=True)]
        half, low, high = (math.exp(x) for x in bounds(logs))
        found.append(Change(name, kind, real, real * half, real * low, real * high, half, target))
    return sorted(found, key=lambda one: one.kind == "be")


def _is_share(after: Sequence[Mapping[str, float]], name: str) -> bool:
    return all(one[name] <= 1.0 + 1e-6 for one in after)


def chosen_scenes(scenes: Sequence[Scene], count: int = SCENES) -> list[Scene]:
    """The scenes that a what-if looks at: the longest ones."""
    return busiest(scenes, count)


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
