"""One LC service beside table 2's jobs where memory bandwidth is short (OMBM section 4.3, figures 11, 12, table 3)."""

from __future__ import annotations

from osml.lab.bench.report import assurance
from osml.lab.bench.report.document import Section
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.ombm.accuracy import PLATFORM, SERVICES
from osml.lab.ombm.assurance import COMBINATIONS, DYNAMIC_S, KINDS, STATIC_LOADS, STATIC_S, WARM_UP_S, traces
from osml.lab.ombm.profiling import deployed
from osml.policies.ombm import Ombm, OmbmClassic
from osml.simulator.load_traces import Trace
from osml.simulator.mix import Mix

_OTHERS = 3
"""CPUs beside the service's: each job has a thread on each."""


def _scenario(kind: str, service: str, jobs: tuple[str, ...], load: float, trace: Trace | None = None) -> Scenario:
    seconds = float(STATIC_S if trace is None else DYNAMIC_S)
    return Scenario(
        "ombm",
        kind,
        Mix({service: load}, jobs),
        PLATFORM,
        limit_s=seconds,
        tail_s=seconds - WARM_UP_S,
        settle_s=float(WARM_UP_S),
        whole=True,
        timeline=True,
        traces=None if trace is None else {service: trace},
        threads=dict.fromkeys(jobs, _OTHERS),
        regulator=True,
    )


def scenarios() -> list[Scenario]:
    """Three services, three combinations of jobs; five constant rates, a sine, and jumps."""
    found: list[Scenario] = []
    for kind in KINDS:
        for service in SERVICES:
            for jobs in COMBINATIONS.values():
                if kind == "static":
                    found += [_scenario(kind, service, jobs, load) for load in STATIC_LOADS]
                else:
                    [trace] = traces(deployed(service, PLATFORM)[1], kind)
                    found.append(_scenario(kind, service, jobs, 0.5, trace))
    return found


def sections(results: Results) -> list[Section]:
    """Targets held, bandwidth and CPU use beside the paper's numbers; figures 11 and 12."""
    return [assurance.table(results), assurance.figure_11(), assurance.figure_12(results)]


SUITE = Suite(
    "ombm",
    "Memory bandwidth for a strict SLO",
    "OMBM section 4.3, figures 11 and 12, table 3",
    "ombm",
    (Ombm.name, OmbmClassic.name, "unmanaged", "parties", "arq", "osml"),
    scenarios,
    sections,
)
