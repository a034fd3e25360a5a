"""A validation from start to end: calibrate, predict, measure; goes on where it was stopped."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from osml.base.cpu_model import cpu_model
from osml.base.failure import Failure, InputError
from osml.lab.bench.store import code_fingerprint
from osml.lab.trials.live.services import Service, service_named, services
from osml.lab.validation import design
from osml.lab.validation.calibrate import profile_of, typical, work_of
from osml.lab.validation.cells import SATURATES, Cell, Row
from osml.lab.validation.learn import learned
from osml.lab.validation.predict import predict
from osml.lab.validation.profiles import Profile
from osml.lab.validation.score import document
from osml.lab.validation.stage import Load, Quiet, Stage, sole_use
from osml.lab.validation.store import Settings, Store

PROBE_S = 1.5
PROBE_RATE = 20.0
REPEATED, LATER = 6, 8
"""One held-out cell in so many is measured a second time, so many cells later: what the machine itself repeats is the
most that a prediction can reach."""

RETRIES = 2
"""A noisy calibration cell is measured so many times again."""

MORE, ATTEMPTS = 1.6, 4
"""A fit cell that is to be saturated, and is not, gets so many times the rate, at most so often."""

LONGEST = 3.0
"""A cell of a slow service lasts so many times longer, for the sake of its p99."""

MOST_WINDOWS = 100
MOST_PRECEDENCE = 64
"""Highest `--precedence`: other programs would stand still beyond it."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What to run. Raises InputError, naming the option, for values without meaning."""

    out: Path
    names: tuple[str, ...] = ()
    seed: int = 0
    hours: float | None = None
    per_service: int = 44
    saturated: int = 6
    seconds: float = 4.0
    windows: int = 3
    quiet: Quiet = field(default_factory=Quiet)

    def services(self) -> list[Service]:
        """The services of the run, all by default."""
        for option, value, low, high in (
            ("--hours", self.hours if self.hours is not None else 1.0, 1e-3, 1000.0),
            ("--seconds", self.seconds, 0.5, 600.0),
            ("--cells", float(self.per_service), 1.0, 10_000.0),
        ):
            if not low <= value <= high:
                raise InputError(f"{option} is {value:g}, expected {low:g} to {high:g}")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"--seed is {self.seed}, expected 0 to {2**32 - 1}")
        if self.saturated < 0:
            raise InputError(f"--saturated is {self.saturated}, expected at least 0")
        if not 1 <= self.windows <= MOST_WINDOWS:
            raise InputError(f"--windows is {self.windows}, expected 1 to {MOST_WINDOWS}")
        if not (0.0 <= self.quiet.patience_s < 1e6 and self.quiet.most_cpus >= 0.0):
            raise InputError(
                f"--patience-s is {self.quiet.patience_s:g} and --noise-cpus {self.quiet.most_cpus:g}, "
                "expected numbers of at least 0"
            )
        if not 1 <= self.quiet.precedence <= MOST_PRECEDENCE:
            raise InputError(f"--precedence is {self.quiet.precedence}, expected 1 to {MOST_PRECEDENCE}")
        if len(set(self.names)) < len(self.names):
            raise InputError(f"--services is {','.join(self.names)}, expected each name once")
        return [service_named(name) for name in self.names] if self.names else list(services().values())


def with_repeats(cells: Sequence[Cell]) -> list[Cell]:
    """The cells in their order; one in REPEATED is measured a second time, LATER cells after the first."""
    found: list[Cell] = []
    again: list[tuple[int, Cell]] = []
    for number, cell in enumerate(cells):
        while again and again[0][0] <= number:
            found.append(again.pop(0)[1])
        found.append(cell)
        if number % REPEATED == 0:
            again.append((number + LATER, msgspec.structs.replace(cell, repeat=1)))
    return found + [cell for _, cell in again]


class Validation:
    """One run on one stage."""

    def __init__(self, plan: Plan, chosen: list[Service], store: Store, stage: Stage, say: Say) -> None:
        self._plan, self._services, self._store, self._stage, self._say = plan, chosen, store, stage, say
        self._rows = {row.cell.key: row for row in store.rows()}
        self._said = store.predictions()
        self._until = None if plan.hours is None else time.monotonic() + 3600.0 * plan.hours
        self._profiles: dict[str, Profile] = {}
        self._fits: dict[str, list[Row]] = {}

    def run(self) -> None:
        """All cells, or as many as the time allows."""
        try:
            self._every_cell()
        except _TimeIsOverError:
            self._say(f"the time is over: {len(self._rows)} cells are measured; the same command goes on")

    def _every_cell(self) -> None:
        for service in self._services:
            self._fit(service)
        works = {service.name: self._quota_work(service.name) for service in self._services}
        busy = {service.name: self._work(service.name) for service in self._services}
        margin, cells = design.drawn_cells(
            self._services, works, busy, self._plan.per_service, self._plan.saturated, self._plan.seed
        )
        for cell in margin:
            self._cell(cell, calibrated=True)
        every = with_repeats(cells)
        for number, cell in enumerate(every, 1):
            if cell.key not in self._rows:
                self._cell(cell, calibrated=False)
                self._say(f"{number} of {len(every)}: {self._told(cell)}")

    def _told(self, cell: Cell) -> str:
        row = self._rows[cell.key]
        said = row.predicted
        if cell.saturated:
            found = f"{row.measured.throughput:.0f}/s, predicted {said.throughput.value if said else 0:.0f}/s"
        else:
            found = f"p99 {row.measured.p99_ms or 0:.2f} ms, predicted {said.p99_ms.value if said else 0:.2f} ms"
        return f"{cell.key}: {found}" + (f" (noisy: {row.measured.noisy})" if row.measured.noisy else "")

    def _work(self, name: str) -> float:
        return self._profiles[name].saturated_ms

    def _quota_work(self, name: str) -> float:
        """Work of the warm cell: quotas are chosen by it, so that all cells of a service have the same two."""
        return work_of(self._rows[design.warm_cell(name).key])

    def _fit(self, service: Service) -> None:
        """The service's fit cells, its rate guessed from a short look first, and the profile out of them."""
        warm = design.warm_cell(service.name)
        if warm.key not in self._rows:
            probe = self._stage.measure(warm, Load(PROBE_RATE), PROBE_S)
            if probe.throughput <= 0.0:
                raise Failure(f"service '{service.name}' answered none of {PROBE_RATE * PROBE_S:g} requests")
            self._measure_fit(warm, service, 1000.0 * probe.cpu / probe.throughput)
        work = work_of(self._rows[warm.key])
        rows: list[Row] = []
        for cell in design.fit_cells(service, work):
            if cell.key not in self._rows:
                least = min(work_of(row) for row in (self._rows[warm.key], *rows))
                self._measure_fit(cell, service, least if cell.saturated else work)
            rows.append(self._rows[cell.key])
        first, *fits = self._again([self._rows[warm.key], *rows])
        self._fits[service.name] = fits
        self._profiles[service.name] = profile_of(service, first, fits)
        self._say(f"{service.name}: {self._work(service.name):.3f} ms of CPU a request")

    def _again(self, rows: Sequence[Row]) -> list[Row]:
        """Of each fit cell the typical measurement. Those below saturation are measured in several rounds: what else
        the machine does changes from one measurement to the next.
        """
        found = {row.cell.key: [row] for row in rows}
        for repeat in range(1, self._plan.windows):
            for row in rows:
                if row.cell.saturated:
                    continue
                again = msgspec.structs.replace(row.cell, repeat=repeat)
                if again.key not in self._rows:
                    self._keep(self._answered(self._measured(again, Load(row.measured.rate), calibrated=True)))
                found[row.cell.key].append(self._rows[again.key])
        return [typical(found[row.cell.key]) for row in rows]

    def _measure_fit(self, cell: Cell, service: Service, work_ms: float) -> None:
        """Measure it until it shows what it is for. A service faster than the generator is marked and told.

        Raises Failure where it answers nothing, or few requests with idle CPUs.
        """
        rate = design.rate_of(cell, service.threads, work_ms)
        left = ATTEMPTS if cell.saturated else 1
        while True:
            row = self._answered(self._measured(cell, Load(min(rate, design.most_rate(cell))), calibrated=True))
            if not cell.saturated or _is_saturated(row, service):
                self._keep(row)
                return
            left, rate = left - 1, rate * MORE
            if left == 0 or row.measured.rate >= design.most_rate(cell):
                seen = row.measured
                what = (
                    f"service '{service.name}' can't be saturated in cell {cell.key}: of {seen.rate:.0f} requests/s it "
                    f"answers {seen.throughput:.0f} with {seen.cpu:.2f} CPUs"
                )
                if seen.overloaded:  # and its CPUs are idle: the requests do not reach it
                    raise Failure(what)
                self._say(f"{what}, all that are sent; its work includes what waking up costs")
                self._keep(row)
                return

    @staticmethod
    def _answered(row: Row) -> Row:
        """The row of a calibration cell. Raises Failure where nothing was answered: it is not kept."""
        if row.measured.throughput <= 0.0:
            raise Failure(f"service '{row.cell.service}' answered no request in cell {row.cell.key}")
        return row

    @staticmethod
    def _rate(cell: Cell, service: Service, work_ms: float) -> float:
        return min(design.rate_of(cell, service.threads, work_ms), design.most_rate(cell))

    def _cell(self, cell: Cell, calibrated: bool) -> None:
        """Predict, keep the prediction, then measure."""
        if cell.key in self._rows:
            return
        profile = self._profiles[cell.service]
        service = service_named(cell.service)
        rate = self._rate(cell, service, profile.saturated_ms)
        other: tuple[Profile, float] | None = None
        if cell.company.startswith("service:"):
            name = cell.company.removeprefix("service:")
            beside = self._profiles[name]
            work_ms = work_of(self._fits[name][0])  # at low load, with what waking up costs
            other = (beside, min(1000.0 * design.COMPANY_LOAD / work_ms, design.MOST_RATE))
        if cell.key not in self._said:
            seconds = self._seconds(rate)
            self._said[cell.key] = predict(
                cell, rate, profile, self._known(cell.service), seconds, self._plan.seed, other,
                learned(self._rows.values(), cell.service),
            )  # fmt: skip
            self._store.predict(cell.key, self._said[cell.key])
        self._measure(cell, Load(rate, other[1] if other else 0.0), calibrated)

    def _known(self, service: str) -> list[Row]:
        """The cells of a service that are measured, those first that its profile is read from."""
        fits = self._fits[service]
        keys = {row.cell.key for row in fits}
        mine = [row for row in self._rows.values() if row.cell.service == service]
        return [*fits, *(row for row in mine if row.cell.key not in keys)]

    def _seconds(self, rate: float) -> float:
        return design.seconds_of(rate, self._plan.seconds, LONGEST * self._plan.seconds)

    def _measure(self, cell: Cell, load: Load, calibrated: bool) -> None:
        self._keep(self._measured(cell, load, calibrated))

    def _measured(self, cell: Cell, load: Load, calibrated: bool) -> Row:
        if self._until is not None and time.monotonic() > self._until:
            raise _TimeIsOverError
        began = time.time()
        measured = self._stage.measure(cell, load, self._seconds(load.rate))
        retries = RETRIES if calibrated and self._plan.quiet.patience_s > 0.0 else 0  # all predictions rest on these
        for _ in range(retries):
            if not measured.noisy:
                break
            again = self._stage.measure(cell, load, self._seconds(load.rate))
            if not again.noisy or again.foreign + again.steal < measured.foreign + measured.steal:
                measured = again
        if not (calibrated and self._fits.get(cell.service) is None):  # the shape of work is read from fit cells only
            measured = msgspec.structs.replace(measured, histogram=[])
        if cell.saturated and not measured.noisy and not measured.overloaded:
            measured = msgspec.structs.replace(measured, noisy="all requests were answered: not at saturation")
        return Row(cell, calibrated, began, measured, self._said.get(cell.key))

    def _keep(self, row: Row) -> None:
        self._rows[row.cell.key] = row
        self._store.measured(row)


class _TimeIsOverError(Exception):
    """The hours of the plan have passed."""


def _is_saturated(row: Row, service: Service) -> bool:
    """Whether more was offered than the service could do, and it was the service that could not."""
    seen = row.measured
    busy = seen.cpu > SATURATES * design.capacity(row.cell, service.threads)
    return busy and seen.overloaded


def validate(plan: Plan, say: Say) -> dict[str, Any]:
    """Run, or go on with, a validation; its document. Needs root.

    Raises InputError for bad options, MachineError where the machine lacks something, Failure when a program dies.
    """
    chosen = plan.services()
    names = [service.name for service in chosen]
    settings = Settings(
        plan.seed, names, plan.per_service, plan.saturated, plan.seconds, code_fingerprint(),
        f"{platform.machine()} Linux {platform.release()} {cpu_model()}", plan.quiet.most_cpus, plan.quiet.precedence,
        plan.windows,
    )  # fmt: skip
    with sole_use(chosen, design.JOBS):
        store = Store(plan.out, settings)
        try:
            with Stage(chosen, plan.out, plan.seed, plan.quiet) as stage:
                Validation(plan, chosen, store, stage, say).run()
        except BaseException:
            with contextlib.suppress(Exception):  # what ended the run is what has to be told
                _scored(plan.out, store, settings)
            raise
        return _scored(plan.out, store, settings)


def _scored(out: Path, store: Store, settings: Settings) -> dict[str, Any]:
    """The document of what was measured so far, which is also written."""
    found = document(store.rows(), msgspec.to_builtins(settings))
    (out / "live-validation.json").write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return found
