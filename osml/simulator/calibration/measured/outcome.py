"""What a test against measurements found: pairs of a measured number and ours, and how far they are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

WORST = 10
"""Pairs with the largest errors that a report shows."""

Kind = Literal["relative", "factor", "distance"]
"""How an error is counted: |ours/measured - 1|, the larger of ours/measured and its inverse, or |ours - measured|."""


class Pair(NamedTuple):
    """One measured number beside ours, and beside what the simplest rule says (None: it says nothing)."""

    key: str
    measured: float
    ours: float
    simplest: float | None = None


class Rule(NamedTuple):
    """A rule that is simpler than ours and might do as well."""

    name: str
    values: Sequence[float | None]  # one for each pair


class Test(NamedTuple):
    """A group of pairs. `within` is the largest error that counts as good; `simplest` names the simplest rule.

    `aim` is the share that the project wants within; None where it only looks. `rules` are further simple rules.
    """

    __test__ = False  # pytest takes every class of this name for one of its own

    name: str
    unit: str
    kind: Kind
    within: float
    pairs: Sequence[Pair]
    simplest: str = ""
    aim: float | None = None
    note: str = ""
    rules: Sequence[Rule] = ()


def error(kind: Kind, measured: float, ours: float) -> float:
    """How far ours is off; infinite where it is no number, or a factor of something that is not positive."""
    if not (math.isfinite(measured) and math.isfinite(ours)):
        return math.inf
    if kind == "distance":
        return abs(ours - measured)
    if kind == "relative":
        return abs(ours / measured - 1.0) if measured else math.inf
    return max(ours / measured, measured / ours) if ours > 0.0 < measured else math.inf


def finite(value: float) -> float | None:
    """The value for JSON, which knows neither NaN nor infinity."""
    return float(value) if math.isfinite(value) else None


def summary(kind: Kind, within: float, told: Sequence[tuple[float, float]]) -> dict[str, Any]:
    """Count, median and 90th percentile of the errors, and the share within; null where there is none."""
    if not told:
        return {"n": 0, "median_error": None, "p90_error": None, "share_within": None}
    found = np.sort([error(kind, measured, ours) for measured, ours in told])
    worst = float(np.finfo(float).max)
    median, p90 = np.quantile(np.minimum(found, worst / 4.0), [0.5, 0.9])
    return {
        "n": len(found),
        "median_error": float(median) if median < worst / 8.0 else None,
        "p90_error": float(p90) if p90 < worst / 8.0 else None,
        "share_within": float(np.mean(found <= within * (1.0 + 1e-9))),
    }


def document(test: Test) -> dict[str, Any]:
    """A test as JSON: counts and errors of ours and of the simplest rules, and the worst pairs."""
    found: dict[str, Any] = {"name": test.name, "unit": test.unit, "error": test.kind}
    found |= summary(test.kind, test.within, [(pair.measured, pair.ours) for pair in test.pairs])
    found |= {"within": test.within, "aim": test.aim, "simplest": None, "rules": []}
    if test.simplest:
        told = [(pair.measured, pair.simplest) for pair in test.pairs if pair.simplest is not None]
        found["simplest"] = {"name": test.simplest} | summary(test.kind, test.within, told)
    for rule in test.rules:
        told = [(p.measured, value) for p, value in zip(test.pairs, rule.values, strict=True) if value is not None]
        found["rules"].append({"name": rule.name} | summary(test.kind, test.within, told))
    ranked = sorted(test.pairs, key=lambda pair: -error(test.kind, pair.measured, pair.ours))
    found["worst"] = [
        {"key": pair.key, "measured": finite(pair.measured), "ours": finite(pair.ours)} for pair in ranked[:WORST]
    ]
    found["note"] = test.note
    return found
