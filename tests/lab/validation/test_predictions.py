"""Simulated cells, intervals and scores of a validation; its folder that goes on after a kill."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from osml.base.failure import InputError
from osml.lab.trials.live.services import service_named
from osml.lab.validation.calibrate import cooling, profile_of, typical
from osml.lab.validation.cells import Cell, Measured, Predicted, Range, Row
from osml.lab.validation.design import fit_cells, rate_of, warm_cell
from osml.lab.validation.learn import FEW, learned
from osml.lab.validation.predict import LEAST_SPREAD, LEAST_WIDTH, ideal_over_idle, nearest, predict
from osml.lab.validation.profiles import Profile
from osml.lab.validation.run import REPEATED, with_repeats
from osml.lab.validation.score import document
from osml.lab.validation.simulate import simulate_cell
from osml.lab.validation.stage import GIVE_UP_S
from osml.lab.validation.statistics import quantiles_of
from osml.lab.validation.store import Settings, Store

PROFILE = Profile(
    "redis", 1, False, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.02, tuple(np.linspace(0.2, 1.8, 51).tolist()), 0.02,
    0.05, 0.05,
)  # fmt: skip
"""A millisecond of work a request, spread evenly from 0.2 to 1.8; waking up costs nothing."""


def measured(**values: Any) -> Measured:
    """A quiet cell; `values` replace some of its figures."""
    figures: dict[str, Any] = dict.fromkeys(Measured.__struct_fields__, 0.0)
    figures |= {
        "samples": 1000,
        "errors": 0,
        "unanswered": 0,
        "noisy": "",
        "histogram": [],
        "rate": 100.0,
        "throughput": 100.0,
    }
    figures |= {"p50_ms": 1.0, "p95_ms": 2.0, "p99_ms": 3.0, "cpu": 0.1}
    return Measured(**(figures | values))


def test_same_seed_simulates_and_predicts_the_same() -> None:
    cell = Cell("redis", 1, 0.6, 0.5, "stress", 1.0, "idle")
    first = simulate_cell(cell, 300.0, PROFILE, 5.0, 3)
    assert first.quantiles() == simulate_cell(cell, 300.0, PROFILE, 5.0, 3).quantiles()
    assert first.quantiles() != simulate_cell(cell, 300.0, PROFILE, 5.0, 4).quantiles()
    rows = [Row(cell, True, 0.0, measured())]
    one, other = (predict(cell, 300.0, PROFILE, rows, 5.0, 1) for _ in range(2))
    assert msgspec.structs.replace(one, at=0.0) == msgspec.structs.replace(other, at=0.0)
    assert one.p99_ms.low < one.p99_ms.value < one.p99_ms.high


def test_alone_on_a_cpu_the_simulation_is_a_queue_with_one_server() -> None:
    seen = simulate_cell(Cell("redis", 1, None, 0.5), 500.0, PROFILE, 400.0, 1)
    cv2 = float(np.var(PROFILE.shape))
    wait = 0.5 * (1.0 + cv2) / 2.0 / (1.0 - 0.5)  # Pollaczek and Khinchine, in units of the mean work
    assert float(seen.response_ms.mean()) == pytest.approx(PROFILE.base_ms + 1.0 + wait, rel=0.04)
    assert seen.cpu == pytest.approx(0.5, rel=0.02)


def test_quota_bounds_throughput_and_throttling_lengthens_the_tail() -> None:
    saturated = simulate_cell(Cell("redis", 1, 0.4, 1.4), 700.0, PROFILE, 10.0, 1)
    assert saturated.throughput == pytest.approx(0.4 / 1.0 * 1000.0, rel=0.05)
    free = simulate_cell(Cell("redis", 1, None, 0.24), 240.0, PROFILE, 20.0, 1).quantiles()
    bound = simulate_cell(Cell("redis", 1, 0.4, 0.6), 240.0, PROFILE, 20.0, 1).quantiles()
    assert bound[2] > 2.0 * free[2]


def test_idle_job_disturbs_less_than_a_normal_one() -> None:
    idle = simulate_cell(Cell("redis", 1, None, 0.3, "stress", 1.0, "idle"), 300.0, PROFILE, 20.0, 1).quantiles()
    normal = simulate_cell(Cell("redis", 1, None, 0.3, "stress", 1.0, "normal"), 300.0, PROFILE, 20.0, 1).quantiles()
    assert idle[2] < 0.8 * normal[2]


def synthetic_row(cell: Cell, truth: Profile) -> Row:
    """What a cell would have shown if the kernel were the simulated one."""
    rate = rate_of(cell, 1, truth.work_ms)
    seen = simulate_cell(cell, rate, truth, 30.0, 11)
    values, counts = np.unique(np.round(seen.response_ms, 3), return_counts=True)
    histogram = [(float(value), int(count)) for value, count in zip(values, counts, strict=True)]
    p50, p95, p99 = quantiles_of(histogram, (0.5, 0.95, 0.99))
    shown = measured(
        rate=rate, throughput=seen.throughput, cpu=seen.cpu, samples=len(seen.response_ms), histogram=histogram,
        p50_ms=p50, p95_ms=p95, p99_ms=p99,
        generator_cpu=rate * PROFILE.generator_ms / 1000.0,
    )  # fmt: skip
    return Row(cell, True, 0.0, shown)


def test_profile_finds_again_what_made_the_cells() -> None:
    # Waking up costs the same everywhere, so that base and wake-ups can be told apart.
    service, truth = service_named("redis"), replace(PROFILE, wake_ms=0.5, cool_ms=1.0, base_ms=0.1)
    warm = synthetic_row(msgspec.structs.replace(warm_cell("redis"), load=0.3), truth)
    found = profile_of(service, warm, [synthetic_row(cell, truth) for cell in fit_cells(service, 1.0)])
    assert found.work_ms == pytest.approx(1.0, rel=0.05)
    assert found.wake_ms == pytest.approx(0.5, rel=0.3)
    assert found.cool_ms == pytest.approx(1.0, rel=0.4)
    assert found.base_ms == pytest.approx(truth.base_ms, abs=0.15)
    assert np.quantile(found.shape, (0.1, 0.5, 0.9)) == pytest.approx((0.36, 1.0, 1.64), rel=0.15)
    assert found.generator_ms == pytest.approx(PROFILE.generator_ms, rel=0.1)


def said(value: float, width: float = 0.1) -> Range:
    """A prediction with an interval of this relative half-width."""
    return Range(value, value * math.exp(-width), value * math.exp(width))


def predicted(p99: float, at: float = 0.0) -> Predicted:
    """A prediction whose other figures are right."""
    return Predicted(said(1.0), said(2.0), said(p99), said(100.0), said(0.1), (1.0, 2.0, 3.3), (1.0, 2.0, 30.0), at)


def test_law_of_wake_ups_is_found_from_two_rates() -> None:
    assert cooling((0.2, 1.0), (2.0 * math.exp(-0.2), 2.0 * math.exp(-1.0))) == pytest.approx((2.0, 1.0))
    assert cooling((0.2, 1.0), (0.3, 0.4)) == pytest.approx((0.35, 0.001))  # nothing decays: a constant cost
    cost, _ = cooling((0.2, 0.21), (1.0, 0.1))
    assert cost == pytest.approx(3.0)  # a steep difference is not carried on to low rates without end


def test_waking_up_costs_cpu_time_only_where_the_service_sleeps() -> None:
    slow = replace(PROFILE, wake_ms=0.5, cool_ms=0.0)
    alone = simulate_cell(Cell("redis", 1, None, 0.2), 200.0, slow, 60.0, 1)
    assert alone.cpu / 0.2 == pytest.approx(1.0 + 0.5 * (1.0 - alone.cpu), rel=0.05)
    saturated = simulate_cell(Cell("redis", 1, None, 1.6), 1600.0, slow, 10.0, 1)
    assert saturated.throughput == pytest.approx(1000.0, rel=0.05)


def test_margins_are_the_widths_that_would_have_held_the_promise() -> None:
    rows = [
        Row(Cell("redis", 1, None, 0.5, repeat=k), True, 0.0, measured(p99_ms=3.0 * math.exp(0.01 * k)), predicted(3.0))
        for k in range(1, 20)
    ]
    widths = learned(rows, "redis").widths
    assert widths[2] == pytest.approx(0.18)  # the 18th of 19 scores, each k hundredths
    assert widths[0] == 0.0  # all medians were right
    unseen = [Row(row.cell, True, 0.0, measured(p99_ms=None), row.predicted) for row in rows[:2]]
    assert learned([*rows[2:], *unseen], "redis").widths[2] == math.inf  # who had no answer was as far off as can be
    noisy = [msgspec.structs.replace(row, measured=measured(p99_ms=300.0, noisy="others")) for row in rows]
    assert learned([*rows, *noisy], "redis").widths == widths
    found = predict(Cell("redis", 1, None, 0.3), 300.0, PROFILE, [rows[0]], 2.0, 1, taught=learned(rows, "redis"))
    assert found.p99_ms.high / found.p99_ms.value == pytest.approx(math.exp(0.18 * found.p99_ms.spread))
    assert found.p50_ms.high / found.p50_ms.value == pytest.approx(math.exp(LEAST_WIDTH))


def test_a_service_whose_cells_were_slower_than_simulated_is_predicted_slower() -> None:
    def slower(service: str, times: float, number: int, **values: Any) -> Row:
        cell = Cell(service, 1, None, 0.5, weight=1.0 + number)
        return Row(cell, False, 0.0, measured(p99_ms=3.0 * times, **values), predicted(3.0))

    rows = [slower("redis", 2.0, number) for number in range(6)] + [slower("nginx", 0.5, 9)]
    rows.append(slower("redis", 50.0, 7, noisy="others"))
    taught = learned(rows, "redis")
    assert taught.shifts[2] == pytest.approx(math.log(2.0) * 6 / (6 + FEW))
    assert taught.shifts[0] == 0.0  # the medians were right
    assert taught.shifts[3] == 0.0  # a cell below saturation says nothing of throughput
    # What was said with a shift teaches by what the simulation said without it.
    shifted = [
        msgspec.structs.replace(
            row, predicted=msgspec.structs.replace(predicted(6.0), p99_ms=Range(6.0, 5.0, 7.0, simulated=3.0))
        )
        for row in rows[:6]
    ]
    assert learned(shifted, "redis").shifts == learned(rows[:6], "redis").shifts
    cell = Cell("redis", 1, None, 0.3)
    plain, moved = (
        predict(cell, 300.0, PROFILE, [rows[0]], 2.0, 1, taught=one) for one in (learned([], "redis"), taught)
    )
    assert moved.p99_ms.simulated == plain.p99_ms.value
    assert moved.p99_ms.value == pytest.approx(plain.p99_ms.value * math.exp(taught.shifts[2]))
    assert moved.throughput.value == plain.throughput.value


def test_intervals_are_wider_where_the_draws_are_further_apart() -> None:
    """Near saturation a little more work means much more waiting; the same scores promise less there."""
    rows = [
        Row(Cell("redis", 1, None, 0.5, weight=k), True, 0.0, measured(p99_ms=3.0 * math.exp(0.01 * k)), predicted(3.0))
        for k in range(1, 20)
    ]
    rough, taught = replace(PROFILE, work_error=0.1), learned(rows, "redis")
    calm, near = (
        predict(Cell("redis", 1, None, load), 1000.0 * load, rough, [rows[0]], 4.0, 1, taught=taught).p99_ms
        for load in (0.2, 0.9)
    )
    assert near.spread > 1.3 * calm.spread >= 1.3 * LEAST_SPREAD
    assert near.high / near.low > calm.high / calm.low


def test_the_typical_measurement_is_a_quiet_one_in_the_middle() -> None:
    cell = Cell("redis", 1, None, 0.5)
    rows = [Row(cell, True, 0.0, measured(cpu=cpu, noisy=noisy)) for cpu, noisy in ((0.3, ""), (0.1, ""), (0.2, ""))]
    assert typical(rows).measured.cpu == 0.2
    disturbed = msgspec.structs.replace(rows[2], measured=measured(cpu=0.2, noisy="others"))
    assert typical([rows[0], rows[1], disturbed]).measured.cpu == 0.1  # of two the one with less work
    assert typical([disturbed]) == disturbed


def test_a_cell_in_which_nothing_was_answered_is_a_miss() -> None:
    silent = measured(p50_ms=None, p95_ms=None, p99_ms=None, samples=0, unanswered=7)
    rows = [
        Row(Cell("redis", 1, None, 0.5), False, 0.0, measured(), predicted(3.0)),
        Row(Cell("redis", 1, None, 0.7), False, 0.0, silent, predicted(3.0)),
    ]
    found = document(rows, {})
    assert (found["held_out"], found["within_25pct"], found["coverage_90"], found["unanswered"]) == (2, 0.5, 0.5, 7)
    json.dumps(found, allow_nan=False)


def test_too_few_margin_cells_promise_nothing() -> None:
    rows = [
        Row(Cell("redis", 1, None, 0.5, repeat=k), True, 0.0, measured(p99_ms=3.0 * math.exp(0.01 * k)), predicted(3.0))
        for k in range(1, 9)
    ]
    taught = learned(rows, "redis")
    assert math.isinf(taught.widths[2])
    found = predict(Cell("redis", 1, None, 0.3), 300.0, PROFILE, [rows[0]], 2.0, 1, taught=taught)
    assert (found.p99_ms.low, found.p99_ms.high) == (0.0, 1e9)


def test_requests_that_wait_at_the_end_of_a_cell_count() -> None:
    """More is asked for than can be done: those due last wait longest, and are answered after the end."""
    overloaded = simulate_cell(Cell("redis", 1, 0.4, 0.9), 500.0, PROFILE, 4.0, 1)
    assert overloaded.throughput == pytest.approx(400.0, rel=0.05)
    assert len(overloaded.response_ms) == pytest.approx(2000, rel=0.1)
    assert overloaded.quantiles()[2] == pytest.approx(4.0 * 1000.0 * 0.25, rel=0.2)  # a fifth waits for the others
    assert overloaded.cpu == pytest.approx(0.4, rel=0.02)


def test_a_prediction_of_an_overloaded_cell_is_a_number_that_is_kept(tmp_path: Path) -> None:
    """Some draws find requests without an answer, others do not. The file of predictions has to be readable again."""
    cell = Cell("redis", 1, 0.4, 0.9)
    said = predict(cell, 700.0, PROFILE, [Row(cell, True, 0.0, measured())], 6.0, 1)
    for kind in ("p50_ms", "p95_ms", "p99_ms"):
        found: Range = getattr(said, kind)
        assert 0.0 < found.low <= found.value <= found.high <= 1e9
    store = Store(tmp_path, SETTINGS)
    store.predict(cell.key, said)
    assert Store(tmp_path, SETTINGS).predictions() == {cell.key: said}


def test_the_lab_gives_a_request_up_when_its_load_generator_does() -> None:
    target = (Path(__file__).parents[3] / "actuator/loadgen/target.h").read_text()
    assert f"kGiveUp = {GIVE_UP_S:g} * kSecond;" in target


def test_best_possible_is_what_the_truth_itself_would_reach() -> None:
    """Measurements whose logarithms are normal around the truth, with a spread of 0.3."""
    draw = np.random.default_rng(1)
    rows: list[Row] = []
    for number in range(3000):
        cell = Cell("redis", 1, None, 0.5, weight=1.0 + number)
        rows += [
            Row(msgspec.structs.replace(cell, repeat=repeat), False, 0.0, measured(p99_ms=seen), predicted(10.0))
            for repeat, seen in enumerate((10.0 * np.exp(0.3 * draw.standard_normal(2))).tolist())
        ]
    found = document(rows, {})
    assert found["two_measurements_agree"]["best_possible"] == pytest.approx(found["within_25pct"], abs=0.03)
    assert found["two_measurements_agree"]["within_25pct"] < found["within_25pct"] - 0.08


def test_an_interval_without_an_end_hides_no_other() -> None:
    rows = [
        Row(Cell("redis", 1, None, 0.5, weight=1.0 + k), False, 0.0, measured(p99_ms=3.0 if k else 9.0), predicted(3.0))
        for k in range(10)
    ]
    endless = msgspec.structs.replace(predicted(3.0), p99_ms=Range(3.0, 0.0, 1e9))
    rows.append(Row(Cell("redis", 1, None, 0.5, weight=0.5), False, 0.0, measured(), endless))
    found = document(rows, {})
    assert found["coverage_90"] == 0.9
    assert found["unbounded_p99"] == 1


def test_a_calibration_cell_is_noisy_if_all_its_measurements_are() -> None:
    cells = [Cell("redis", 1, None, load, repeat=repeat) for load in (0.3, 0.5) for repeat in (0, 1)]
    noise = ["others", "", "others", "others"]
    rows = [Row(cell, True, 0.0, measured(noisy=why)) for cell, why in zip(cells, noise, strict=True)]
    found = document(rows, {})
    assert (found["calibration_cells"], found["noisy_calibration_cells"]) == (2, 1)


def test_some_cells_are_measured_twice_early_and_late() -> None:
    cells = [Cell("redis", 1, None, 0.5, repeat=0, weight=1.0 + k) for k in range(100)]
    found = with_repeats(cells)
    twice = [cell for cell in found if cell.repeat == 1]
    assert [cell for cell in found if cell.repeat == 0] == cells
    assert len(twice) == math.ceil(100 / REPEATED)
    places = [found.index(cell) for cell in twice]
    assert places[0] < 10
    assert places[-1] > 90
    assert all(
        place > found.index(msgspec.structs.replace(cell, repeat=0)) + 4
        for place, cell in zip(places[:-1], twice, strict=False)
    )


def test_simple_predictors_are_the_nearest_cell_and_the_ideal_latency_over_idle_time() -> None:
    near = Row(Cell("redis", 2, None, 0.4, "stress", 1.0, "idle"), True, 0.0, measured(p99_ms=7.0))
    ideal = Row(Cell("redis", 2, None, 0.15), True, 0.0, measured())
    assert nearest(Cell("redis", 2, None, 0.5, "stress", 1.0, "idle"), [ideal, near])[2] == 7.0
    assert nearest(Cell("redis", 2, None, 0.5), [ideal, near])[2] == 3.0
    assert ideal_over_idle(Cell("redis", 2, None, 0.5), ideal) == (2.0, 4.0, 6.0)


def test_score_counts_held_out_quiet_cells_only() -> None:
    cells = [Cell("redis", 1, None, 0.5, repeat=k) for k in range(6)]
    rows = [
        Row(cells[0], True, 0.0, measured(), predicted(30.0)),
        Row(cells[1], False, 0.0, measured(), predicted(3.2)),
        Row(cells[2], False, 0.0, measured(), predicted(9.0)),
        Row(cells[3], False, 0.0, measured(noisy="others used 0.5 CPUs"), predicted(9.0)),
        Row(Cell("redis", 1, 0.3, 1.4), False, 0.0, measured(throughput=90.0, p99_ms=900.0), predicted(3.0)),
    ]
    rows = [
        msgspec.structs.replace(row, cell=msgspec.structs.replace(row.cell, load=0.5 + 0.1 * k))
        for k, row in enumerate(rows[:4])
    ] + rows[4:]
    rows = [msgspec.structs.replace(row, cell=msgspec.structs.replace(row.cell, repeat=0)) for row in rows]
    cells = [row.cell for row in rows]
    again = msgspec.structs.replace(rows[2], cell=msgspec.structs.replace(cells[2], repeat=1))
    found = document([*rows, again], {})
    assert (found["held_out"], found["held_out_saturated"], found["noisy"]) == (2, 1, 1)
    agree = {"pairs": 1, "within_25pct": 1.0, "best_possible": 1.0}  # a second measurement is no cell
    assert found["two_measurements_agree"] == agree
    assert found["within_25pct"] == 0.5
    assert found["within_25pct_with_noisy"] == pytest.approx(1 / 3)
    assert found["median_width_p99"] == pytest.approx(math.exp(0.2))
    assert found["nearest_within_25pct"] == 1.0
    assert found["mm1_within_25pct"] == 0.0
    assert found["coverage_90"] == 0.5
    assert found["throughput_within_10pct"] == 0.0
    assert found["groups"]["service"]["redis"]["cells"] == 2
    assert found["worst"][0]["cell"] == cells[2].key
    assert len(found["cells"]) == 6
    assert "histogram" not in found["cells"][0]["measured"]
    json.dumps(found, allow_nan=False)


SETTINGS = Settings(1, ["redis"], 4, 1, 5.0)


def test_killed_run_goes_on_after_its_last_whole_line(tmp_path: Path) -> None:
    store = Store(tmp_path, SETTINGS)
    row = Row(Cell("redis", 1, None, 0.5), False, 2.0, measured(), predicted(3.0, 1.0))
    store.predict(row.cell.key, predicted(3.0, 1.0))
    store.measured(row)
    with (tmp_path / "rows.jsonl").open("ab") as file:
        file.write(b'{"cell": {"serv')
    again = Store(tmp_path, SETTINGS)
    assert again.rows() == [row]
    assert again.predictions() == {row.cell.key: predicted(3.0, 1.0)}
    again.measured(row)
    assert len(again.rows()) == 2


def test_folder_of_another_run_is_refused_once_it_holds_anything(tmp_path: Path) -> None:
    Store(tmp_path, Settings(3, ["redis"], 4, 1, 5.0))  # nothing was predicted or measured: nothing is lost
    Store(tmp_path, SETTINGS).predict("a", predicted(3.0, 1.0))
    with pytest.raises(InputError, match="holds a run with other settings"):
        Store(tmp_path, Settings(2, ["redis"], 4, 1, 5.0))
