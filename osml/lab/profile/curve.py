"""From counts to a curve: misses per 1000 instructions with every number of ways, with error bars."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from osml.base.failure import Failure
from osml.lab.profile.caches import LINE_BYTES

Floats = npt.NDArray[np.float64]
FEWEST_INSTRUCTIONS = 1_000_000
_BATCHES = 16
_RULE_OF_THREE = 3.0
"""Where nothing was counted, up to 3 may be expected with 95 % (Hanley and Lippman-Hand 1983)."""


@dataclass(frozen=True)
class Curve:
    """Arrays go over the ways from 1. `errors` are half widths of 95 % intervals.

    `mpki` are misses per 1000 instructions, `accesses` what reaches the last level, `cold` misses on lines that were
    never seen before, which are part of `mpki`. `bytes_per_miss` is the traffic of one miss with write-backs.
    `prefetched` are lines that the prefetcher fetched, per 1000 instructions.
    """

    mpki: Floats
    errors: Floats
    accesses: float
    accesses_error: float
    cold: float
    bytes_per_miss: Floats
    prefetched: Floats


def check_long_enough(report: dict[str, Any]) -> None:
    """Raise Failure for a run that is too short to say anything."""
    count = int(report["instructions"])
    if count < FEWEST_INSTRUCTIONS:
        raise Failure(
            f"the program ran {count:,} instructions while it was measured, expected at least {FEWEST_INSTRUCTIONS:,}: "
            "give it more work, or more --seconds"
        )


def _misses(histogram: Any) -> Floats:
    """Misses with 0, 1, ... ways of a histogram of depths; the last two places miss with all ways."""
    counts = np.asarray(histogram, dtype=float)
    return np.cumsum(counts[::-1])[::-1][:-1]


def _half_width(groups: Floats, slices: Floats, instructions: Floats, whole_run: bool) -> Floats:
    """Half widths of 95 % intervals of the misses of a run, from two independent spreads.

    Groups of sets (groups, ways) tell how much depends on where lines lie. Batches of time (slices, ways) tell how
    much another stretch of the run would differ; a program that ran from begin to end has no other stretch.
    """
    n = len(groups)
    variance: Floats = n / (n - 1) * ((groups - groups.mean(axis=0)) ** 2).sum(axis=0)
    freedom = n - 1
    parts = min(_BATCHES, len(slices))
    if not whole_run and parts > 1:
        cuts = np.linspace(0, len(slices), parts + 1).astype(int)[:-1]
        missed, ran = np.add.reduceat(slices, cuts, axis=0), np.add.reduceat(instructions, cuts)
        rest = missed - missed.sum(axis=0) * (ran / ran.sum())[:, None]
        variance = variance + parts / (parts - 1) * (rest**2).sum(axis=0)
        freedom = min(freedom, parts - 1)
    law: Any = importlib.import_module("scipy.stats").t  # it has no type information
    return np.maximum(float(law.ppf(0.975, freedom)) * np.sqrt(variance), _RULE_OF_THREE)


def curve_of(report: dict[str, Any], variant: int, whole_run: bool) -> Curve:
    """The curve without a prefetcher (variant 0) or with the stream prefetcher (1)."""
    per_ki = 1000.0 * report["sets"] / report["sampled_sets"] / report["instructions"]
    groups = np.array([_misses(group["demand"][variant]) for group in report["groups"]])  # (groups, ways + 1)
    slices = np.array([_misses(part["demand"][variant]) for part in report["slices"]])
    ran = np.array([part["instructions"] for part in report["slices"]], dtype=float)
    total: Floats = groups.sum(axis=0)
    half = _half_width(groups, slices, ran, whole_run)
    written: Floats = np.sum([group["written"][variant] for group in report["groups"]], axis=0)
    ahead: Floats = np.sum([_misses(group["prefetched"]) for group in report["groups"]], axis=0)[1:] * float(variant)
    cold = sum(group["demand"][variant][-1] for group in report["groups"])
    missed = total[1:]
    lines = missed + ahead + written
    return Curve(
        mpki=missed * per_ki,
        errors=half[1:] * per_ki,
        accesses=float(total[0] * per_ki),
        accesses_error=float(half[0] * per_ki),
        cold=float(cold * per_ki),
        bytes_per_miss=LINE_BYTES * np.divide(lines, missed, out=np.ones_like(lines), where=missed > 0),
        prefetched=ahead * per_ki,
    )
