"""302 mixes of three services with random loads, and the heat map of moses x img-dnn x xapian (OSML section 6.2)."""

from __future__ import annotations

import numpy as np

from osml.lab.bench.report import convergence, heat_maps
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario, Search
from osml.lab.bench.suite import Suite
from osml.simulator.mix import Mix

PLATFORM = "e5-2697v4"
SERVICES = (
    "img-dnn",
    "masstree",
    "memcached",
    "mongodb",
    "moses",
    "nginx",
    "specjbb",
    "sphinx",
    "xapian",
    "login",
    "ads",
)
"""Of table 1."""
MIXES, FRESH, MAP = "mixes", "fresh", "figure-10"
_COUNT, _SEED = 302, 302
FRESH_MIXES, _FRESH_SEED = 151, 1302
"""Mixes of the headline. Nine policies take a third of an hour on two CPUs."""
_STEPS = tuple(round(0.1 * step, 1) for step in range(1, 10))
"""Not 100 %: by the definition of max load it leaves no room for any neighbour."""


def random_mixes(count: int, seed: int, services: tuple[str, ...] = SERVICES) -> list[Mix]:
    """Different mixes of three services at 10, 20, ... 90 % of max load, uniformly drawn: not all are feasible."""
    rng = np.random.default_rng(seed)
    found: dict[str, Mix] = {}
    while len(found) < count:
        names = sorted(str(name) for name in rng.choice(services, 3, replace=False))
        mix = Mix({name: float(rng.choice(_STEPS)) for name in names})
        found.setdefault(str(mix), mix)
    return list(found.values())


def scenarios() -> list[Scenario]:
    """The random mixes, fresh ones, and one search for each cell of the heat map (one seed: it is a picture).

    Rules of `osml` were chosen with the help of the mixes; the fresh ones are for the headline alone.
    """
    drawn = random_mixes(_COUNT, _SEED)
    mixes = [Scenario("osml-302", MIXES, mix, PLATFORM) for mix in drawn]
    others = [mix for mix in random_mixes(_COUNT, _FRESH_SEED) if mix not in drawn][:FRESH_MIXES]
    fresh = [Scenario("osml-302", FRESH, mix, PLATFORM) for mix in others]
    cells = [
        Scenario(
            "osml-302",
            MAP,
            Mix({"moses": moses, "img-dnn": img_dnn}),
            PLATFORM,
            search=Search("xapian"),
            seeds=1,
        )
        for moses in _STEPS
        for img_dnn in _STEPS
    ]
    return mixes + cells + fresh


def sections(results: Results) -> list[Section]:
    """Figures 8, 10 and 11, as far as their parts were run."""
    mixes = results.only(MIXES)
    fresh = results.only(FRESH)
    cells = results.only(MAP)
    found: list[Section] = []
    if mixes.rows:
        found += [convergence.who_converges(mixes), convergence.how_fast(mixes), convergence.resources(mixes)]
    if fresh.rows:
        found.append(convergence.who_converges(fresh, figure_11=False, of="fresh mixes"))
    if cells.rows:
        found.append(
            heat_maps.section(cells, "Figure 10: highest load of xapian beside moses and img-dnn", ("moses", "img-dnn"))
        )
    return found


SUITE = Suite(
    "osml-302",
    "302 mixes of three services, and a heat map",
    "OSML section 6.2, figures 8, 10 and 11",
    "osml",
    ("unmanaged", "parties", "clite", "arq", "staffing", "staffing:climb", "osml", "oracle"),
    scenarios,
    sections,
    ask_oracle=True,
)
