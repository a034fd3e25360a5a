"""Mixes on a node of two sockets: services placed on the sockets, against one pool of CPUs and ways (no paper has it).

Both parts have the same mixes and the same noise, so that runs can be compared in pairs.
"""

from __future__ import annotations

from osml.lab.bench import placed_or_pool
from osml.lab.bench.placed_or_pool import drawn_mixes, in_pairs
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites.osml_302 import PLATFORM

_COUNT, _SEED = 16, 2


def scenarios() -> list[Scenario]:
    """Mixes of four to six services and one job, each twice."""
    return in_pairs("two-sockets", PLATFORM, drawn_mixes(_COUNT, _SEED, 4, 6), sockets=2)


def sections(results: Results) -> list[Section]:
    """Placed against one pool, and who converges."""
    return placed_or_pool.sections(results, "Placed on sockets against one pool")


SUITE = Suite(
    "two-sockets",
    "A node of two sockets: services placed, or one pool",
    "no paper",
    "osml",
    ("unmanaged", "parties", "arq", "staffing", "osml:formula", "osml"),
    scenarios,
    sections,
    seeds=1,
)
