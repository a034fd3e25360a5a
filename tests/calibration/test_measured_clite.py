"""CLITE's figures: threads on hyperthreads, regions, and the oracle's maps."""

import math

import numpy as np
import pytest

from osml.base.failure import InputError
from osml.simulator.calibration.measured import shipped
from osml.simulator.calibration.measured.clite import figures, law, maps
from osml.simulator.calibration.measured.clite.fit import CACHES, calibrate
from osml.simulator.calibration.measured.clite.law import NODE, Curve, Service, meets_target, p95

CURVE = Curve(np.array([100.0, 1000.0]), np.array([0.001, 0.002]), 1000.0, 0.002)


def service(threads=4, work_s=0.001, limit_s=0.002, sharp=False):
    return Service(threads, work_s, 0.05, 0.0, limit_s, sharp, CACHES["img-dnn"]._replace(scale=0.0), CURVE)


def test_threads_fill_idle_cores_before_they_share_one():
    assert law.capacity(4, 10) == 4.0
    assert law.capacity(20, 10) == pytest.approx(20 * NODE.smt_speed)
    assert law.capacity(4, 2) == pytest.approx(4 * NODE.smt_speed)


def test_alone_the_tail_is_that_of_the_work_and_saturated_it_has_no_end():
    p = service()
    assert p95(p, 10, 11, 1.0) == pytest.approx(
        0.001 * math.exp(1.645 * math.sqrt(math.log(1.05)) - math.log(1.05) / 2), rel=0.02
    )
    assert p95(p, 10, 11, 5000.0) == math.inf


def test_fewer_cores_make_requests_slow():
    p = service(limit_s=0.0015)
    assert meets_target(p, 10, 11, 0.1)
    assert not meets_target(p, 2, 11, 1.5)
    assert not meets_target(p, 1, 11, 0.01)  # four threads on two hyperthreads


def test_a_curve_that_jumps_is_judged_by_saturation():
    curve = Curve(np.array([500.0, 1000.0, 1100.0]), np.array([0.001, 0.001, 1.0]), 1000.0, 0.001)
    p = calibrate(curve, CACHES["specjbb"], 7)
    assert p.sharp
    assert meets_target(p, 10, 11, 1.0)
    assert not meets_target(p, 10, 11, 1.06)
    assert not meets_target(p, 4, 11, 1.0)


def test_more_cores_never_need_more_ways():
    table = maps.least_ways(service(), [0.5, 1.0])
    assert (np.diff(table, axis=1) <= 0).all()
    assert table[0, 0] == maps.NONE


def test_a_barrier_job_runs_in_rounds():
    assert [round(maps.rounds(cores, 20), 2) for cores in (10, 5, 4, 3, 1)] == [1.0, 0.5, 0.33, 0.25, 0.1]


def test_curves_alone_give_regions_and_maps():
    found = {test.name: test for test in figures.tests(shipped.clite_facts())}
    region = found["CLITE figure 1: side of the target, img-dnn"]
    assert (len(region.pairs), region.within, region.kind) == (110, 0.0, "distance")
    assert all(pair.measured == pair.ours for pair in region.pairs)
    assert len(found["CLITE figure 7: informative cells"].pairs) == 25
    assert {pair.simplest for pair in found["CLITE figure 8: all cells"].pairs} == {100.0}


HIDDEN = """
figure_1_qos_region:
  img-dnn: [null, null, null, null, null, x, null, null, null, 1]
heat_maps:
  figure_7_max_memcached_load:
    oracle:
      100: [90, null, null, null, x, null, null, null, null, null]
"""


def test_a_file_with_some_cells_takes_the_curves_from_the_known_one(tmp_path):
    path = tmp_path / "clite_facts.yaml"
    path.write_text(HIDDEN)
    found = {test.name: test.pairs for test in figures.tests(figures.read_facts(path), shipped.clite_facts())}
    assert len(found["CLITE figure 1: side of the target, img-dnn"]) == 22
    assert [pair.measured for pair in found["CLITE figure 7: all cells"]] == [90.0, 0.0]
    assert not figures.tests(figures.read_facts(path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[", "expected"),
        ("services: 3", "Expected `object`"),
        ("services: {a: {max_load_qps: 0, p95_at_max_load: 1}}", "services, a: expected a max load and a p95 above 0"),
        ("figure_6_p95_over_load: {a: [1, -2]}", "figure 6, a: expected latencies above 0"),
        ("figure_1_qos_region: {a: [1, 2]}", "figure 1, a: 2 cells, expected 10"),
        ("figure_1_qos_region: {a: [y, 1, 1, 1, 1, 1, 1, 1, 1, 1]}", "'y', expected a number, x or null"),
        ("heat_maps: {m: {oracle: {15: [1]}}}", "m: row 15, expected loads 10, 20 .. 100"),
    ],
)
def test_wrong_facts_are_refused_in_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "clite_facts.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        figures.read_facts(path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
