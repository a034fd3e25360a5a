"""SPEC CPU programs that share one cache way with copies of themselves, and the clock with more busy cores."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from osml.simulator.calibration.measured.machines import Machines
from osml.simulator.calibration.measured.outcome import Pair, Rule, Test
from osml.simulator.calibration.measured.spec.curve import MEDIAN, fit, predict
from osml.simulator.calibration.measured.spec.sizes import Population, Program, programs
from osml.simulator.calibration.measured.table import Row


@dataclass(frozen=True)
class ClockConstants:
    """Turbo of a Xeon Gold 5120 with CPU2006, which has no wide vectors: medians of all programs (shipped rows)."""

    cores: tuple[float, ...] = (1.0, 2.0, 4.0)
    """Busy cores."""
    ratio: tuple[float, ...] = (1.0, 0.941, 0.907)
    """Clock over that with one busy core; between and beyond linear in the log of the cores."""


def clock_ratio(cores: float, c: ClockConstants) -> float:
    """Clock with so many busy cores over that with one."""
    x = [math.log(own) for own in c.cores]
    last = (c.ratio[-1] - c.ratio[-2]) / (x[-1] - x[-2])
    beyond = max(math.log(cores) - x[-1], 0.0)
    return max(float(np.interp(math.log(cores), x, c.ratio)) + last * beyond, 0.5)


def _shared(program: Program, population: Population) -> list[tuple[Pair, float]]:
    """CPI of copies in one way, from the sizes of the program alone; beside each the line through these sizes."""
    alone = program.sizes.copies == 1.0
    if alone.sum() < 2 or alone.all():
        return []
    given = program.sizes.at(np.flatnonzero(alone).astype(np.int64))
    fitted = fit(given, population.prior(program.name, MEDIAN), MEDIAN)
    slope, level = np.polyfit(np.log(given.mib), given.cpi, 1)
    out: list[tuple[Pair, float]] = []
    for i in np.flatnonzero(~alone & np.array(program.compared)):
        size, copies = float(program.sizes.mib[i]), float(program.sizes.copies[i])
        way = int(np.argmin(np.abs(given.mib - size * copies)))
        ours = predict(fitted, size, float(program.sizes.ghz[i]), copies)
        key = f"{program.key} {copies:g} copies"
        out.append((Pair(key, float(program.cpi[i]), ours, float(given.cpi[way])), float(level + slope * np.log(size))))
    return out


def _clock(rows: Sequence[Row], c: ClockConstants) -> list[Pair]:
    """Clock with 2 and 4 busy cores from that of the program alone."""
    groups: dict[tuple[str, str, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["ghz"] and not row["flag"].startswith("turbo"):
            groups[row["suite"], row["program"], row["prefetch"]][row["copies"] or 1.0].append(row["ghz"])
    out: list[Pair] = []
    for key, by in sorted(groups.items()):
        if 1.0 not in by:
            continue
        one = median(by[1.0])
        for copies, own in sorted(by.items()):
            if copies > 1.0:
                name = f"{' '.join(key)} {copies:g} busy cores"
                out.append(Pair(name, median(own), one * clock_ratio(copies, c), one))
    return out


def tests(rows: Sequence[Row], machines: Machines, population: Population) -> list[Test]:
    """CPI of copies that share a way, and the clock; the counters are alike on all `machines`."""
    shared = [own for program in programs(rows) for own in _shared(program, population)]
    note = "From the sizes of the program alone. Copies that may have run on sibling threads are left out."
    line = Rule("linear in log size, extended", [value for _, value in shared])
    clock = "Two numbers from CPU2006. Programs with wide vectors lose up to three times as much."
    pairs = [pair for pair, _ in shared]
    return [
        Test(
            "SPEC CPI of copies that share a way",
            "cycles/instruction",
            "factor",
            1.3,
            pairs,
            "as alone in the way",
            None,
            note,
            (line,),
        ),
        Test(
            "SPEC clock over busy cores",
            "GHz",
            "relative",
            0.03,
            _clock(rows, ClockConstants()),
            "as one busy core",
            None,
            clock,
        ),
    ]
