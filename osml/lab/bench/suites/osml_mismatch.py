"""Nodes that nobody trained on: other programs, machines, sensors and company than in the training data."""

from __future__ import annotations

from osml.lab.bench.report import mismatch
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.simulator.mix import Mix
from osml.simulator.variation.conditions import CONDITIONS
from osml.simulator.variation.draw import drawn

_EACH = 6
"""Mixes of a condition without a job, and as many beside one."""

_LIMIT_S, _SETTLE_S = 180.0, 60.0
"""A drift goes from the least work to the most in one to two minutes."""


def scenario(condition: str, seed: int, *, beside_job: bool) -> Scenario:
    """The mix of a seed under a condition."""
    variant = drawn(CONDITIONS[condition], seed, beside_job=beside_job)
    return Scenario(
        "osml-mismatch",
        condition,
        Mix(variant.loads, variant.jobs),
        variant.node.platform.id,
        limit_s=_LIMIT_S,
        settle_s=_SETTLE_S,
        whole=True,
        bounds=True,
        variant=variant,
    )


def scenarios() -> list[Scenario]:
    """All conditions, each with the same mixes as far as it leaves them the same."""
    return [
        scenario(condition, seed, beside_job=beside_job)
        for condition in CONDITIONS
        for beside_job in (False, True)
        for seed in range(_EACH)
    ]


def sections(results: Results) -> list[Section]:
    """Policy by condition, and whether predicted bounds hold."""
    bounds = mismatch.coverage(results)
    return [mismatch.conditions(results), *mismatch.by_condition(results), *([] if bounds is None else [bounds])]


SUITE = Suite(
    "osml-mismatch",
    "Nodes, sensors and company that nobody trained on",
    "no paper",
    "osml",
    ("unmanaged", "staffing", "staffing:climb", "arq", "parties", "osml"),
    scenarios,
    sections,
    ask_oracle=True,
    seeds=1,
)
