"""Case A: what each policy does to moses at 40 %, img-dnn at 60 % and xapian at 50 % (OSML figure 9)."""

from __future__ import annotations

from osml.lab.bench.published import published
from osml.lab.bench.report import timelines
from osml.lab.bench.report.document import Section
from osml.lab.bench.report.tables import against_published
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.simulator.mix import Mix

PART = "case-a"
MIX = Mix({"moses": 0.4, "img-dnn": 0.6, "xapian": 0.5})


def scenarios() -> list[Scenario]:
    """One mix, two minutes of it drawn."""
    return [
        Scenario("case-a", PART, MIX, "e5-2697v4", limit_s=120.0, tail_s=30.0, settle_s=90.0, whole=True, timeline=True)
    ]


def sections(results: Results) -> list[Section]:
    """Seconds and actions beside the paper's, and the traces."""
    theirs = published()["osml"]["case_a"]
    return [
        Section(
            "Figure 9: seconds and actions until all targets are met",
            tables=[
                against_published(results, "convergence_s", theirs["seconds"], "seconds to convergence"),
                against_published(results, "actions", theirs["actions"], "actions until convergence"),
            ],
        ),
        timelines.allocations(results, "Figure 9: cores and ways over time"),
    ]


SUITE = Suite(
    "case-a",
    "Traces of actions for one mix",
    "OSML section 6.2, figure 9",
    "osml",
    ("parties", "clite", "arq", "staffing", "staffing:climb", "osml", "oracle"),
    scenarios,
    sections,
    ask_oracle=True,
)
