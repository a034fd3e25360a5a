"""Memcached's load rises from 10 to 60 % and falls again beside moses, xapian and a BE job (PARTIES figure 9)."""

from __future__ import annotations

from osml.lab.bench.report import timelines
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.simulator.load_traces import Steps
from osml.simulator.mix import Mix
from osml.simulator.node_platform import KNOBS

_RAMP = tuple(
    [(25.0 + 7.0 * step, round(0.1 + 0.05 * step, 2)) for step in range(1, 11)]
    + [(120.0 + 9.0 * step, round(0.6 - 0.05 * step, 2)) for step in range(1, 11)]
)
"""Section 5.3: 10 % at first, rising from 25 s on, 40 % at about 60 s, 60 % for a while, falling from about 120 s."""


def scenarios() -> list[Scenario]:
    """One trace of four minutes; the BE job is half compute, half memory-thrashing, 14 threads each (section 5.1)."""
    return [
        Scenario(
            "parties-diurnal", "figure-9",
            Mix({"memcached": 0.1, "xapian": 0.2, "moses": 0.1}, ("power-virus", "memory-thrasher")), "e5-2699v4",
            interval_s=0.5, limit_s=240.0, whole=True, levers=KNOBS, timeline=True,
            traces={"memcached": Steps(0.1, _RAMP)}, threads={"power-virus": 14, "memory-thrasher": 14},
        )
    ]  # fmt: skip


def sections(results: Results) -> list[Section]:
    """Latencies, allocations and the BE jobs' speed over time."""
    return [
        timelines.violations(results, "Intervals with a missed target"),
        timelines.latencies(results, "Figure 9: latency over target"),
        timelines.allocations(results, "Figure 9: cores and ways over time"),
    ]


SUITE = Suite(
    "parties-diurnal",
    "A load that rises and falls",
    "PARTIES section 5.3, figure 9",
    "parties",
    ("unmanaged", "heracles", "parties", "staffing", "staffing:climb", "osml", "oracle"),
    scenarios,
    sections,
)
