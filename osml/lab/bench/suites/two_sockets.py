"""Mixes on a node of two sockets: services placed on the sockets, against one pool of CPUs and ways (no paper has it).

Both parts have the same mixes and the same noise, so that runs can be compared in pairs.
"""

from __future__ import annotations

import numpy as np

from osml.lab.bench.report import convergence
from osml.lab.bench.report.document import Section, Table
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites.osml_302 import PLATFORM, SERVICES
from osml.simulator.mix import Mix

PLACED, POOL = "placed", "pool"
JOBS = ("stream", "fluidanimate", "bodytrack")

_COUNT, _SEED = 16, 2
_LOADS = (0.2, 0.3, 0.4, 0.5, 0.6)


def _mixes(count: int, seed: int) -> list[Mix]:
    """Different mixes of four to six services and one job, uniformly drawn: not all are feasible."""
    rng = np.random.default_rng(seed)
    found: dict[str, Mix] = {}
    while len(found) < count:
        names = sorted(str(name) for name in rng.choice(SERVICES, int(rng.integers(4, 7)), replace=False))
        mix = Mix({name: float(rng.choice(_LOADS)) for name in names}, (str(rng.choice(JOBS)),))
        found.setdefault(str(mix), mix)
    return list(found.values())


def scenarios() -> list[Scenario]:
    """Each mix twice."""
    return [
        Scenario(
            "two-sockets", part, mix, PLATFORM, whole=True, limit_s=120.0, settle_s=60.0, sockets=2,
            by_domain=part == PLACED, twin_part=PLACED,
        )
        for part in (PLACED, POOL)
        for mix in _mixes(_COUNT, _SEED)
    ]  # fmt: skip


def sections(results: Results) -> list[Section]:
    """Placed against one pool, pair by pair; and who converges in each."""
    parts = [
        Section(part, tables=convergence.who_converges(results.only(part), figure_11=False).tables)
        for part in results.parts
    ]
    return [Section("Placed on sockets against one pool", tables=[_pairs(results)]), *parts]


def _pairs(results: Results) -> Table:
    """Mean over the pairs, and how many of them placing makes better and worse."""
    rows: list[list[str]] = []
    for policy in results.policies:
        placed, pool = (
            {(row["mix"], row["seed"]): row for row in results.only(part).of(policy=policy)} for part in (PLACED, POOL)
        )
        pairs = [(placed[key], pool[key]) for key in sorted(placed.keys() & pool.keys())]
        if not pairs:
            continue
        cells = [policy, str(len(pairs))]
        for name in ("missed_share", "e_s", "be_speed"):
            found = [(one[name], other[name]) for one, other in pairs if None not in (one[name], other[name])]
            cells += [f"{np.mean([pair[at] for pair in found]):.3f}" if found else "-" for at in (0, 1)]
        better = sum(one["missed_share"] < other["missed_share"] for one, other in pairs)
        worse = sum(one["missed_share"] > other["missed_share"] for one, other in pairs)
        rows.append([*cells, f"{better} / {worse}"])
    heads = [
        "policy", "pairs", "intervals with a miss, placed", "pool", "E_S placed", "pool", "speed of the job, placed",
        "pool", "pairs with fewer / more misses when placed",
    ]  # fmt: skip
    return Table(heads, rows, "means over pairs of runs with the same mix and the same noise")


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
