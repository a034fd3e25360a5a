"""Violations while xapian's load changes, beside stream (Ah-Q section IX-B, figure 17).

The text gives 250 s with 500 points, loads from 10 to 90 %, 70 % from 100 s and 90 % from 120 to 140 s; the other steps
are chosen here. How much sharing is worth depends on how long a thread that finds no CPU idle waits, and that on the
least time slice of the scheduler (`time_slice_ms` of the node). The paper does not say its kernel's settings, so the
same trace is run with shorter slices, too.
"""

from __future__ import annotations

from dataclasses import replace

from osml.lab.bench.published import published
from osml.lab.bench.report import timelines
from osml.lab.bench.report.document import Section, Table
from osml.lab.bench.report.statistics import median
from osml.lab.bench.report.tables import against_published
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.simulator import catalogs
from osml.simulator.load_traces import Steps
from osml.simulator.mix import Mix

XAPIAN = Steps(
    0.1,
    (
        (20.0, 0.2),
        (40.0, 0.3),
        (60.0, 0.4),
        (80.0, 0.5),
        (100.0, 0.7),
        (120.0, 0.9),
        (140.0, 0.7),
        (160.0, 0.5),
        (180.0, 0.4),
        (200.0, 0.3),
        (220.0, 0.2),
        (240.0, 0.1),
    ),
)


FIGURE, OTHER_WAITS_MS = "figure-17", (2.5, 2.0, 1.0)


def _waits(time_slice_ms: float) -> str:
    return f"wait-{time_slice_ms:g}-ms"


def scenarios() -> list[Scenario]:
    """One trace, on the node as it is and with shorter time slices."""
    as_it_is = Scenario(
        "ahq-fluctuating",
        FIGURE,
        Mix({"xapian": 0.1, "moses": 0.2, "img-dnn": 0.2}, ("stream",)),
        "e5-2630v4",
        interval_s=0.5,
        limit_s=250.0,
        whole=True,
        timeline=True,
        traces={"xapian": XAPIAN},
        threads={"stream": 10},
    )
    others = [replace(as_it_is, part=_waits(ms), time_slice_ms=ms, timeline=False) for ms in OTHER_WAITS_MS]
    return [as_it_is, *others]


def sections(results: Results) -> list[Section]:
    """Violations beside the paper's, what they depend on, entropies and allocations over time."""
    theirs = published()["ahq"]["violations"]
    figure = results.only(FIGURE)
    if not figure.rows:
        return [_sensitivity(results)]
    return [
        Section(
            "Section IX-B: intervals with a missed target",
            tables=[against_published(figure, "violations", theirs, f"violations of {theirs['of']} intervals")],
        ),
        _sensitivity(results),
        timelines.entropy(figure, "Figure 17: entropies over time"),
        timelines.allocations(figure, "Figure 17 c: cores and ways over time"),
    ]


def _sensitivity(results: Results) -> Section:
    """Violations by the least time slice of the scheduler."""
    node_ms = catalogs.platform("e5-2630v4").time_slice_ms
    parts = [(f"{node_ms:g} (the node)", FIGURE), *((f"{ms:g}", _waits(ms)) for ms in OTHER_WAITS_MS)]
    rows = [
        [
            label,
            *(median([row["violations"] for row in results.of(part, policy)]).text() for policy in results.policies),
        ]
        for label, part in parts
    ]
    text = [
        "The shortest time slice of CFS (min_granularity) sets how long a service waits when no CPU is idle. It "
        "therefore sets the value of a shared region beside ten threads of stream. Ah-Q does not report its slice. "
        "3 ms is the default on eight CPUs or more; the other rows show the influence of the slice."
    ]
    table = Table(["shortest slice in ms", *results.policies], rows, "violations of 500 intervals (median over seeds)")
    return Section("Influence of the scheduler's time slice", text, [table])


SUITE = Suite(
    "ahq-fluctuating",
    "A load that fluctuates",
    "Ah-Q section IX-B, figure 17",
    "ahq",
    ("lc_first", "parties", "clite", "arq", "staffing", "staffing:climb", "osml"),
    scenarios,
    sections,
)
