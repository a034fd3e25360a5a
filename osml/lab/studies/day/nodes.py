"""Nodes of the condition `real-hard` beside a job whose targets can be met at the heaviest moment of their day."""

from __future__ import annotations

from collections.abc import Iterator

from osml.lab.bench.oracle_policy import NAME, Answers
from osml.simulator.variation.conditions import CONDITIONS
from osml.simulator.variation.draw import Variant, drawn
from osml.simulator.variation.loads import most_loads

CONDITION = "real-hard"
FIRST_SEED = 400
"""Model-C' learned from seeds of 50,000 and more; suites draw theirs from 0 on."""

CHANGES_S = (60.0, 300.0)
"""Between two changes of a load."""

_PERIODS_S = 600.0  # longer than each period of a drift


def feasible_nodes() -> Iterator[Variant]:
    """Nodes, in the order of their seeds, on which the oracle meets all targets at the most load and the most work."""
    answers, seed = Answers(), FIRST_SEED
    while True:
        variant = drawn(CONDITIONS[CONDITION], seed, beside_job=True)
        if answers.best(NAME, variant.heaviest(_PERIODS_S), most_loads(variant)).feasible:
            yield variant
        seed += 1
