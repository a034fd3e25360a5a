"""Loads that change: steps, ramps and bursts, alone, beside a job, and on other machines (no paper has it)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from osml.lab.bench.report.document import Section, Table
from osml.lab.bench.report.statistics import mean
from osml.lab.bench.results import Results
from osml.lab.bench.scenario import Scenario
from osml.lab.bench.suite import Suite
from osml.lab.bench.suites.osml_302 import FRESH, PLATFORM, SERVICES
from osml.simulator.load_traces import Steps
from osml.simulator.mix import Mix

ALONE, BESIDE, MACHINES = "alone", "beside-a-job", "other-machines"
FRESH_PARTS = f"{FRESH}-"
"""Begins the names of parts with which no rule of `osml` was chosen."""

JOBS = ("stream", "fluidanimate", "streamcluster", "kmeans")
OTHERS = ("e5-2630v4", "e5-2699v4", "gold-6240m", "gold-5220r", "gold-6338")
_EACH, _SEED, _FRESH_SEED = 30, 28, 1028
_LIMIT_S, _SETTLE_S = 240.0, 30.0
_LOW, _HIGH, _HIGH_BESIDE = 0.05, 0.65, 0.4
"""Shares of max load. The peaks of three services seldom come together, so most moments are feasible."""


def _constant(rng: np.random.Generator, low: float, high: float) -> Steps:
    return Steps(_between(rng, low, high), ())


def _steps(rng: np.random.Generator, low: float, high: float) -> Steps:
    """Another load at three to six random times."""
    times = sorted({round(float(at)) for at in rng.uniform(_SETTLE_S, _LIMIT_S, int(rng.integers(3, 7)))})
    return Steps(_between(rng, low, high), tuple((float(at), _between(rng, low, high)) for at in times))


def _ramp(rng: np.random.Generator, low: float, high: float) -> Steps:
    """Up in ten small steps, a while there, and down again."""
    least, most = sorted((_between(rng, low, high), _between(rng, low, high)))
    begin, pace_s, stay_s = float(rng.integers(20, 60)), float(rng.integers(3, 9)), float(rng.integers(10, 60))
    levels = [least + (most - least) * step / 10.0 for step in range(11)]
    up = [(begin + pace_s * step, level) for step, level in enumerate(levels[1:])]
    top = up[-1][0] + stay_s
    down = [(top + pace_s * step, level) for step, level in enumerate(reversed(levels[:-1]))]
    return Steps(least, tuple((at, round(level, 3)) for at, level in up + down))


def _bursts(rng: np.random.Generator, low: float, high: float) -> Steps:
    """Up and down again, three to five times; a burst lasts from 5 to 25 s."""
    usual, peak = sorted((_between(rng, low, high), _between(rng, low, high)))
    changes: list[tuple[float, float]] = []
    at = float(rng.integers(15, 40))
    for _ in range(int(rng.integers(3, 6))):
        lasts = float(rng.integers(5, 26))
        changes += [(at, peak), (at + lasts, usual)]
        at += lasts + float(rng.integers(10, 50))
    return Steps(usual, tuple(changes))


_KINDS: tuple[Callable[[np.random.Generator, float, float], Steps], ...] = (_constant, _steps, _ramp, _bursts)


def _between(rng: np.random.Generator, low: float, high: float) -> float:
    return round(float(rng.uniform(low, high)), 2)


def _scenario(part: str, rng: np.random.Generator, platform: str, job: str | None) -> Scenario:
    """Three services; one of them changes at least."""
    names = sorted(str(name) for name in rng.choice(SERVICES, 3, replace=False))
    kinds = [0, 0, 0]
    while not any(kinds):
        kinds = [int(kind) for kind in rng.integers(0, len(_KINDS), 3)]
    high = _HIGH if job is None else _HIGH_BESIDE
    traces = {name: _KINDS[kind](rng, _LOW, high) for name, kind in zip(names, kinds, strict=True)}
    mix = Mix({name: trace.first for name, trace in traces.items()}, () if job is None else (job,))
    return Scenario(
        "osml-changes", part, mix, platform, limit_s=_LIMIT_S, settle_s=_SETTLE_S, whole=True, traces=traces
    )


def _part(part: str, seed: int, prefix: str = "") -> list[Scenario]:
    rng = np.random.default_rng([seed, len(part)])
    found: list[Scenario] = []
    for number in range(_EACH):
        beside = part == BESIDE or (part == MACHINES and number % 2 == 1)
        platform = OTHERS[number // 2 % len(OTHERS)] if part == MACHINES else PLATFORM
        found.append(_scenario(prefix + part, rng, platform, JOBS[number // 2 % len(JOBS)] if beside else None))
    return found


def scenarios() -> list[Scenario]:
    """Each part, and each drawn once more for the headline alone."""
    parts = (ALONE, BESIDE, MACHINES)
    return [one for part in parts for one in _part(part, _SEED)] + [
        one for part in parts for one in _part(part, _FRESH_SEED, FRESH_PARTS)
    ]


def sections(results: Results) -> list[Section]:
    """Missed targets, E_S and resources, part by part."""
    heads = ["policy", "targets missed", "intervals with a miss", "E_S", "logical CPUs", "ways", "changes"]
    found: list[Section] = []
    for part in results.parts:
        rows: list[list[str]] = []
        for policy in results.policies:
            group = results.of(part, policy)
            means = [
                mean([row[column] for row in group]).value
                for column in ("target_missed_share", "missed_share", "e_s", "cores_used", "ways_used", "actions_total")
            ]
            forms = (".1%", ".1%", ".3f", ".1f", ".1f", ".0f")
            rows.append([policy, *(f"{value:{form}}" for value, form in zip(means, forms, strict=True))])
        found.append(Section(f"Loads that change: {part}", tables=[Table(heads, rows, "means over the runs")]))
    return found


SUITE = Suite(
    "osml-changes",
    "Loads that change: steps, ramps and bursts",
    "no paper",
    "osml",
    ("unmanaged", "staffing", "staffing:climb", "arq", "parties", "osml:formula", "osml"),
    scenarios,
    sections,
    seeds=1,
)
