"""Mixes on machines that no model was trained on: what a node gets whose CPU nobody has swept (no paper has it)."""

from __future__ import annotations

import numpy as np

from osml.lab.bench.report import convergence
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites.osml_302 import SERVICES
from osml.simulator.mix import Mix

MACHINES = ("gold-6240m", "gold-5220r", "gold-6338")
"""Machines of the catalog without a model of their own, that have room for three services."""

_EACH, _SEED = 20, 65
_LOADS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


def scenarios() -> list[Scenario]:
    """20 mixes of three services on each machine."""
    rng = np.random.default_rng(_SEED)
    found: list[Scenario] = []
    for machine in MACHINES:
        mixes: dict[str, Mix] = {}
        while len(mixes) < _EACH:
            names = rng.choice(SERVICES, 3, replace=False)
            mix = Mix({str(name): float(rng.choice(_LOADS)) for name in names})
            mixes.setdefault(str(mix), mix)
        found += [Scenario("osml-machines", machine, mix, machine) for mix in mixes.values()]
    return found


def sections(results: Results) -> list[Section]:
    """Who converges, machine by machine."""
    return [
        Section(part, tables=convergence.who_converges(results.only(part), figure_11=False).tables)
        for part in results.parts
    ]


SUITE = Suite(
    "osml-machines",
    "Machines that no model was trained on",
    "no paper",
    "osml",
    ("parties", "clite", "arq", "staffing", "staffing:climb", "osml", "oracle"),
    scenarios,
    sections,
    ask_oracle=True,
)
