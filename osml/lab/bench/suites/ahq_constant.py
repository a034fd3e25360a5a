"""Entropy at constant load beside fluidanimate (Ah-Q section IX-A, figure 16)."""

from __future__ import annotations

from osml.lab.bench.report import entropies
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.simulator.mix import Mix

PLATFORM, JOB, JOB_THREADS = "e5-2630v4", "fluidanimate", 4
POLICIES = ("unmanaged", "lc_first", "parties", "clite", "arq", "staffing", "staffing:climb", "osml")
_XAPIAN = tuple(round(0.1 * step, 1) for step in range(1, 10))
_SETTLE_S, _MEASURED_S = 120.0, 60.0


def part_of(others: float) -> str:
    """The part in which moses and img-dnn have this load."""
    return f"others at {others:.0%}"


def scenarios() -> list[Scenario]:
    """Xapian at 10 to 90 %, moses and img-dnn at 20 and at 40 %; the last minute of three counts."""
    return [
        Scenario(
            "ahq-constant",
            part_of(others),
            Mix({"xapian": x, "moses": others, "img-dnn": others}, (JOB,)),
            PLATFORM,
            interval_s=0.5,
            limit_s=_SETTLE_S + _MEASURED_S,
            settle_s=_SETTLE_S,
            tail_s=_MEASURED_S,
            whole=True,
            threads={JOB: JOB_THREADS},
        )
        for others in (0.2, 0.4)
        for x in _XAPIAN
    ]


def sections(results: Results) -> list[Section]:
    """Figure 16; its part b is of the others at 40 %, where that was run."""
    found = [entropies.over_load(results, _XAPIAN)]
    if part_of(0.4) in results.parts:
        found.append(entropies.gains(results, part_of(0.4)))
    return found


SUITE = Suite(
    "ahq-constant",
    "Entropy at constant load",
    "Ah-Q section IX-A, figure 16",
    "ahq",
    (*POLICIES, "oracle"),
    scenarios,
    sections,
    ask_oracle=True,
)
