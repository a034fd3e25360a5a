"""The suite `ombm`: the node and the loads of the trial, and a report that counts what the runs showed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from osml.decide.registry import load_policy
from osml.domain import MbaRange, Partition, Region
from osml.lab.bench.contenders import contender_names
from osml.lab.bench.judge import Judge
from osml.lab.bench.report.assurance import assurances, table
from osml.lab.bench.results import Results
from osml.lab.bench.suites import suite
from osml.lab.bench.suites.ombm import scenarios
from osml.lab.bench.unit import run_unit
from osml.lab.ombm.accuracy import PLATFORM
from osml.lab.ombm.assurance import COMBINATIONS, WARM_UP_S, traces
from osml.lab.ombm.profiling import deployed
from osml.policies.ombm import OmbmClassic
from osml.simulator.load_traces import sample
from osml.simulator.reservation import reserved_node

FOUND = scenarios()


def results_of(*policies: str) -> Results:
    """A short run of silo at 80 % beside B."""
    [scenario] = [s for s in FOUND if s.key == "static:silo=0.8,be:kmeans,be:libquantum,be:bwaves"]
    done = run_unit(0, replace(scenario, limit_s=40.0), [(policy, 0) for policy in policies])
    assert done.failure is None
    return Results(done.rows, done.timeline, {"policies": list(policies)})


def test_every_service_runs_beside_every_combination_under_every_kind_of_load():
    assert len({scenario.key for scenario in FOUND}) == len(FOUND) == 3 * 3 * (5 + 2)
    assert {scenario.mix.jobs for scenario in FOUND} == set(COMBINATIONS.values())


def test_nodes_and_rates_are_those_of_the_trial():
    for scenario in FOUND:
        platform, model = deployed(scenario.names[0], PLATFORM)
        assert scenario.node == reserved_node(platform, model, scenario.mix.jobs)
        if scenario.traces is not None:
            trace: Any = scenario.loads[model.name]
            times = np.arange(600.0)
            assert np.array_equal(sample(trace, times), sample(traces(model, scenario.part)[0], times))


def test_the_report_says_what_held_and_what_was_reserved_and_leaves_the_warm_up_out():
    results = results_of("ombm", "ombm_classic", "unmanaged")
    found = {one.policy: one for one in assurances(results)}
    assert {one.intervals for one in found.values()} == {40 - WARM_UP_S}
    assert found["ombm"].slo_pct == found["ombm_classic"].slo_pct == 100.0
    assert found["unmanaged"].given_gbps is None
    classic = found["ombm_classic"]
    assert classic.given_gbps is not None and classic.given_gbps > classic.needed_gbps
    assert classic.gain == pytest.approx(classic.cpu_pct / classic.cpu_alone_pct)
    rows = table(results).tables[0].rows
    assert [row[:2] for row in rows] == [["silo, static", p] for p in ("ombm", "ombm_classic", "unmanaged")]
    assert rows[2][4] == "-"
    assert rows[0][-1] == f"{73.75 / 17.90:.1f}"  # table 3, B


def test_reserved_is_what_the_throttles_of_the_others_leave():
    node = FOUND[0].node
    judge = Judge(node, [(1.0, 1.0)] * 3, MbaRange(100, 24_800, 100, "mbps"))
    regions = [Region(["silo"], 1, 8), Region([*FOUND[0].mix.jobs], 3, 8)]
    reserved = [
        judge._reserved(Partition(regions, dict(zip(node.names, mbps, strict=True))), "silo")
        for mbps in ((9800, 5000, 5000, 5000), (24_800, 5000, 5000, 5000), (24_800, 24_800, 24_800, 24_800))
    ]
    assert reserved[:2] == pytest.approx([9.8, 9.8])
    assert reserved[2] is None
    assert judge._reserved(Partition(regions, {"silo": 9800}), "silo") is None


def test_the_papers_version_is_compared_by_its_name():
    assert "ombm_classic" in contender_names()
    assert isinstance(load_policy("ombm_classic"), OmbmClassic)
    assert set(suite("ombm").policies) <= set(contender_names())


def test_the_published_numbers_stand_beside_ours():
    said = table(results_of("ombm")).text[0]
    assert "99 %" in said and "factor of 5.1" in said and "6.5 at most" in said
