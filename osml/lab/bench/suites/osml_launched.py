"""Mixes of OSML's section 6 whose services start one after the other, as the authors' program starts them.

That program launches a service, waits for its warm-up and starts two monitors, 2.1 s in all, before it launches the
next one; moses and silo warm up for longer (`osml.code.launch` of policy_facts.yaml). In the other suites all services
are there from the start, so their times to convergence lack that.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

from osml.lab.bench.report import convergence
from osml.lab.bench.report.document import Section
from osml.lab.bench.report.tables import against_published
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites import case_a, osml_302, osml_unseen
from osml.simulator.calibration.measured.policy_facts import published_value
from osml.simulator.load_traces import Churn, Constant, Stay

_EVERY = 6
"""Of the 302 mixes."""


def launched(scenario: Scenario) -> Scenario:
    """The same mix with services that start one after the other, in the order of the mix."""
    loads, seconds = scenario.mix.loads, published_value("osml.code.launch")
    around, usual = seconds["command"] + seconds["monitors"], seconds["warm_up"]
    takes = [around + seconds.get(f"{name}_warm_up", usual) for name in loads]
    starts = [0.0, *accumulate(takes[1:])]  # time counts from when the first one is monitored
    stays = [Stay(name, Constant(load), at) for (name, load), at in zip(loads.items(), starts, strict=True)]
    traces = Churn(tuple(stays))
    return replace(scenario, suite="osml-launched", traces=traces, limit_s=180.0, whole=False, timeline=False)


def scenarios() -> list[Scenario]:
    """Case A, every sixth of the 302 mixes, and the mixes with unseen services."""
    mixes = [one for one in osml_302.scenarios() if one.part == osml_302.MIXES]
    return [
        *map(launched, case_a.scenarios()),
        *map(launched, mixes[::_EVERY]),
        *map(launched, osml_unseen.scenarios()),
    ]


def sections(results: Results) -> list[Section]:
    """Times beside the paper's."""
    groups = [part for part in results.parts if part.startswith("group-")]
    mixes = results.only(osml_302.MIXES)
    return [
        convergence.who_converges(results, figure_11=False),
        *([convergence.how_fast(mixes)] if mixes.rows else []),
        Section(
            "Section 6.4: unseen services",
            tables=[
                against_published(
                    results.only(part), "convergence_s", osml_unseen.seconds_of(part), f"{part}: seconds", "mean"
                )
                for part in groups
            ],
        ),
    ]


SUITE = Suite(
    "osml-launched",
    "Mixes whose services start one after the other",
    "OSML section 6, started as the artifact does",
    "osml",
    ("parties", "clite", "staffing:climb", "osml"),
    scenarios,
    sections,
    seeds=1,
)
