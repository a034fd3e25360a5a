"""The resource management abilities of Ah-Q's DIP theorem as numbers: TA, DA, IA, PA (sections II and III).

The paper gives TA as a sum (equation 1) and the other three as predicates on a resource slice r_s in a time slice t_s:
IA where |Owners(r_s, t_s)| <= 1, DA where the owners are known, PA where they are served by priority. A policy that
isolates some resources and shares others has them in part, so they are shares of slices here, from 0 to 1. The lemmas
hold slice by slice: where a slice is isolated (lemma 1) or ordered (lemma 2), its owners are told apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from osml.base.failure import InputError
from osml.domain import Partition
from osml.entropy import tolerance

Divisible = Literal["cores", "ways"]


@dataclass(frozen=True)
class Abilities:
    """Shares of resource slices, 0 to 1: `da` whose owners are told apart, `ia` with one owner at most, `pa` whose
    owners are served in the order of their criticality.
    """

    da: float
    ia: float
    pa: float

    @property
    def kind(self) -> str:
        """Which of the five kinds of datacenter of figure 3 this is: "{}", "{D}", "{D, I}", "{D, P}" or "{D, I, P}"."""
        held = [name for name, share in (("D", self.da), ("I", self.ia), ("P", self.pa)) if share > 0.0]
        return "{" + ", ".join(held) + "}"


def tolerance_ability(ideals_and_targets_ms: Sequence[tuple[float, float]]) -> float:
    """TA = sum of 1 - TL_i0 / M_i over the LC services (equation 1): 0 to their number.

    It belongs to a node and its mix: no policy changes it.
    """
    return sum(tolerance(ideal, target) for ideal, target in ideals_and_targets_ms)


def abilities(partition: Partition, resource: Divisible, available: int, criticality: Mapping[str, int]) -> Abilities:
    """What a partition grants of one resource, of which the node has `available` units.

    `criticality` ranks the tenants, the most critical lowest; equals need no order. Units that nobody got have no owner
    and count as isolated. The operating system orders tasks on cores only, so ways never count as ordered.
    """
    if available < 1:
        raise InputError(f"available {resource} are {available}, expected at least 1")
    told_apart = isolated = ordered = 0.0
    left = float(available)
    for region in partition.regions:
        units = float(region.cores if resource == "cores" else region.ways)
        left -= units
        owners = set(region.owners)
        if len(owners) <= 1:
            isolated += units
        elif resource == "cores" and _by_criticality(partition, owners, criticality):
            ordered += units
        elif owners != set(criticality):
            told_apart += units
    isolated += max(left, 0.0)
    told_apart += isolated + ordered
    return Abilities(told_apart / available, isolated / available, ordered / available)


def _by_criticality(partition: Partition, owners: set[str], criticality: Mapping[str, int]) -> bool:
    """Whether owners differ in how critical they are, and all who differ are served in that order."""
    unequal = [pair for pair in combinations(sorted(owners), 2) if criticality[pair[0]] != criticality[pair[1]]]

    def priority(name: str) -> int:
        knobs = partition.knobs.get(name)
        return 0 if knobs is None else knobs.realtime_priority or 0

    return bool(unequal) and all(
        (priority(a) - priority(b)) * (criticality[a] - criticality[b]) < 0 for a, b in unequal
    )


def mean_abilities(parts: Sequence[Abilities]) -> Abilities:
    """Over time slices of equal length. InputError without any."""
    if not parts:
        raise InputError("no time slices, expected at least one")
    n = len(parts)
    return Abilities(sum(p.da for p in parts) / n, sum(p.ia for p in parts) / n, sum(p.pa for p in parts) / n)


def uncertainty(performances: Sequence[float]) -> float | None:
    """Standard deviation over mean of an application's performance over its co-runners (section VIII, observation 1).

    None with fewer than two values, or where one is infinite (a service that answered nothing has no tail latency).
    """
    values = np.asarray(performances, dtype=np.float64)
    if values.size < 2 or not np.isfinite(values).all() or values.mean() == 0.0:
        return None
    return float(values.std() / values.mean())


@dataclass(frozen=True)
class Changes:
    """Of so many comparisons, how many came out better, the same and worse."""

    better: int
    same: int
    worse: int

    @property
    def total(self) -> int:
        """All comparisons."""
        return self.better + self.same + self.worse

    @property
    def better_pct(self) -> float | None:
        """Percent better; None of nothing."""
        return 100.0 * self.better / self.total if self.total else None

    @property
    def worse_pct(self) -> float | None:
        """Percent worse; None of nothing."""
        return 100.0 * self.worse / self.total if self.total else None


def changes(gains: Sequence[float], same: float) -> Changes:
    """Count gains (relative, positive is better); up to `same` either way is no change. NaN: both were infinite."""
    better = sum(gain > same for gain in gains)
    worse = sum(gain < -same for gain in gains)
    return Changes(better, len(gains) - better - worse, worse)


def relative_gain(before: float, after: float, *, smaller_is_better: bool) -> float:
    """How much better `after` is, relative to `before`: 0.1 is 10 % better. NaN where both are infinite or zero."""
    if before == after:
        return math.nan if math.isinf(before) or before == 0.0 else 0.0
    if smaller_is_better:
        before, after = after, before  # a latency from 10 to 5 ms is a speed from 5 to 10
    if math.isinf(after) or before == 0.0:
        return math.inf
    return -1.0 if math.isinf(before) else after / before - 1.0
