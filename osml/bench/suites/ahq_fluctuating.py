"""Violations while xapian's load changes, beside stream (Ah-Q section IX-B, figure 17).

The text gives 250 s with 500 points, loads from 10 to 90 %, 70 % from 100 s and 90 % from 120 to 140 s; the other steps
are chosen here.
"""

from __future__ import annotations

from osml.bench.published import published
from osml.bench.report import timelines
from osml.bench.report.document import Section
from osml.bench.report.tables import against_published
from osml.bench.results import Results
from osml.bench.scenario import Scenario
from osml.bench.suite import Suite
from osml.virtual.load_traces import Steps
from osml.virtual.mix import Mix

XAPIAN = Steps(
    0.1,
    ((20.0, 0.2), (40.0, 0.3), (60.0, 0.4), (80.0, 0.5), (100.0, 0.7), (120.0, 0.9), (140.0, 0.7), (160.0, 0.5),
     (180.0, 0.4), (200.0, 0.3), (220.0, 0.2), (240.0, 0.1)),
)  # fmt: skip


def scenarios() -> list[Scenario]:
    """One trace."""
    return [
        Scenario(
            "ahq-fluctuating", "figure-17", Mix({"xapian": 0.1, "moses": 0.2, "img-dnn": 0.2}, ("stream",)),
            "e5-2630v4", interval_s=0.5, limit_s=250.0, whole=True, timeline=True, traces={"xapian": XAPIAN},
            threads={"stream": 10},
        )
    ]  # fmt: skip


def sections(results: Results) -> list[Section]:
    """Violations beside the paper's, entropies and allocations over time."""
    theirs = published()["ahq"]["violations"]
    return [
        Section(
            "Section IX-B: intervals with a missed target",
            tables=[against_published(results, "violations", theirs, f"violations of {theirs['of']} intervals")],
        ),
        timelines.entropy(results, "Figure 17: entropies over time"),
        timelines.allocations(results, "Figure 17 c: cores and ways over time"),
    ]


SUITE = Suite(
    "ahq-fluctuating", "A load that fluctuates", "Ah-Q section IX-B, figure 17", "ahq",
    ("lc_first", "parties", "clite", "arq"), scenarios, sections,
)  # fmt: skip
