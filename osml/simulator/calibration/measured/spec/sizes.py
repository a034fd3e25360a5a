"""SPEC CPU programs over the size of the last-level cache: each size is left out in turn and asked from the others."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import mean, median
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import interpolate

from osml.base.failure import InputError
from osml.simulator.calibration.measured.machines import Machines
from osml.simulator.calibration.measured.outcome import Pair, Rule, Test
from osml.simulator.calibration.measured.spec.curve import (
    GHZ,
    LAW_ALONE,
    MEDIAN,
    CurveConstants,
    Sizes,
    fit,
    flat_prior,
    learn_prior,
    log_evidence,
    predict,
    predict_law,
)
from osml.simulator.calibration.measured.table import Columns, Row, is_context
from osml.simulator.columns import FloatArray

COLUMNS = Columns(
    positive=("llc_mib", "cpi"),
    texts=("suite", "program", "source", "prefetch"),
    optional=("copies", "cpi_second_run", "ghz", "llc_mpki"),
)
"""Rows with a flag that begins with `turbo` are left out."""

_WITHIN = 0.03
_AIM = 0.9  # a 90th percentile of 3 %
_LEAST_SIZES = 3
_MOST_SIZES = 64  # the work grows with their fourth power


class Program(NamedTuple):
    """One program at one setting of the prefetchers, sizes rising."""

    key: str
    name: str  # of the benchmark, without suite, number and input
    prefetch: str
    unseen: bool  # marked `check`
    sizes: Sizes
    cpi: FloatArray  # of the first run, which is compared; `sizes.cpi` is the mean of two runs
    compared: tuple[bool, ...]  # False where a size is only context


class Left(NamedTuple):
    """A size that was left out, with all answers. `position`: 0 smallest, 1 inner, 2 largest."""

    program: Program
    position: int
    pair: Pair
    law: float
    nearest: float
    pchip: float


def benchmark(program: str) -> str:
    """bzip2 of 401.bzip2.3, gcc of 502.gcc_r.1: programs of one name are no independent samples."""
    return re.sub(r"_[rs]$", "", re.sub(r"\.\d+$", "", re.sub(r"^\d+\.", "", program)))


def programs(rows: Sequence[Row]) -> list[Program]:
    """All curves of at least three sizes; runs of the same size and number of copies count once."""
    groups: dict[tuple[str, str, str, str], dict[tuple[float, float], list[Row]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        if row["flag"].startswith("turbo"):
            continue
        group = groups[row["suite"], row["program"], row["source"], row["prefetch"]]
        group[row["llc_mib"], -(row["copies"] or 1.0)].append(row)
    for key, by in groups.items():
        if len(by) > _MOST_SIZES:
            raise InputError(f"spec_llc.csv: {' '.join(key)} has {len(by)} sizes, expected at most {_MOST_SIZES}")
    return [_program(key, by) for key, by in sorted(groups.items()) if len(by) >= _LEAST_SIZES]


def _program(key: tuple[str, str, str, str], by: Mapping[tuple[float, float], Sequence[Row]]) -> Program:
    runs = [own for _, own in sorted(by.items())]

    def column(value: Callable[[Row], float]) -> FloatArray:
        return np.array([median(value(row) for row in own) for own in runs])

    counted = all(row["llc_mpki"] is not None for own in runs for row in own)
    cpi = column(lambda row: row["cpi"])
    sizes = Sizes(
        mib=column(lambda row: row["llc_mib"]),
        cpi=column(
            lambda row: row["cpi"] if row["cpi_second_run"] is None else mean((row["cpi"], row["cpi_second_run"]))
        ),
        misses=column(lambda row: row["llc_mpki"]) if counted else None,
        ghz=column(lambda row: row["ghz"] or GHZ),
        copies=column(lambda row: row["copies"] or 1.0),
        rounded=bool(np.allclose(cpi * 100.0, np.round(cpi * 100.0), atol=1e-6)),
    )
    unseen = all(row["split"] == "check" for own in runs for row in own)
    compared = tuple(not is_context(own[0]) for own in runs)
    return Program(" ".join(key), benchmark(key[1]), key[3], unseen, sizes, cpi, compared)


class Population:
    """How often programs have which curve: of the shipped programs marked `fit`, but for those of one name."""

    def __init__(self, shipped: Sequence[Program]) -> None:
        self._seen = [program for program in shipped if not program.unseen]
        self._prior = cache(self._learn)
        self._evidence = cache(self._all_evidence)

    def prior(self, name: str, c: CurveConstants) -> FloatArray:
        """Log of the share of each point of the grid."""
        known = any(program.name == name for program in self._seen)
        return self._prior(name if known else "", c)

    def _learn(self, name: str, c: CurveConstants) -> FloatArray:
        pairs = zip(self._seen, self._evidence(c), strict=True)
        return learn_prior([own for program, own in pairs if program.name != name])

    def _all_evidence(self, c: CurveConstants) -> list[FloatArray]:
        return [log_evidence(fit(program.sizes, flat_prior(), c)) for program in self._seen]


def leave_one_out(program: Program, population: Population) -> list[Left]:
    """Each size of a program from the others."""
    given, n = program.sizes, len(program.cpi)
    out: list[Left] = []
    for i in range(n):
        if not program.compared[i]:
            continue
        keep = np.delete(np.arange(n, dtype=np.int64), i)
        rest, at = given.at(keep), (float(given.mib[i]), float(given.ghz[i]), float(given.copies[i]))
        ours = predict(fit(rest, population.prior(program.name, MEDIAN), MEDIAN), *at)
        law = predict_law(fit(rest, population.prior(program.name, LAW_ALONE), LAW_ALONE), *at)
        x, left = np.log(rest.mib), float(np.log(given.mib[i]))
        line = float(np.interp(left, x, rest.cpi))
        nearest = float(rest.cpi[int(np.argmin(np.abs(x - left)))])
        inner = 0 < i < n - 1 and bool(np.all(np.diff(x) > 0.0))
        smooth = float(cast(Any, interpolate).PchipInterpolator(x, rest.cpi)(left)) if inner else line
        pair = Pair(f"{program.key} {at[0]:g} MiB", float(program.cpi[i]), ours, line)
        out.append(Left(program, (i > 0) + (i == n - 1), pair, law, nearest, smooth))
    return out


def _test(name: str, found: Sequence[Left], note: str) -> Test:
    rules = (
        Rule("same as nearest size", [left.nearest for left in found]),
        Rule("monotone cubic in log size", [left.pchip for left in found]),
        Rule("the law alone (what a node evaluates)", [left.law for left in found]),
    )
    pairs = [left.pair for left in found]
    simplest = "linear in log size"
    return Test(
        f"SPEC CPI, size left out: {name}",
        "cycles/instruction",
        "relative",
        _WITHIN,
        pairs,
        simplest,
        _AIM,
        note,
        rules,
    )


def tests(rows: Sequence[Row], machines: Machines, population: Population) -> list[Test]:
    """Inner and all sizes, each setting of the prefetchers, programs marked `check`; alike on all `machines`."""
    found = [left for program in programs(rows) for left in leave_one_out(program, population)]
    note = "Settings and population come from the programs marked `fit`, never from one of the same name."
    settings = sorted({left.program.prefetch for left in found})
    out = [
        _test("inner sizes", [left for left in found if left.position == 1], note),
        _test("all but the smallest", [left for left in found if left.position > 0], note),
        _test("all sizes", found, note),
    ]
    for prefetch in settings:
        mine = [left for left in found if left.program.prefetch == prefetch]
        out.append(_test(f"inner sizes, prefetch {prefetch}", [left for left in mine if left.position == 1], note))
        out.append(_test(f"all sizes, prefetch {prefetch}", mine, note))
    unseen = [left for left in found if left.program.unseen]
    out.append(_test("inner sizes, checked programs", [left for left in unseen if left.position == 1], note))
    out.append(_test("all sizes, checked programs", unseen, note))
    return out
