"""Batch jobs and inference: programs with a known appetite, serial share and pool of threads are found again."""

import pytest

from osml.simulator.calibration.measured import batch, inference, speedup
from osml.simulator.calibration.measured.machines import Machine, Machines
from osml.simulator.calibration.measured.memcached.antagonists import ANTAGONISTS

C = batch.BatchConstants()
APPETITE = {"vips": 1.0, "barnes": 0.8, "radix": 0.2, "canneal": 0.5}
PRESSURE = {"cpu": 0.4, "l1d": 0.5, "l1i": 0.6, "l2": 0.5, "llc": 0.7, "membw": 0.6}
NO_MACHINE = {"scheduler": "", "siblings": "", "tick_ms": ""}


def beside(program, antagonist, ratio, vm="n2-standard-2"):
    key = {"repo": "r", "vm": vm, "program": program, "interference": antagonist}
    return key | {"user_ratio": ratio, "slowdown": ratio} | NO_MACHINE


def all_cells():
    return [beside(p, a, 1.0 + own * PRESSURE[a]) for p, own in APPETITE.items() for a in ANTAGONISTS]


def test_the_fit_finds_appetites_and_pressures():
    law = batch.fit(batch.cells(all_cells()), C)
    assert law.appetite == pytest.approx(APPETITE, abs=0.02)
    assert law.pressure["n2"] == pytest.approx(PRESSURE, abs=0.02)


def test_each_cell_is_told_by_the_others():
    user, run = batch.tests(all_cells(), Machines(), batch.cells(all_cells()))
    assert len(user.pairs) == len(run.pairs) == 24
    assert max(abs(pair.ours / pair.measured - 1.0) for pair in user.pairs) < 0.03
    wrong = [
        row | {"user_ratio": 9.0} if row["interference"] == "cpu" and row["program"] == "radix" else row
        for row in all_cells()
    ]
    pair = next(p for p in batch.tests(wrong, Machines(), batch.cells(wrong))[0].pairs if p.key.endswith("radix cpu"))
    assert pair.ours == pytest.approx(1.08, abs=0.05)


def test_a_sibling_presses_and_another_core_hardly():
    cell = batch.Cell("r", "n2-standard-2", "vips", "llc", 1.0, 1.0)
    law = batch.Beside(APPETITE, {"n2": PRESSURE})
    assert batch.user_ratio(law, cell, Machine(2), C) == pytest.approx(1.7)
    assert batch.user_ratio(law, cell, Machine(2, siblings=False), C) == pytest.approx(1.07)


def test_unknown_programs_and_families_get_what_is_usual():
    law = batch.Beside(APPETITE, {"n2": PRESSURE, "e2": dict.fromkeys(PRESSURE, 1.0)})
    cell = batch.Cell("r", "c3-standard-4", "new", "cpu", 1.0, 1.0)
    assert batch.user_ratio(law, cell, Machine(4), C) == pytest.approx(1.0 + 0.6 * 0.7)


def test_programs_on_the_antagonists_cpu_wait_for_it():
    assert batch.waits_for_cpu("freqmine", "l1i", C) == 1.9
    assert batch.waits_for_cpu("dedup", "l2", C) == 1.15
    assert batch.waits_for_cpu("vips", "cpu", C) == 1.0
    assert batch.user_ratio(batch.Beside({}, {}), batch.Cell("r", "n2", "freqmine", "cpu", 1, 1), Machine(), C) == 1.1


def scaled(n, serial=0.1, extra=0.01, more=1.6, cores=4):
    scaling = speedup.Scaling(serial, extra, more)
    found = {"repo": "r", "vm": "n2-standard-8", "program": "vips", "threads": float(n)} | NO_MACHINE
    return found | {"speedup": speedup.speedup(scaling, n, cores), "cpu_time_ratio": speedup.work(scaling, n, cores)}


def test_threads_are_told_by_other_numbers_of_threads():
    rows = [scaled(n) for n in (1, 2, 4, 8)]
    many, few = speedup.tests(rows, Machines(), {"vips": 0.8})
    assert [pair.key for pair in many.pairs] == ["r n2-standard-8 vips threads=8"]
    assert many.pairs[0].ours == pytest.approx(many.pairs[0].measured, rel=1e-6)
    assert [pair.ours for pair in few.pairs] == pytest.approx([pair.measured for pair in few.pairs], rel=1e-6)
    assert many.pairs[0].simplest == 8.0


def test_on_whole_cores_eight_threads_have_eight_cores():
    rows = [scaled(n, cores=8) for n in (1, 2, 4, 8)]
    many, few = speedup.tests(rows, Machines.parse(["n2-standard-8: siblings=no"]), {})
    assert not many.pairs
    assert len(few.pairs) == 3


def test_appetite_is_what_eight_threads_take_more_than_four():
    rows = [scaled(n, extra=0.0) for n in (4, 8)]
    assert speedup.appetite_of(rows, C) == {"vips": pytest.approx(0.6 / 0.75)}


def latency(cpus, size="a", law=None, base=1.0, **more):
    law = law or inference.Law(0.1, 4.0, 1.0)
    found = {"model": "m", "gpu": "off", "cpus": cpus, "input": size, "batch": "1", "flag": ""}
    return found | {"latency_s": base * law.relative(cpus)} | more


def test_a_quota_and_an_input_are_told_by_the_others():
    rows = [latency(c, size, base=base) for c in (1.0, 2.0, 3.0, 4.0, 8.0) for size, base in (("a", 1.0), ("b", 3.0))]
    quota, by_input = inference.tests(rows, Machines())
    assert len(quota.pairs) == 10
    assert len(by_input.pairs) == 8
    assert all(pair.ours == pytest.approx(pair.measured, rel=0.02) for pair in by_input.pairs)
    inner = [pair for pair in quota.pairs if "cpus=2" in pair.key or "cpus=3" in pair.key]
    assert all(pair.ours == pytest.approx(pair.measured, rel=0.05) for pair in inner)
    assert quota.pairs[0].simplest is not None


def test_rows_with_a_flag_or_a_gpu_and_rows_for_context_are_not_compared():
    rows = [latency(c) for c in (1.0, 2.0, 4.0)]
    assert not inference.tests([row | {"flag": "flat"} for row in rows], Machines())[0].pairs
    assert not inference.tests([row | {"gpu": "on"} for row in rows], Machines())[0].pairs
    rest = [row | {"context": True} for row in rows[:2]]
    assert [pair.key for pair in inference.tests([*rest, rows[2]], Machines())[0].pairs] == ["m a 1 cpus=4"]
