"""Batch jobs beside an iBench program: CPU time and run time, relative to the job alone.

A program is one number, its appetite for issue slots. Beside a busy sibling its CPU time grows by appetite x pressure.
A pressure belongs to an antagonist and a family of machines: whether the sibling waits for memory does not order them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import optimize

from osml.simulator.calibration.measured.machines import Machine, Machines
from osml.simulator.calibration.measured.memcached.antagonists import ANTAGONISTS, SPINNERS, WAKERS
from osml.simulator.calibration.measured.outcome import Pair, Test
from osml.simulator.calibration.measured.table import Columns, Row
from osml.simulator.columns import FloatArray

COLUMNS = Columns(positive=("slowdown", "user_ratio"), texts=("repo", "vm", "program", "interference"))


@dataclass(frozen=True)
class BatchConstants:
    """What the fit does not find."""

    usual_appetite: float = 0.6
    """Of a program that nothing is known of: the middle of the seven that were fitted."""
    beside_itself: float = 0.75
    """Pressure of a program of appetite 1 on itself: vips with 8 threads on 4 cores."""
    same_cpu: float = 1.1
    """CPU time where program and antagonist take turns on one CPU (cold caches): freqmine, which stays on CPU 0."""
    half_a_cpu: float = 1.9
    """Run time over CPU time beside a spinner, of programs that wait for its CPU. Read off the shipped rows."""
    some_waits: float = 1.15
    """The same beside a waker."""
    core: float = 0.1
    """Pressure from another core, over that of a sibling: a guess, no row has it."""
    ridge: float = 0.1
    """How far pressures are drawn to the mean of their family in the fit."""


PIPELINES = ("dedup", "ferret")
"""Programs with several threads at `-n 1`: they need more than one CPU alone."""

STAYS = "freqmine"
"""Its OpenMP thread stays where it starts, on CPU 0."""


class Beside(NamedTuple):
    """Appetites of programs, and pressures of antagonists by family of machines."""

    appetite: Mapping[str, float]
    pressure: Mapping[str, Mapping[str, float]]


class Cell(NamedTuple):
    """Medians over the runs of one program beside one antagonist."""

    repo: str
    vm: str
    program: str
    antagonist: str
    user_ratio: float
    slowdown: float

    @property
    def key(self) -> str:
        """What names the cell."""
        return f"{self.repo} {self.vm} {self.program} {self.antagonist}"


def cells(rows: Sequence[Row]) -> list[Cell]:
    """All cells with a known antagonist."""
    groups: dict[tuple[str, str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["interference"] in ANTAGONISTS:
            groups[row["repo"], row["vm"], row["program"], row["interference"]].append(row)
    return [
        Cell(*key, median(row["user_ratio"] for row in own), median(row["slowdown"] for row in own))
        for key, own in sorted(groups.items())
    ]


def family(vm: str) -> str:
    """n2 of n2-standard-2."""
    return vm.split("-", maxsplit=1)[0]


def user_ratio(law: Beside, cell: Cell, machine: Machine, c: BatchConstants) -> float:
    """CPU time beside the antagonist over that alone."""
    if cell.program == STAYS and cell.antagonist in (*SPINNERS, *WAKERS):
        return c.same_cpu
    levels = law.pressure.get(family(cell.vm))
    if levels is None:
        levels = {a: mean(own[a] for own in law.pressure.values()) for a in ANTAGONISTS}
    apart = 1.0 if machine.siblings else c.core
    return 1.0 + law.appetite.get(cell.program, c.usual_appetite) * levels[cell.antagonist] * apart


def waits_for_cpu(program: str, antagonist: str, c: BatchConstants) -> float:
    """Run time over CPU time: programs with several threads, or that stay on CPU 0, wait for the antagonist's CPU."""
    if program in ("ferret", STAYS) and antagonist in SPINNERS:
        return c.half_a_cpu
    if program in (*PIPELINES, STAYS) and antagonist in WAKERS:
        return c.some_waits
    return 1.0


def fit(found: Iterable[Cell], c: BatchConstants) -> Beside:
    """Robust least squares of log user_ratio. One program has appetite 1; pipelines have no say."""
    data = [cell for cell in found if cell.program not in PIPELINES]
    programs = {cell.program for cell in data}
    anchor = "vips" if "vips" in programs else "barnes"
    free = sorted(programs - {anchor})
    slots = [(name, a) for name in sorted({family(cell.vm) for cell in data}) for a in ANTAGONISTS]
    logs = np.log([cell.user_ratio for cell in data])
    # Indices into x, which is appetites, pressures, and a 1 for the anchor.
    program = np.array([free.index(cell.program) if cell.program in free else len(free) + len(slots) for cell in data])
    slot = np.array([len(free) + slots.index((family(cell.vm), cell.antagonist)) for cell in data])
    turns = np.array([cell.program == STAYS and cell.antagonist in (*SPINNERS, *WAKERS) for cell in data])

    def residuals(x: FloatArray) -> FloatArray:
        all_of = np.append(x, 1.0)
        ratio = np.where(turns, c.same_cpu, 1.0 + all_of[program] * all_of[slot])
        levels = x[len(free) :].reshape(-1, len(ANTAGONISTS))  # (families, antagonists)
        drawn = c.ridge * (levels - levels.mean(axis=1, keepdims=True))
        return np.concatenate([np.log(ratio) - logs, drawn.ravel()])

    start = np.array([0.5] * len(free) + [0.6] * len(slots))
    low = np.array([0.02] * len(free) + [0.05] * len(slots))
    squares = cast(Any, optimize).least_squares
    x: FloatArray = squares(residuals, start, bounds=(low, 3.0), loss="soft_l1", f_scale=0.1).x
    pressure: dict[str, dict[str, float]] = defaultdict(dict)
    for i, (name, antagonist) in enumerate(slots):
        pressure[name][antagonist] = float(x[len(free) + i])
    return Beside({anchor: 1.0} | {name: float(x[i]) for i, name in enumerate(free)}, pressure)


def tests(
    rows: Sequence[Row], machines: Machines, shipped: Sequence[Cell], threads: Mapping[str, float] | None = None
) -> list[Test]:
    """CPU and run time of every cell. The law is fitted on the `shipped` cells, never on the cell itself.

    `threads` are appetites from runs with 8 threads (speedup.py), for programs that no shipped cell has.
    """
    c = BatchConstants()
    whole = fit(shipped, c)
    known = {cell[:4] for cell in shipped}
    user: list[Pair] = []
    slow: list[Pair] = []
    mine = cells(rows)
    for cell in mine:
        seen = cell[:4] in known
        law = fit([other for other in shipped if other[:4] != cell[:4]], c) if seen else whole
        law = law._replace(appetite=dict(threads or {}) | dict(law.appetite))
        ours = user_ratio(law, cell, machines.of(cell.vm, _row_of(rows, cell)), c)
        others = [other for other in mine if other.program != cell.program]
        if cell.program not in PIPELINES:
            ratios = [other.user_ratio for other in others if other.program not in PIPELINES]
            user.append(Pair(cell.key, cell.user_ratio, ours, median(ratios) if ratios else None))
        simple = median(other.slowdown for other in others) if others else None
        slow.append(Pair(cell.key, cell.slowdown, ours * waits_for_cpu(cell.program, cell.antagonist, c), simple))
    note = "Fitted on the shipped cells without the cell itself. Waits for a CPU were chosen on all of them."
    simplest = "median of all other programs"
    return [
        Test("batch: CPU time beside an antagonist, cell left out", "ratio", "factor", 1.3, user, simplest, None, note),
        Test("batch: run time beside an antagonist, cell left out", "ratio", "factor", 1.3, slow, simplest, None, note),
    ]


def _row_of(rows: Sequence[Row], cell: Cell) -> Row:
    return next(row for row in rows if (row["repo"], row["vm"]) == (cell.repo, cell.vm))
