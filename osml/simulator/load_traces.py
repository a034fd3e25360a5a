"""Loads over time, as fractions of max load: constant, in steps, diurnal, bursty; and services that come and go.

Every trace is a pure function of time: the same trace gives the same load at the same time, in whatever order and
however often one asks. What is random in it follows from its `seed`. Times are in seconds from the start of the run.

>>> loads_at(Steps(0.2, ((60.0, 0.6),)), 75.0)
0.6
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from osml.simulator.columns import FloatArray
from osml.simulator.engine import MAX_LOAD
from osml.simulator.state import NodeInputError

_CHUNK = 64


def _above_zero(trace: str, name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise NodeInputError(f"{trace} load: {name} is {value}, expected a number above 0")


def _load(trace: str, name: str, value: float) -> None:
    if not 0 <= value <= MAX_LOAD:
        raise NodeInputError(f"{trace} load: {name} is {value}, expected a fraction of max load from 0 to {MAX_LOAD:g}")


@dataclass(frozen=True)
class Constant:
    """The same load all the time."""

    load: float

    def __post_init__(self) -> None:
        _load("constant", "load", self.load)

    def sample(self, times: FloatArray) -> FloatArray:
        """Loads at these times."""
        return np.full(times.shape, self.load)


@dataclass(frozen=True)
class Steps:
    """`first`, and from each time of `changes` (seconds, load) on another load. Times ascend."""

    first: float
    changes: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        _load("stepped", "first", self.first)
        before = -math.inf
        for at, load in self.changes:
            _load("stepped", f"the load from {at:g} s on", load)
            if not before < at < math.inf:
                raise NodeInputError(
                    f"stepped load: a change at {at:g} s follows one at {before:g} s, times must ascend"
                )
            before = at

    def sample(self, times: FloatArray) -> FloatArray:
        """Loads at these times."""
        starts = np.array([at for at, _ in self.changes])
        levels = np.array([self.first, *(load for _, load in self.changes)])
        return levels[np.searchsorted(starts, times, side="right")]


@dataclass(frozen=True)
class Diurnal:
    """A sine of `period_s` around `mean` with `amplitude`, at its mean and rising at `-phase` periods, with noise.

    The noise is a factor, with the standard deviation `noise` at points `grain_s` apart and straight lines between.
    """

    mean: float
    amplitude: float
    period_s: float
    phase: float = 0.0
    noise: float = 0.0
    grain_s: float = 5.0
    seed: int = 0

    def __post_init__(self) -> None:
        _load("diurnal", "mean", self.mean)
        _load("diurnal", "amplitude", self.amplitude)
        _above_zero("diurnal", "period_s", self.period_s)
        _above_zero("diurnal", "grain_s", self.grain_s)
        if not (math.isfinite(self.noise) and self.noise >= 0):
            raise NodeInputError(f"diurnal load: noise is {self.noise}, expected a standard deviation from 0")

    def sample(self, times: FloatArray) -> FloatArray:
        """Loads at these times (from 0)."""
        wave = self.mean + self.amplitude * np.sin(2.0 * math.pi * (times / self.period_s + self.phase))
        if self.noise == 0 or times.size == 0:
            return wave
        points = math.floor(float(times.max()) / self.grain_s) + 2
        knots = np.random.default_rng(self.seed).standard_normal(points)
        return wave * (1.0 + self.noise * np.interp(times / self.grain_s, np.arange(points), knots))


@dataclass(frozen=True)
class Bursty:
    """Two states, `low` and `high`, that last `low_s` and `high_s` on average (exponential): a Markov-modulated load.

    It begins in the state that it is in at a random moment.
    """

    low: float
    high: float
    low_s: float
    high_s: float
    seed: int = 0

    def __post_init__(self) -> None:
        _load("bursty", "low", self.low)
        _load("bursty", "high", self.high)
        _above_zero("bursty", "low_s", self.low_s)
        _above_zero("bursty", "high_s", self.high_s)

    def sample(self, times: FloatArray) -> FloatArray:
        """Loads at these times (from 0)."""
        if times.size == 0:
            return np.zeros(times.shape)
        rng = np.random.default_rng(self.seed)
        begins_high = bool(rng.random() < self.high_s / (self.low_s + self.high_s))
        stays = np.tile([self.high_s, self.low_s] if begins_high else [self.low_s, self.high_s], _CHUNK // 2)
        ends: list[FloatArray] = []
        reached = 0.0
        while reached <= float(times.max()):
            ends.append(reached + np.cumsum(rng.standard_exponential(_CHUNK) * stays))
            reached = float(ends[-1][-1])
        switches = np.searchsorted(np.concatenate(ends), times, side="right")
        return np.where((switches % 2 == 0) == begins_high, self.high, self.low)


Trace: TypeAlias = Constant | Steps | Diurnal | Bursty


def sample(trace: Trace, times: ArrayLike) -> FloatArray:
    """Loads of a trace at many times at once; the same shape as `times`, all from 0 to MAX_LOAD."""
    at = np.asarray(times, np.float64)
    if not (np.isfinite(at).all() and (at >= 0).all()):
        raise NodeInputError("times of a load trace must be finite numbers of seconds from 0")
    return np.clip(trace.sample(at), 0.0, MAX_LOAD)


def loads_at(trace: Trace, t: float) -> float:
    """The load of a trace at one time."""
    return float(sample(trace, np.array([t]))[0])


@dataclass(frozen=True)
class Stay:
    """One service is there from `start_s` until just before `end_s` (None: for ever), under its own load.

    The trace counts from its arrival.
    """

    service: str
    trace: Trace
    start_s: float = 0.0
    end_s: float | None = None

    def __post_init__(self) -> None:
        end = math.inf if self.end_s is None else self.end_s
        if not 0 <= self.start_s < end:
            raise NodeInputError(
                f"'{self.service}' runs from {self.start_s} s to {end} s, expected a start from 0 and a later end"
            )


@dataclass(frozen=True)
class Churn:
    """A script of services that come and go. One service can come several times, never twice at a time."""

    stays: tuple[Stay, ...]

    def __post_init__(self) -> None:
        latest: dict[str, float] = {}
        for stay in sorted(self.stays, key=lambda stay: stay.start_s):
            if stay.start_s < latest.get(stay.service, 0.0):
                raise NodeInputError(f"'{stay.service}' arrives at {stay.start_s} s while it still runs")
            latest[stay.service] = math.inf if stay.end_s is None else stay.end_s

    @property
    def services(self) -> list[str]:
        """All services of the script, in the order of their first arrival."""
        return list(dict.fromkeys(stay.service for stay in sorted(self.stays, key=lambda stay: stay.start_s)))

    def at(self, t: float) -> Mapping[str, float]:
        """Loads of the services that are there at one time."""
        found = self.sample(np.array([t]))
        return {name: float(loads[0]) for name, loads in found.items() if not math.isnan(loads[0])}

    def sample(self, times: ArrayLike) -> dict[str, FloatArray]:
        """Loads of every service of the script at many times; NaN where it is not there."""
        at = np.asarray(times, np.float64)
        found = {name: np.full(at.shape, np.nan) for name in self.services}
        for stay in self.stays:
            there = (at >= stay.start_s) & (at < (math.inf if stay.end_s is None else stay.end_s))
            found[stay.service][there] = sample(stay.trace, at[there] - stay.start_s)
        return found


TRACE_KINDS = ("constant", "step", "diurnal", "bursty")


def random_trace(kind: str, rng: np.random.Generator, low: float, high: float, horizon_s: float) -> Trace:
    """A trace of one of TRACE_KINDS whose loads (but for a little noise) lie between `low` and `high`."""
    a, b = sorted(float(x) for x in rng.uniform(low, high, 2))
    at, seed = float(rng.uniform(0.1, 0.9)), int(rng.integers(2**63))
    if kind == "constant":
        return Constant(a + (b - a) * at)
    if kind == "step":
        first, then = (a, b) if seed % 2 else (b, a)
        return Steps(first, ((at * horizon_s, then),))
    if kind == "diurnal":
        period = horizon_s * float(rng.uniform(0.5, 1.5))
        return Diurnal((a + b) / 2.0, (b - a) / 2.0, period, at, 0.02, seed=seed)
    if kind == "bursty":
        return Bursty(a, b, horizon_s * 0.2, horizon_s * 0.1, seed)
    raise NodeInputError(f"trace is '{kind}', expected one of {', '.join(TRACE_KINDS)}")
