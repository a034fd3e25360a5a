"""Loops whose misses follow from a formula, to check measured curves: `loops.c` and what it must show."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from osml.base.failure import MachineError
from osml.lab.profile.caches import Caches
from osml.lab.profile.curve import Floats, curve_of
from osml.lab.profile.outcome import Outcome
from osml.lab.profile.program import Work, run_program
from osml.lab.trials.children import Interrupted

SOURCE = Path(__file__).with_name("loops.c")
WAYS = 16
_SETS, _SPREAD_SETS = 256, 4096
_INNER, _OUTER, _STEP = 4, 7, 8
_BINOMIAL: Any = stats.binom


def small_caches(hashed: bool, sample_shift: int = 0, sets: int = _SETS, seed: int = 0) -> Caches:
    """A small last level behind private caches of 1 KiB: it sees all of a loop."""
    return Caches(sets, WAYS, sample_shift, hashed, seed, l1_kib=1, l1_ways=1, l2_kib=1, l2_ways=1)


def compiled(folder: Path) -> Path:
    """The program `loops` in that folder. Raises MachineError where gcc is missing or fails."""
    program = folder / "loops"
    command = ["gcc", "-O2", "-Wall", "-o", str(program), str(SOURCE)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise MachineError("gcc not found: install with `apt-get install gcc`") from None
    if done.returncode != 0:
        raise MachineError(f"gcc ended with exit code {done.returncode}: {done.stderr.strip()[-300:]}")
    return program


@dataclass(frozen=True)
class Known:
    """A loop: arguments of the program, the cache, and the share of accesses that miss with 1, 2, ... ways."""

    name: str
    arguments: Sequence[object]
    caches: Caches
    expected: Sequence[float]

    def run(self, program: Path) -> Outcome:
        """The loop under instrumentation. Raises Interrupted on Ctrl-C."""
        outcome = run_program(Work([str(program), *map(str, self.arguments)]), self.caches)
        if not outcome.complete:
            raise Interrupted(f"stopped at loop '{self.name}'")
        return outcome


def miss_ratios(outcome: Outcome) -> Floats:
    """Misses per access for each number of ways; lines that are used for the first time are left out of both."""
    curve = curve_of(outcome.report, 0, whole_run=True)
    return (curve.mpki - curve.cold) / (curve.accesses - curve.cold)


def _step(at: int) -> list[float]:
    return [1.0 if way < at else 0.0 for way in range(1, WAYS + 1)]


def _spread(lines: int, sets: int) -> list[float]:
    """Cyclic use of lines in random sets: a line misses where at least `way` others share its set."""
    return [float(_BINOMIAL.sf(way - 1, lines - 1, 1 / sets)) for way in range(1, WAYS + 1)]


def _random_spread(lines: int, sets: int) -> list[float]:
    """Random use of lines in random sets: E[max(X - way, 0)]/E[X] for X lines in a set."""
    counts = np.arange(lines + 1)
    weights = _BINOMIAL.pmf(counts, lines, 1 / sets)
    return [float((np.maximum(counts - way, 0) * weights).sum() * sets / lines) for way in range(1, WAYS + 1)]


def known_loops() -> list[Known]:
    """All loops. Below its lines in each set a cyclic sweep always misses under LRU, from there on never."""
    plain, spread = small_caches(hashed=False), small_caches(hashed=True, sets=_SPREAD_SETS)
    again = (_INNER + _OUTER) / (4 * _INNER + _OUTER)  # four sweeps over one set of lines, then one over the other
    nested = [1.0 if way < _INNER else again if way < _INNER + _OUTER else 0.0 for way in range(1, WAYS + 1)]
    lines, strided = 10 * _SPREAD_SETS, 6 * _STEP * _SPREAD_SETS
    return [
        Known("sweep", ("sweep", 10 * _SETS, 600), plain, _step(10)),
        Known("sweep, sets hashed", ("sweep", lines, 60), spread, _spread(lines, _SPREAD_SETS)),
        Known("random", ("random", 20 * _SETS, 400), plain, [1.0 - way / 20 for way in range(1, WAYS + 1)]),
        Known("random, sets hashed", ("random", lines, 60), spread, _random_spread(lines, _SPREAD_SETS)),
        Known("two nested sets of lines", ("nested", _INNER * _SETS, 300, _OUTER * _SETS), plain, nested),
        Known("stride of 8 lines", ("stride", 6 * _SETS, 8000, _STEP), plain, _step(6)),
        Known(
            "stride of 8 lines, sets hashed", ("stride", strided, 100, _STEP), spread,
            _spread(strided // _STEP, _SPREAD_SETS),
        ),
        Known("pointer chase, sets hashed", ("chase", lines, 200), spread, _spread(lines, _SPREAD_SETS)),
    ]  # fmt: skip
