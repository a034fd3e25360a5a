"""Services that come and go while loads change (OSML section 6.3, figure 12).

The text gives moses (60 %) at the start and gone at 80 s, sphinx (20 %) and img-dnn (60 %) until 16 s, the unseen mysql
at 180 s, and img-dnn's load raised from 180 s until 244 s. Specjbb and xapian are named without time and load: when
they come, all loads that are not named, and how high img-dnn's load rises, are chosen here.
"""

from __future__ import annotations

from osml.lab.bench.report import timelines
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.simulator.load_traces import Churn, Constant, Stay, Steps
from osml.simulator.mix import Mix

SCRIPT = Churn(
    (
        Stay("moses", Constant(0.6), 0.0, 80.0),
        Stay("sphinx", Constant(0.2), 8.0),
        Stay("img-dnn", Steps(0.6, ((164.0, 0.8), (228.0, 0.6))), 16.0),
        Stay("specjbb", Constant(0.2), 100.0),
        Stay("xapian", Constant(0.3), 130.0),
        Stay("mysql", Constant(0.1), 180.0),
    )
)
DURATION_S = 300.0


def scenarios() -> list[Scenario]:
    """One script of five minutes."""
    return [
        Scenario(
            "osml-churn",
            "figure-12",
            Mix({}),
            "e5-2697v4",
            limit_s=DURATION_S,
            whole=True,
            timeline=True,
            traces=SCRIPT,
        )
    ]


def sections(results: Results) -> list[Section]:
    """Latency over target of all services over time, with the allocations."""
    return [
        timelines.violations(results, "Intervals with a missed target"),
        timelines.latencies(results, "Figure 12: latency over target"),
        timelines.allocations(results, "Figure 12 e, f: cores and ways over time"),
    ]


SUITE = Suite(
    "osml-churn",
    "Services arrive and leave",
    "OSML section 6.3, figures 12 and 13",
    "osml",
    ("unmanaged", "parties", "clite", "arq", "staffing", "staffing:climb", "osml", "oracle"),
    scenarios,
    sections,
)
