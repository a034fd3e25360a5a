"""Which partition CLITE tries next: its bootstrap points, then the one with the highest expected improvement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from osml.allocation.compositions import Units
from osml.policies.clite.space import Kept, Space
from osml.policies.clite.surrogate import EXPLORATION, Surrogate

THRESHOLD = 0.01  # expected improvement below which sampling ends, for up to three parts
MAX_SAMPLES = 60  # after the bootstrap
CANDIDATES = 512
CLIMBERS, ROUNDS = 4, 6  # local search: so many of the best candidates, at most so often


class Sample(Struct, frozen=True, array_like=True):
    """A point (flat, resource by resource) and its score; None where it could not be measured or was refused.

    `leader`: the LC service that did best with it.
    """

    units: list[int]
    score: float | None
    leader: str | None = None


class Proposal(NamedTuple):
    """The next point to try, what is expected of it, and the part that was kept from the best point."""

    point: Units
    improvement: float
    kept: int | None


def bootstrap(space: Space) -> list[Units]:
    """The equal split, then for each part in turn as much of everything as it may have; each point once."""
    points = [space.equal(), *(space.extreme(part) for part in space.free)]
    return list({tuple(point.ravel().tolist()): point for point in points}.values())


def best_of(samples: Sequence[Sample]) -> Sample | None:
    """The sample with the highest score, the first of equals; None where none has a score."""
    scored = [sample for sample in samples if sample.score is not None]
    return max(scored, key=lambda sample: sample.score or 0.0, default=None)


def threshold(space: Space) -> float:
    """The expected improvement below which sampling ends: it grows with the number of parts."""
    return THRESHOLD * max(1.0, len(space.free) / 3)


def propose(
    space: Space, samples: Sequence[Sample], rng: np.random.Generator, *, relative: bool = False
) -> Proposal | None:
    """The point with the highest expected improvement; None where sampling ends.

    relative: the improvement is compared with the best score. Where all scores are low, so is every improvement.

    Dropout-copy: the service that did best in the best sample keeps its part of that, the others are optimised. Only
    where nothing is to be gained so, the whole space is looked at.
    """
    best = best_of(samples)
    if best is None:
        return None
    scored = [sample for sample in samples if sample.score is not None]
    points = np.array([sample.units for sample in scored])  # (samples, resources * parts)
    scale = best.score or 0.0 if relative else 1.0
    scores = np.array([s.score for s in scored], dtype=float)
    model = Surrogate(space.scaled(points.reshape(-1, *space.shape)), scores, EXPLORATION * scale)
    known = np.array([sample.units for sample in samples])
    incumbent = np.array(best.units).reshape(space.shape)
    least = threshold(space) * scale
    choices: list[Kept | None] = [None]
    kept = space.parts.index(best.leader) if best.leader in space.parts else -1
    if len(space.free) > 2 and kept in space.free:
        choices.insert(0, Kept(kept, incumbent))
    for choice in choices:
        found = _climb(space, model, known, incumbent, choice, rng)
        if found is not None and found.improvement >= least:
            return found
    return None


def _climb(
    space: Space, model: Surrogate, known: Units, incumbent: Units, kept: Kept | None, rng: np.random.Generator
) -> Proposal | None:
    """The best of many points drawn at random and around the incumbent, and of what lies around the best of those."""
    points = np.concatenate([space.draw(CANDIDATES, rng, kept), space.neighbours(incumbent[None], rng, kept)])
    best: Proposal | None = None
    for _ in range(ROUNDS):
        points = points[_new(points, known)]
        if not len(points):
            break
        improvements = model.expected_improvement(space.scaled(points))
        order = np.argsort(-improvements, kind="stable")
        top = float(improvements[order[0]])
        if best is not None and top <= best.improvement:
            break
        best = Proposal(points[order[0]], top, None if kept is None else kept.part)
        points = space.neighbours(points[order[:CLIMBERS]], rng, kept)
    return best


def _new(points: Units, known: Units) -> NDArray[np.bool_]:
    """True for points that were not tried before."""
    return ~(points.reshape(len(points), 1, -1) == known).all(axis=2).any(axis=1)
