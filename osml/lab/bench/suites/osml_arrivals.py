"""Services that come to a node that is nearly full, where somebody has to give: what B-points are for (OSML, 4.2).

No paper prints such a table. Two to five services run; after 30 s one more comes, after 60 s another, and after 90 s
the first one leaves. Every second script has a best-effort job.
"""

from __future__ import annotations

import numpy as np

from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites.osml_302 import PLATFORM, SERVICES
from osml.lab.bench.suites.osml_jobs import JOBS
from osml.simulator.load_traces import Churn, Constant, Stay
from osml.simulator.mix import Mix

_COUNT, _SEED = 40, 11
_FULL = 1.5
"""Sum of the loads at the end of a script: three services at half of their maximum are about what a node bears."""
_FIRST_S, _SECOND_S, _LEAVES_S, _LIMIT_S = 30.0, 60.0, 90.0, 120.0


def script(rng: np.random.Generator) -> Churn:
    """Services with random shares of the load; the last two come, and the first one leaves."""
    count = int(rng.integers(4, 8))
    names = [str(name) for name in rng.choice(SERVICES, count, replace=False)]
    shares = rng.dirichlet(np.full(count, 4.0)) * _FULL * rng.uniform(0.7, 1.1)
    loads = [round(float(min(max(share, 0.05), 0.9)), 2) for share in shares]
    stays = [Stay(names[0], Constant(loads[0]), 0.0, _LEAVES_S)]
    stays += [Stay(name, Constant(load), 0.0) for name, load in zip(names[1:-2], loads[1:-2], strict=True)]
    stays.append(Stay(names[-2], Constant(loads[-2]), _FIRST_S))
    stays.append(Stay(names[-1], Constant(loads[-1]), _SECOND_S))
    return Churn(tuple(stays))


def scenarios() -> list[Scenario]:
    """Scripts by seed; the part tells those beside a job."""
    rng = np.random.default_rng(_SEED)
    found: list[Scenario] = []
    for number in range(_COUNT):
        jobs = (JOBS[number // 2 % len(JOBS)],) if number % 2 else ()
        found.append(
            Scenario(
                "osml-arrivals",
                "beside a job" if jobs else "services alone",
                Mix({}, jobs),
                PLATFORM,
                limit_s=_LIMIT_S,
                whole=True,
                traces=script(rng),
            )
        )
    return found


def sections(_: Results) -> list[Section]:
    """The tables that every report has say it all."""
    return []


SUITE = Suite(
    "osml-arrivals",
    "Services come to a node that is nearly full",
    "no paper",
    "osml",
    ("unmanaged", "staffing", "staffing:climb", "parties", "arq", "osml"),
    scenarios,
    sections,
)
