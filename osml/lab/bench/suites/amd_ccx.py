"""Mixes on a socket of AMD kind: services placed on its CCX, against one pool of CPUs and ways (no paper has it).

The third part has a service that needs more than one CCX: no cache domain has room for it.
"""

from __future__ import annotations

from osml.lab.bench import placed_or_pool
from osml.lab.bench.placed_or_pool import drawn_mixes, in_pairs
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.simulator.mix import Mix

PLATFORM = "epyc-7763"
LARGE = "larger than a CCX"

_COUNT, _SEED = 8, 3
_TWICE, _THREADS = 2.0, 64
"""Load of a large service, as a share of what it bears on one CCX, and its threads."""


def scenarios() -> list[Scenario]:
    """Mixes of seven to ten services and two jobs, each twice; and large services beside others."""
    large = [
        Scenario(
            "amd-ccx", LARGE, Mix({name: _TWICE, "xapian": 0.4, "img-dnn": 0.3}, ("fluidanimate",)), PLATFORM,
            whole=True, limit_s=120.0, settle_s=60.0, threads={name: _THREADS},
        )
        for name in ("moses", "memcached")
    ]  # fmt: skip
    return [*in_pairs("amd-ccx", PLATFORM, drawn_mixes(_COUNT, _SEED, 7, 10, n_jobs=2), sockets=1), *large]


def sections(results: Results) -> list[Section]:
    """Placed against one pool, and who converges."""
    return placed_or_pool.sections(results, "Placed on CCX against one pool")


SUITE = Suite(
    "amd-ccx",
    "A socket of eight CCX: services placed, or one pool",
    "no paper",
    "osml",
    ("unmanaged", "staffing", "parties", "arq", "osml:formula", "osml"),
    scenarios,
    sections,
    seeds=1,
)
