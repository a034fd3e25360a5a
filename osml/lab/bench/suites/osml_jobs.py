"""What the papers leave out and nodes have: batch jobs, many services, few and many threads."""

from __future__ import annotations

import numpy as np

from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites.osml_302 import PLATFORM, SERVICES, random_mixes
from osml.simulator.mix import Mix

JOBS = ("stream", "fluidanimate", "streamcluster", "kmeans")
_BESIDE_JOBS, _JOBS_SEED = 60, 7
_SHARE = 0.6
"""Of the random loads: beside a job that wants everything the mixes shall be feasible mostly."""
_CROWDS, _CROWD_SEED = 10, 3
_LEAST, _MOST = 0.10, 0.35
_LIMIT_S = 60.0


def _beside(mix: Mix, job: str) -> Mix:
    return Mix({name: round(load * _SHARE, 2) for name, load in mix.loads.items()}, (job,))


def _crowd(rng: np.random.Generator, count: int) -> Mix:
    names = sorted(str(name) for name in rng.choice(SERVICES, count, replace=False))
    return Mix({name: round(float(rng.uniform(_LEAST, _MOST)), 2) for name in names})


def _scenario(part: str, mix: Mix, threads: int | None = None) -> Scenario:
    given = {} if threads is None else dict.fromkeys(mix.loads, threads)
    return Scenario("osml-jobs", part, mix, PLATFORM, limit_s=_LIMIT_S, whole=True, threads=given)


def scenarios() -> list[Scenario]:
    """Three services beside a job; five to eight services; three services with few and with many threads each."""
    mixes = random_mixes(_BESIDE_JOBS, _JOBS_SEED)
    found = [_scenario("beside a job", _beside(mix, JOBS[i % len(JOBS)])) for i, mix in enumerate(mixes)]
    rng = np.random.default_rng(_CROWD_SEED)
    for count in (5, 6, 7, 8):
        found += [_scenario(f"{count} services", _crowd(rng, count)) for _ in range(_CROWDS)]
    for threads in (6, 60):
        found += [_scenario(f"{threads} threads each", _crowd(rng, 3), threads) for _ in range(_CROWDS)]
    return found


def sections(_: Results) -> list[Section]:
    """No paper has these: the tables that every report has say it all."""
    return []


SUITE = Suite(
    "osml-jobs",
    "Batch jobs, many services, few and many threads",
    "no paper",
    "osml",
    ("unmanaged", "parties", "arq", "staffing", "staffing:climb", "osml"),
    scenarios,
    sections,
    ask_oracle=True,
)
