"""How a run measures its cells, on a stage that answers what the test says; and what a cell's marks say."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from osml.base.failure import Failure
from osml.lab.trials.live.services import service_named
from osml.lab.validation.cells import Cell, Measured
from osml.lab.validation.design import fit_cells
from osml.lab.validation.run import Plan, Validation
from osml.lab.validation.stage import GIVE_UP_S, Load, answers_of
from osml.lab.validation.store import Settings, Store
from tests.lab.validation.test_predictions import measured


class Machine:
    """A service that spends 1 ms a request while it sleeps between them, and half of that at saturation."""

    def __init__(self, most_cpus: float = 1.0) -> None:
        self.most_cpus = most_cpus
        self.asked: list[tuple[Cell, float]] = []

    def measure(self, cell: Cell, load: Load, seconds: float) -> Measured:
        self.asked.append((cell, load.rate))
        quota = min(cell.quota or 1.0, self.most_cpus)
        most = quota / 0.0005
        answered = min(load.rate, most)
        cpu = quota if load.rate >= most else min(answered * 0.001, quota)
        histogram = [(1.0, 50), (2.0, 49), (4.0, 1)]
        return measured(
            seconds=seconds, rate=load.rate, throughput=answered, cpu=cpu, histogram=histogram, generator_cpu=0.01
        )


def started(
    tmp_path: Path, machine: Any, hours: float | None = None, told: list[str] | None = None, windows: int = 1
) -> Validation:
    plan = Plan(tmp_path, ("redis",), hours=hours, per_service=1, saturated=1, windows=windows)
    store = Store(tmp_path, Settings(0, ["redis"], 1, 1, 4.0))
    return Validation(plan, [service_named("redis")], store, machine, ([] if told is None else told).append)


def test_cells_at_saturation_are_offered_more_than_can_be_done(tmp_path: Path) -> None:
    """At 1.6 times what the warm cell's work allows, a service that spends half when busy would still keep up."""
    machine = Machine()
    started(tmp_path, machine).run()
    saturated = [(cell, rate) for cell, rate in machine.asked if cell.saturated and cell.company == "none"]
    assert saturated
    kept = [row for row in Store(tmp_path, Settings(0, ["redis"], 1, 1, 4.0)).rows() if row.cell.saturated]
    assert {cell.key for cell in fit_cells(service_named("redis"), 1.0) if cell.saturated} <= {
        row.cell.key for row in kept
    }
    for row in kept:
        if row.cell.company == "none":
            assert row.measured.throughput < 0.9 * row.measured.rate
            assert row.measured.cpu == pytest.approx(row.cell.quota or 1.0)


def test_a_service_that_cannot_be_saturated_is_marked_and_told(tmp_path: Path) -> None:
    class Endless(Machine):
        """Faster than the generator."""

        def measure(self, cell: Cell, load: Load, seconds: float) -> Measured:
            found = super().measure(cell, load, seconds)
            return msgspec.structs.replace(found, throughput=load.rate) if cell.saturated else found

    class Choked(Machine):
        """Half of the requests get no further than the generator."""

        def measure(self, cell: Cell, load: Load, seconds: float) -> Measured:
            found = super().measure(cell, load, seconds)
            few = msgspec.structs.replace(found, throughput=0.5 * load.rate, cpu=0.2 * found.cpu)
            return few if cell.saturated else found

    with pytest.raises(Failure, match="can't be saturated in cell"):
        started(tmp_path / "choked", Choked()).run()
    told: list[str] = []
    started(tmp_path, Endless(), told=told).run()
    assert any("service 'redis' can't be saturated in cell" in line for line in told)
    rows = Store(tmp_path, Settings(0, ["redis"], 1, 1, 4.0)).rows()
    fit = {cell.key for cell in fit_cells(service_named("redis"), 1.0) if cell.saturated}
    marked = [row for row in rows if row.calibrated and row.cell.key in fit]
    assert marked
    assert {row.measured.noisy for row in marked} == {"all requests were answered: not at saturation"}


def test_calibration_cells_are_measured_in_rounds_and_later_ones_teach(tmp_path: Path) -> None:
    class Restless(Machine):
        """Every second measurement takes twice the CPU time."""

        def measure(self, cell: Cell, load: Load, seconds: float) -> Measured:
            found = super().measure(cell, load, seconds)
            slow = len(self.asked) % 2 and not cell.saturated
            return msgspec.structs.replace(found, cpu=2.0 * found.cpu) if slow else found

    machine = Restless()
    started(tmp_path, machine, windows=3).run()
    rows = Store(tmp_path, Settings(0, ["redis"], 1, 1, 4.0)).rows()
    fits = [row for row in rows if row.calibrated and row.predicted is None]
    assert sorted(row.cell.repeat for row in fits if not row.cell.saturated) == [0] * 5 + [1] * 5 + [2] * 5
    assert all(row.cell.repeat == 0 for row in fits if row.cell.saturated)
    rounds = [row.cell.repeat for row in fits if not row.cell.saturated]
    assert rounds == sorted(rounds), "a round is over before the next one begins"
    asked = len(machine.asked)
    started(tmp_path, machine, windows=3).run()  # nothing is measured twice
    assert len(machine.asked) == asked
    drawn = [row for row in rows if row.predicted is not None and not row.cell.saturated]
    assert all(row.predicted is not None and row.predicted.p99_ms.simulated is not None for row in drawn)
    first, last = drawn[0].predicted, drawn[-1].predicted
    assert first is not None
    assert first.p99_ms.simulated == pytest.approx(first.p99_ms.value)
    assert last is not None
    assert last.p99_ms.simulated != pytest.approx(last.p99_ms.value)


def test_a_calibration_cell_without_answers_is_not_kept(tmp_path: Path) -> None:
    class Silent(Machine):
        def measure(self, cell: Cell, load: Load, seconds: float) -> Measured:
            found = super().measure(cell, load, seconds)
            return found if len(self.asked) < 3 else measured(rate=load.rate, throughput=0.0, cpu=0.0)

    with pytest.raises(Failure, match="answered no request in cell"):
        started(tmp_path, Silent()).run()
    rows = Store(tmp_path, Settings(0, ["redis"], 1, 1, 4.0)).rows()
    assert all(row.measured.throughput > 0.0 for row in rows)


def test_a_round_without_answers_is_not_kept_and_the_run_goes_on(tmp_path: Path) -> None:
    class Stalled(Machine):
        """Silent from the second round on."""

        def measure(self, cell: Cell, load: Load, seconds: float) -> Measured:
            found = super().measure(cell, load, seconds)
            return found if not cell.repeat else measured(rate=load.rate, throughput=0.0, cpu=0.0)

    with pytest.raises(Failure, match=r"answered no request in cell redis/1/-/0\.8/none/1/normal/1"):
        started(tmp_path, Stalled(), windows=3).run()
    rows = Store(tmp_path, Settings(0, ["redis"], 1, 1, 4.0)).rows()
    assert all(row.measured.throughput > 0.0 for row in rows)
    machine = Machine()
    started(tmp_path, machine, windows=3).run()
    assert machine.asked


def test_the_time_ends_calibration_too(tmp_path: Path) -> None:
    class Slow(Machine):
        def measure(self, cell: Cell, load: Load, seconds: float) -> Measured:
            time.sleep(0.02)
            return super().measure(cell, load, seconds)

    machine = Slow()
    started(tmp_path, machine, hours=0.01 / 3600.0).run()
    assert len(machine.asked) == 1  # the first look already lasts longer


def mark(histogram: list[tuple[float, int]], unanswered: int = 0, given_up: int = 0, errors: int = 0) -> dict[str, Any]:
    return {"histogram": histogram, "unanswered": unanswered, "given_up": given_up, "errors": given_up + errors}


def test_who_is_answered_late_or_never_counts_and_who_is_refused_is_told() -> None:
    end = mark([(1.0, 90)], unanswered=8, given_up=2)
    late = [mark([(1.0, 1), (300.0, 3)], unanswered=4), mark([], unanswered=1, given_up=3)]
    histogram, unanswered, failed = answers_of(end, late, saturated=False)
    assert histogram == [(1.0, 91), (300.0, 3), (1000.0 * GIVE_UP_S, 6)]
    assert (unanswered, failed) == (6, 0)
    assert answers_of(mark([(1.0, 9)], errors=5), [], saturated=False) == ([(1.0, 9)], 0, 5)
    lost = answers_of(mark([(1.0, 9)], unanswered=3), [mark([(9.0, 1)], errors=16, unanswered=1)], saturated=False)
    assert lost == ([(1.0, 9), (9.0, 1), (1000.0 * GIVE_UP_S, 1)], 1, 1)  # of three one came late, one waits
    assert answers_of(mark([(1.0, 9)], unanswered=70, given_up=3), [], saturated=True) == ([(1.0, 9)], 0, 0)
