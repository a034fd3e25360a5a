"""Miss curves, copies in one way, the clock, and memory: programs that follow the law are found again."""

import numpy as np
import pytest

from osml.base.failure import InputError
from osml.simulator.calibration.measured import memory_latency
from osml.simulator.calibration.measured.machines import Machines
from osml.simulator.calibration.measured.spec import sharing
from osml.simulator.calibration.measured.spec import sizes as spec
from osml.simulator.calibration.measured.spec.curve import (
    LAW_ALONE,
    Law,
    fit,
    flat_prior,
    learn_prior,
    log_evidence,
    predict,
    predict_law,
)

LAW = Law(0.1, 4.0, 2.0, 12.0, 0.6, 25.0)
SIZES = (1.75, 3.5, 7.0, 14.0, 19.25)
EMPTY = spec.Population([])


def row(mib, program="401.bzip2.1", copies=1.0, ghz=3.2, cpi=None, **more):
    found = {"suite": "cpu2006", "program": program, "source": "raw", "prefetch": "none", "flag": "", "split": ""}
    found |= {"llc_mib": mib, "copies": copies, "ghz": ghz, "llc_mpki": LAW.misses(mib), "cpi_second_run": None}
    return found | {"cpi": LAW.cpi(mib, ghz) if cpi is None else cpi} | more


def sizes(rows):
    return spec.programs(rows)[0].sizes


def test_half_of_the_misses_that_cache_saves_are_gone_at_the_working_set():
    assert LAW.misses(1e-9) == pytest.approx(12.0)
    assert LAW.misses(4.0) == pytest.approx(12.0 * 0.55)
    assert LAW.cpi(4.0, 2.0) == pytest.approx(0.6 + 2.0 * 25.0 * 12.0 * 0.55 / 1000.0)


@pytest.mark.parametrize("law_alone", [False, True])
def test_an_inner_size_that_was_not_measured_is_told(law_alone):
    given = sizes([row(mib) for mib in SIZES if mib != 7.0])
    fitted = fit(given, flat_prior(), LAW_ALONE) if law_alone else fit(given, flat_prior())
    ours = predict_law(fitted, 7.0) if law_alone else predict(fitted, 7.0)
    assert ours == pytest.approx(LAW.cpi(7.0, 3.2), rel=0.02)


def test_without_counted_misses_the_shape_alone_still_tells():
    rows = [row(mib, llc_mpki=None) for mib in SIZES if mib != 7.0]
    assert sizes(rows).misses is None
    assert predict(fit(sizes(rows), flat_prior()), 7.0) == pytest.approx(LAW.cpi(7.0, 3.2), rel=0.03)


def test_a_program_that_does_not_care_has_the_same_cpi_everywhere():
    given = sizes([row(mib, cpi=0.5, llc_mpki=0.0) for mib in SIZES[:4]])
    assert predict(fit(given, flat_prior()), 19.25) == pytest.approx(0.5, rel=0.005)


def test_a_higher_clock_makes_misses_longer_in_cycles():
    fitted = fit(sizes([row(mib) for mib in SIZES]), flat_prior())
    assert predict(fitted, 1.75, 3.2) > predict(fitted, 1.75, 2.0)


def test_a_population_prefers_the_curves_that_its_programs_have():
    evidence = [log_evidence(fit(sizes([row(mib) for mib in SIZES]), flat_prior())) for _ in range(3)]
    prior = learn_prior(evidence)
    assert np.exp(prior).sum() == pytest.approx(1.0)
    assert prior.argmax() == evidence[0].argmax()
    assert learn_prior([]) == pytest.approx(flat_prior())


def test_each_size_is_left_out_once_beside_the_simple_rules():
    found = {test.name.split(": ")[1]: test for test in spec.tests([row(mib) for mib in SIZES], Machines(), EMPTY)}
    assert [len(found[name].pairs) for name in ("inner sizes", "all but the smallest", "all sizes")] == [3, 4, 5]
    inner = found["inner sizes"]
    assert all(pair.ours == pytest.approx(pair.measured, rel=0.06) for pair in inner.pairs)
    first = inner.pairs[0]
    assert first.simplest == pytest.approx(
        np.interp(np.log(3.5), np.log([1.75, 7.0]), [LAW.cpi(1.75, 3.2), LAW.cpi(7.0, 3.2)])
    )
    assert {rule.name for rule in inner.rules} >= {"same as nearest size", "monotone cubic in log size"}


def test_programs_marked_check_are_told_apart_and_never_learned_from():
    rows = [row(mib, split="check") for mib in SIZES] + [row(mib, "470.lbm.1", split="fit") for mib in SIZES]
    population = spec.Population(spec.programs(rows))
    found = {test.name.split(": ")[1]: test for test in spec.tests(rows, Machines(), population)}
    assert len(found["all sizes, checked programs"].pairs) == 5
    assert population.prior("lbm", LAW_ALONE) == pytest.approx(flat_prior())
    assert population.prior("bzip2", LAW_ALONE) != pytest.approx(flat_prior())


def test_rows_for_context_are_read_and_not_compared():
    rows = [row(mib) | ({} if mib == 7.0 else {"context": True}) for mib in SIZES]
    assert [pair.key for pair in spec.tests(rows, Machines(), EMPTY)[2].pairs] == ["cpu2006 401.bzip2.1 raw none 7 MiB"]


def test_turbo_rows_and_programs_of_two_sizes_are_left_out_and_too_many_sizes_refused():
    assert not spec.programs([row(1.75), row(3.5), row(7.0, flag="turbo_of_one_core")])
    with pytest.raises(InputError, match="has 65 sizes, expected at most 64"):
        spec.programs([row(1.0 + i) for i in range(65)])


@pytest.mark.parametrize(("name", "expected"), [("401.bzip2.3", "bzip2"), ("502.gcc_r.1", "gcc"), ("619.lbm_s", "lbm")])
def test_programs_of_one_benchmark_are_no_independent_samples(name, expected):
    assert spec.benchmark(name) == expected


def test_two_decimals_are_seen():
    assert sizes([row(mib, cpi=round(LAW.cpi(mib, 3.2), 2)) for mib in SIZES]).rounded
    assert not sizes([row(mib) for mib in SIZES]).rounded


def test_copies_in_one_way_hold_a_part_of_it():
    both = [row(1.75 / n, copies=float(n), cpi=LAW.cpi(0.8 * 1.75 / n, 3.2 * (1.0 + 0.015 * (n - 1)))) for n in (2, 4)]
    shared = sharing.tests([row(mib) for mib in SIZES] + both, Machines(), EMPTY)[0]
    assert [pair.key.rsplit(" ", 2)[1] for pair in shared.pairs] == ["4", "2"]
    assert [pair.ours for pair in shared.pairs] == pytest.approx([pair.measured for pair in shared.pairs], rel=0.08)
    assert all(pair.ours > pair.simplest for pair in shared.pairs)


def test_the_clock_falls_with_busy_cores():
    c = sharing.ClockConstants()
    assert [sharing.clock_ratio(n, c) for n in (1.0, 2.0, 4.0)] == pytest.approx([1.0, 0.941, 0.907])
    assert 0.5 <= sharing.clock_ratio(64.0, c) < 0.907
    rows = [row(1.75), row(0.875, copies=2.0, ghz=3.0)]
    pair = sharing.tests(rows, Machines(), EMPTY)[1].pairs[0]
    assert (pair.measured, pair.ours, pair.simplest) == (3.0, pytest.approx(3.2 * 0.941), 3.2)


def loaded(u, machine="a", idle=80.0, a=0.5, b=2.0):
    return {
        "machine": machine,
        "max_read_gbps": 100.0,
        "idle_ns": idle,
        "read_gbps": 100.0 * u,
        "latency_ns": idle * (1 + a * u**b),
    }


def test_latency_rises_with_a_power_of_the_traffic_and_a_machine_never_tells_itself():
    rows = [loaded(u) for u in (0.2, 0.5, 0.8, 0.97)]
    assert memory_latency.fit(rows) == pytest.approx((0.5, 2.0), rel=1e-3)
    other = [loaded(u, "b", 90.0, 1.0, 2.0) for u in (0.2, 0.5, 0.9)]
    (test,) = memory_latency.tests(other, Machines(), [*rows, *other])
    assert test.pairs[2].ours == pytest.approx(90.0 * (1 + 0.5 * 0.81), rel=1e-3)
    assert test.pairs[2].simplest == 90.0
