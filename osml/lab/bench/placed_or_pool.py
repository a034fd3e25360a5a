"""What suites of nodes with several cache domains share: mixes that are placed, and the same as one pool, in pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from osml.lab.bench.report import convergence
from osml.lab.bench.report.document import Section, Table
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suites.osml_302 import SERVICES
from osml.simulator.mix import Mix

PLACED, POOL = "placed", "pool"
JOBS = ("stream", "fluidanimate", "bodytrack")

_LOADS = (0.2, 0.3, 0.4, 0.5, 0.6)


def drawn_mixes(count: int, seed: int, fewest: int, most: int, n_jobs: int = 1) -> list[Mix]:
    """Different mixes of `fewest` to `most` services and so many jobs, uniformly drawn: not all are feasible."""
    rng = np.random.default_rng(seed)
    found: dict[str, Mix] = {}
    while len(found) < count:
        names = sorted(str(name) for name in rng.choice(SERVICES, int(rng.integers(fewest, most + 1)), replace=False))
        loads = {name: float(rng.choice(_LOADS)) for name in names}
        jobs = [str(name) for name in rng.choice(JOBS, n_jobs, replace=False)]
        mix = Mix(loads, tuple(jobs))
        found.setdefault(str(mix), mix)
    return list(found.values())


def in_pairs(suite: str, platform: str, mixes: Sequence[Mix], sockets: int) -> list[Scenario]:
    """Each mix twice, with the same noise."""
    return [
        Scenario(
            suite, part, mix, platform, whole=True, limit_s=120.0, settle_s=60.0, sockets=sockets,
            by_domain=part == PLACED, twin_part=PLACED,
        )
        for part in (PLACED, POOL)
        for mix in mixes
    ]  # fmt: skip


def sections(results: Results, title: str) -> list[Section]:
    """Placed against one pool, pair by pair, under a title; and who converges in each part."""
    parts = [
        Section(part, tables=convergence.who_converges(results.only(part), figure_11=False).tables)
        for part in results.parts
    ]
    return [Section(title, tables=[_pairs(results)]), *parts]


def _pairs(results: Results) -> Table:
    """Mean over the pairs, and how many of them placing makes better and worse."""
    rows: list[list[str]] = []
    for policy in results.policies:
        placed, pool = (
            {(row["mix"], row["seed"]): row for row in results.only(part).of(policy=policy)} for part in (PLACED, POOL)
        )
        both = [(placed[key], pool[key]) for key in sorted(placed.keys() & pool.keys())]
        if not both:
            continue
        cells = [policy, str(len(both))]
        for name in ("missed_share", "e_s", "be_speed"):
            found = [(one[name], other[name]) for one, other in both if None not in (one[name], other[name])]
            cells += [f"{np.mean([pair[at] for pair in found]):.3f}" if found else "-" for at in (0, 1)]
        better = sum(one["missed_share"] < other["missed_share"] for one, other in both)
        worse = sum(one["missed_share"] > other["missed_share"] for one, other in both)
        rows.append([*cells, f"{better} / {worse}"])
    heads = [
        "policy", "pairs", "intervals with a miss, placed", "pool", "E_S placed", "pool", "speed of the job, placed",
        "pool", "pairs with fewer / more misses when placed",
    ]  # fmt: skip
    return Table(heads, rows, "means over pairs of runs with the same mix and the same noise")
