"""Effective machine utilisation of 2 to 6 services (PARTIES section 5.2, figures 5 to 8 and 10).

The load of one service is searched while the others run at given ones: its highest at which an allocation is found that
meets all targets (section 5.1: "if a satisfactory allocation cannot be found after 1 min, we signal that PARTIES is
unable to deliver QoS"), within the paper's minute after its warm-up of 30 s. Section 5.1 also has a BE job of 28
threads, without saying whether it runs beside these mixes; it decides what sharing is worth, so a part of them is run
with it, too.
"""

from __future__ import annotations

import itertools

import numpy as np

from osml.lab.bench.published import published
from osml.lab.bench.report import emu, heat_maps
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario, Search
from osml.lab.bench.suite import Suite
from osml.simulator.mix import Mix
from osml.simulator.node_platform import KNOBS

PLATFORM = "e5-2699v4"
SERVICES = ("memcached", "xapian", "nginx", "moses", "mongodb", "sphinx")
MAP = "figure-8"
BESIDE_JOBS = " and jobs"
_JOBS = {"power-virus": 14, "memory-thrasher": 14}
"""Section 5.1: half of the BE job's threads compute, half thrash memory."""
_WARM_UP_S, _MEASURED_S = 30.0, 60.0
_PAIR_LOADS = (0.3, 0.6)
_EACH, _SEED = 10, 5
_LOW = (0.1, 0.2)
"""Of the services beside the searched one in mixes of three and more; mongodb, which waits for its disk, at 50 %."""
_DISK_BOUND = {"mongodb": 0.5}


def _case(part: str, loads: dict[str, float], searched: str, seeds: int | None = None) -> Scenario:
    jobs = _JOBS if part.endswith(BESIDE_JOBS) else {}
    return Scenario(
        "parties-emu",
        part,
        Mix(loads, tuple(jobs)),
        PLATFORM,
        threads=jobs,
        interval_s=0.5,
        limit_s=_WARM_UP_S + _MEASURED_S,
        tail_s=_MEASURED_S,
        settle_s=_WARM_UP_S,
        whole=True,
        levers=KNOBS,
        search=Search(searched),
        seeds=seeds,
    )


def scenarios() -> list[Scenario]:
    """All pairs at some loads, random mixes of 3 to 6, and the heat map of memcached, xapian and nginx.

    Beside the BE job: the pairs at the lower load, the mixes of 3 and 4, and the heat map.
    """
    found = [
        _case("2 services", {first: load}, second)
        for first, second in itertools.combinations(SERVICES, 2)
        for load in _PAIR_LOADS
    ]
    rng = np.random.default_rng(_SEED)
    for n in range(3, len(SERVICES) + 1):
        mixes: dict[str, Scenario] = {}
        while len(mixes) < _EACH:
            names = [str(name) for name in rng.permutation(SERVICES)[:n]]
            loads = {name: _DISK_BOUND.get(name, float(rng.choice(_LOW))) for name in names[1:]}
            case = _case(f"{n} services", loads, names[0])
            mixes.setdefault(case.name, case)
        found += mixes.values()
    steps = (0.1, 0.2, 0.3, 0.4, 0.5)
    found += [
        _case(MAP, {"memcached": memcached, "xapian": xapian}, "nginx", seeds=1)
        for memcached in steps
        for xapian in steps
    ]
    return [*found, *(_beside_jobs(case) for case in found if _is_repeated(case))]


def _is_repeated(case: Scenario) -> bool:
    at_the_lower_load = case.part == "2 services" and set(case.mix.loads.values()) == {_PAIR_LOADS[0]}
    return at_the_lower_load or case.part in ("3 services", "4 services", MAP)


def _beside_jobs(case: Scenario) -> Scenario:
    assert case.search is not None  # noqa: S101 - all cases of this suite have one
    return _case(case.part + BESIDE_JOBS, dict(case.mix.loads), case.search.service, case.seeds)


def sections(results: Results) -> list[Section]:
    """Figures 7, 8 and 10, without and with the BE job."""
    alone = [part for part in results.parts if not part.endswith(BESIDE_JOBS)]
    jobs = [part for part in results.parts if part.endswith(BESIDE_JOBS)]
    return [
        emu.by_number_of_services(_by_number(results, alone)),
        emu.by_number_of_services(_by_number(results, jobs), " beside a BE job"),
        emu.convergence_by_number(_by_number(results, alone)),
        _heat_map(results.only(MAP)),
        _heat_map(results.only(MAP + BESIDE_JOBS), " beside a BE job"),
    ]


def _by_number(results: Results, parts: list[str]) -> dict[int, Results]:
    return {int(part.split()[0]): results.only(part) for part in parts if not part.startswith(MAP)}


def _heat_map(results: Results, beside: str = "") -> Section:
    below = published()["parties"]["emu_below_oracle_pct_at_most"]
    return heat_maps.section(
        results,
        f"Figure 8: highest load of nginx beside memcached and xapian{beside}",
        ("memcached", "xapian"),
        [
            f"Published: parties at most {below} % below the oracle (section 5.2.3), which finds isolated parts; "
            "unmanaged is the worst."
        ],
    )


SUITE = Suite(
    "parties-emu",
    "Utilisation with 2 to 6 services",
    "PARTIES section 5.2, figures 5 to 8 and 10",
    "parties",
    ("unmanaged", "heracles", "parties", "staffing", "staffing:climb", "osml", "oracle:isolated", "oracle"),
    scenarios,
    sections,
)
