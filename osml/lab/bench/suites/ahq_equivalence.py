"""E_S on nodes with fewer cores and ways: resource equivalence, isentropic lines (Ah-Q section VII, figures 11, 12)."""

from __future__ import annotations

from osml.lab.bench.report import equivalence
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites.ahq_constant import JOB, JOB_THREADS, PLATFORM
from osml.simulator.mix import Mix

CORES, WAYS = tuple(range(4, 11)), (4, 6, 8, 10, 12, 16, 20)
_SETTLE_S, _MEASURED_S = 120.0, 60.0


def scenarios() -> list[Scenario]:
    """Xapian, moses and img-dnn at 20 % and fluidanimate on every cut of the node."""
    return [
        Scenario(
            "ahq-equivalence",
            "figure-11",
            Mix({"xapian": 0.2, "moses": 0.2, "img-dnn": 0.2}, (JOB,)),
            PLATFORM,
            interval_s=0.5,
            limit_s=_SETTLE_S + _MEASURED_S,
            settle_s=_SETTLE_S,
            tail_s=_MEASURED_S,
            whole=True,
            cut=(cores, ways),
            threads={JOB: JOB_THREADS},
        )
        for cores in CORES
        for ways in WAYS
    ]


def sections(results: Results) -> list[Section]:
    """Figures 11 and 12."""
    return [equivalence.grid(results), equivalence.lines(results)]


SUITE = Suite(
    "ahq-equivalence",
    "Entropy over cores and ways",
    "Ah-Q section VII, figures 11 and 12",
    "ahq",
    ("unmanaged", "parties", "clite", "arq", "staffing", "staffing:climb", "osml"),
    scenarios,
    sections,
)
