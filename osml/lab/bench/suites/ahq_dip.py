"""Ten applications in pairs on eight cores: isolation, sharing and priority (Ah-Q section VIII, figures 13 to 15).

Here a policy knows LC from BE, but no order of two of the same kind, so each pair is run once. The paper's order within
a pair, and the abilities themselves, are in `osml lab theory dip`.
"""

from __future__ import annotations

from itertools import combinations

from osml.lab.bench.report import pairs
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.theory.experiments.dip_experiment import APPLICATIONS, Setup
from osml.simulator import catalogs
from osml.simulator.mix import Mix

_SETTLE_S, _MEASURED_S = 60.0, 30.0


def scenarios() -> list[Scenario]:
    """All 45 pairs of table VI."""
    setup = Setup()
    ways = catalogs.platform(setup.platform).ways
    known = catalogs.service_names()
    found: list[Scenario] = []
    for pair in combinations(APPLICATIONS, 2):
        loads = {name: setup.load for name in pair if name in known}
        found.append(
            Scenario(
                "ahq-dip",
                "pairs",
                Mix(loads, tuple(name for name in pair if name not in known)),
                setup.platform,
                interval_s=0.5,
                limit_s=_SETTLE_S + _MEASURED_S,
                settle_s=_SETTLE_S,
                tail_s=_MEASURED_S,
                whole=True,
                cut=(setup.cores, ways),
                resized=True,
            )
        )
    return found


def sections(results: Results) -> list[Section]:
    """The three observations, each policy against unmanaged."""
    return [pairs.observations(results), pairs.pictures(results)]


SUITE = Suite(
    "ahq-dip",
    "Isolation, sharing and priority in pairs",
    "Ah-Q section VIII, figures 13 to 15",
    "ahq",
    ("unmanaged", "even", "round_robin", "staffing", "staffing:climb", "osml"),
    scenarios,
    sections,
)
