"""Nodes of the condition `real-hard` beside a job whose targets can be met at all times, and their loads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from osml.lab.bench.oracle_policy import NAME, Answers
from osml.simulator.load_traces import Steps
from osml.simulator.variation.conditions import CONDITIONS
from osml.simulator.variation.draw import Variant, drawn

CONDITION = "real-hard"
FIRST_SEED = 400
"""Model-C' learned from seeds of 50,000 and more; suites draw theirs from 0 on."""

_LEAST, _MOST = 0.4, 1.25  # of the mean load
_FULL = 0.9  # no load is more
_CHANGES_S = (60.0, 300.0)
_PERIODS_S = 600.0  # longer than each period of a drift


def feasible_nodes() -> Iterator[Variant]:
    """Nodes, in the order of their seeds, on which the oracle meets all targets at the most load and the most work."""
    answers, seed = Answers(), FIRST_SEED
    while True:
        variant = drawn(CONDITIONS[CONDITION], seed, beside_job=True)
        most = {name: min(_FULL, _MOST * load) for name, load in variant.loads.items()}
        if answers.best(NAME, variant.heaviest(_PERIODS_S), most).feasible:
            yield variant
        seed += 1


def loads_of(variant: Variant, seconds: float) -> dict[str, Steps]:
    """Loads that change every one to five minutes, between 0.4 and 1.25 times their mean."""
    found: dict[str, Steps] = {}
    for k, (name, mean) in enumerate(sorted(variant.loads.items())):
        rng = np.random.default_rng([variant.seed, k, 77])
        changes: list[tuple[float, float]] = []
        at = float(rng.uniform(*_CHANGES_S))
        while at < seconds:
            changes.append((at, min(_FULL, mean * float(rng.uniform(_LEAST, _MOST)))))
            at += float(rng.uniform(*_CHANGES_S))
        found[name] = Steps(mean, tuple(changes))
    return found
