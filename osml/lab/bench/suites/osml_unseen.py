"""Mixes with one, two and three services that no model was trained on (OSML section 6.4)."""

from __future__ import annotations

import numpy as np

from osml.lab.bench.published import published
from osml.lab.bench.report import convergence
from osml.lab.bench.report.document import Section
from osml.lab.bench.report.tables import against_published
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites.osml_302 import PLATFORM, SERVICES
from osml.simulator.mix import Mix

UNSEEN = ("silo", "shore", "mysql", "redis", "nodejs")
_EACH, _SEED = 15, 64
_LOADS = (0.2, 0.3, 0.4, 0.5, 0.6)
"""The paper does not say its loads; these leave nearly all mixes feasible, as all of the paper's were."""


def scenarios() -> list[Scenario]:
    """Groups 1 to 3 with 15 mixes each."""
    rng = np.random.default_rng(_SEED)
    found: list[Scenario] = []
    for unseen in (1, 2, 3):
        mixes: dict[str, Mix] = {}
        while len(mixes) < _EACH:
            names = [*rng.choice(UNSEEN, unseen, replace=False), *rng.choice(SERVICES, 3 - unseen, replace=False)]
            mix = Mix({str(name): float(rng.choice(_LOADS)) for name in names})
            mixes.setdefault(str(mix), mix)
        found += [Scenario("osml-unseen", f"group-{unseen}", mix, PLATFORM) for mix in mixes.values()]
    return found


def seconds_of(part: str) -> dict[str, float]:
    """The paper's mean seconds to convergence of a group, by policy."""
    number = int(part.removeprefix("group-")) - 1
    return {policy: values[number] for policy, values in published()["osml"]["unseen_s"].items()}


def sections(results: Results) -> list[Section]:
    """Mean seconds to convergence, group by group."""
    groups = [
        against_published(
            results.only(part), "convergence_s", seconds_of(part), f"{part}: mean seconds to convergence", "mean"
        )
        for part in results.parts
    ]
    return [convergence.who_converges(results, figure_11=False), Section("Section 6.4: unseen services", tables=groups)]


SUITE = Suite(
    "osml-unseen",
    "Services that no model was trained on",
    "OSML section 6.4",
    "osml",
    ("parties", "clite", "arq", "staffing", "staffing:climb", "osml", "oracle"),
    scenarios,
    sections,
    ask_oracle=True,
)
