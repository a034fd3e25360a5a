"""p95 and p99 of a service beside jobs on some of its CPUs, over load, shared CPUs and weight.

A request that wakes where a job runs preempts it, unless its thread has used more than its share lately. The share of
requests that wait is what the thread used over what it left to the job, each per weight. Whoever waits does so until
the job's slice has ended and the tick sees it. Rates are in requests/ms, times in ms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from osml.simulator.calibration.measured.machines import Machine, Machines
from osml.simulator.calibration.measured.memcached.turns import LEVELS, delayed, ends_of_turn
from osml.simulator.calibration.measured.outcome import Pair, Test
from osml.simulator.calibration.measured.table import Columns, Row

COLUMNS = Columns(
    positive=("qps",),
    numbers=("memcached_nice",),
    texts=("repo", "vm", "jobs"),
    optional=("intervals", "memcached_cpus", "job_cpus", "shared_cpus", "p50_us", "p95_us", "p99_us"),
)

NICE_WEIGHT = 1.25
"""One step of nice is 10 % of a CPU, so weights differ by 1.25 (`kernel/sched/core.c`, weight 1024 at nice 0)."""

_LEAST_INTERVALS = 5
_LEAST_BASE = 20
_BIN = 20.0  # requests/ms
_WHOLE = 0.2  # means over an interval this near to a whole number of CPUs count as one


@dataclass(frozen=True)
class ColocationConstants:
    """Fitted on the shipped intervals (n2d-highmem-4, EEVDF) unless another source is named."""

    service_ms: float = 0.0155
    """CPU time of a request. Fitted."""
    floor_ms: float = 0.13
    """Time in the network, which no job makes longer: the least p5 of the same machine."""
    sibling: float = 0.56
    """Slowdown of the service for each full share of CPUs with jobs, less 1. Fitted."""
    sibling_core: float = 0.08
    """The same where CPUs are whole cores: a guess, no row has it."""
    power: float = 2.0
    """1 would be a blind choice of CPUs; 2 says that the scheduler looks for an idle one first. Fitted."""
    weight_power: float = 0.34
    """Of the weight; 1 would be ideal EEVDF. Fitted, not explained."""
    turns: float = 2.0
    """Turns of others that a request of equal weight waits for. Fitted."""
    job_threads: float = 2.0
    """Running threads of all jobs: more shared CPUs than that change nothing. Guessed from busy_cpus."""


class Base(NamedTuple):
    """Quantiles in ms without jobs: intercept and slope over requests/ms."""

    p50: tuple[float, float] = (0.2386, -0.00004)
    p95: tuple[float, float] = (0.3216, 0.001107)
    p99: tuple[float, float] = (0.3481, 0.002178)

    def at(self, load: float) -> tuple[float, float, float]:
        """(p50, p95, p99) in ms."""
        (a, b), (c, d), (e, f) = self
        return a + b * load, c + d * load, e + f * load


class Cell(NamedTuple):
    """What an interval has in common with others of its kind."""

    nice: int
    cpus: int
    shared: int
    job_cpus: int
    load: int  # requests/ms, lower end of the bin


def _count(rows: Sequence[Row]) -> float:
    return sum(row["intervals"] or 1.0 for row in rows)


def _known(row: Row) -> bool:
    return all(row[name] is not None for name in COLUMNS.optional if name not in ("intervals", "p50_us"))


def base_of(rows: Sequence[Row], machine: Machine) -> Base | None:
    """From the intervals without jobs and with the service on all CPUs; None where they are few."""
    mine = [row for row in rows if _known(row) and not row["jobs"] and row["shared_cpus"] == 0.0]
    mine = [row for row in mine if row["memcached_cpus"] > machine.cpus - 0.1 and row["p50_us"] and row["qps"] < 110e3]
    groups: dict[int, list[Row]] = defaultdict(list)
    for row in mine:
        groups[int(row["qps"] // 10000)].append(row)
    groups = {key: own for key, own in groups.items() if _count(own) >= 3}
    if _count(mine) < _LEAST_BASE or len(groups) < 2:
        return None
    lines: list[tuple[float, float]] = []
    for name in ("p50_us", "p95_us", "p99_us"):
        x, y = ([median(row[column] for row in own) / 1000.0 for own in groups.values()] for column in ("qps", name))
        slope, intercept = np.polyfit(x, y, 1)
        lines.append((float(intercept), float(slope)))
    return Base(*lines)


def quantile(base: Base, cell: Cell, load: float, level: float, machine: Machine, c: ColocationConstants) -> float:
    """A quantile of the response in ms."""
    jobs = min(float(cell.job_cpus), c.job_threads)
    both = min(float(cell.shared), jobs)
    slow = 1.0 + (c.sibling if machine.siblings else c.sibling_core) * jobs / machine.cpus
    used = min(load * c.service_ms * slow / cell.cpus, 0.95)
    weight = NICE_WEIGHT**-cell.nice
    share = min(both / cell.cpus * (used / (1.0 - used)) ** c.power / weight**c.weight_power, 1.0)
    seen = base.at(load * slow * machine.cpus / cell.cpus)  # the base has all CPUs: fewer see as much load each at less
    p50, p95, p99 = (c.floor_ms + slow * (own - c.floor_ms) for own in seen)
    curve = np.interp(LEVELS, [0.0, 0.05, 0.5, 0.95, 0.99, 1.0], [0.08, c.floor_ms, p50, p95, p99, 2.0 * p99])
    x, tail = ends_of_turn(machine)
    return delayed(curve, share, x * (1.0 + (c.turns - 1.0) / weight**c.weight_power), tail, level)


def bins(rows: Sequence[Row]) -> dict[Cell, list[Row]]:
    """Intervals of one kind, where there are at least five."""
    found: dict[Cell, list[Row]] = defaultdict(list)
    for row in rows:
        if not _known(row):
            continue
        cpus, shared, jobs = row["memcached_cpus"], row["shared_cpus"], row["job_cpus"]
        if max(abs(n - round(n)) for n in (cpus, shared, jobs)) > _WHOLE or round(cpus) < 1:
            continue
        load = int(row["qps"] / 1000.0 // _BIN * _BIN)
        nice = int(min(max(row["memcached_nice"], -20.0), 19.0))
        found[Cell(nice, round(cpus), round(shared), round(jobs), load)].append(row)
    return {cell: own for cell, own in sorted(found.items()) if _count(own) >= _LEAST_INTERVALS}


def tests(rows: Sequence[Row], machines: Machines, known: Sequence[Row] = ()) -> list[Test]:
    """p95 and p99 of every bin with jobs.

    The service without jobs comes from the rows, else from the `known` rows, else from n2d-highmem-4.
    """
    c = ColocationConstants()
    found: dict[str, list[tuple[int, Pair]]] = {"p95": [], "p99": []}
    for repo, vm in sorted({(row["repo"], row["vm"]) for row in rows}):
        mine = [row for row in rows if (row["repo"], row["vm"]) == (repo, vm)]
        machine = machines.of(vm, mine[0])
        same = [row for row in known if (row["repo"], row["vm"]) == (repo, vm)]
        base = base_of(mine, machine) or base_of(same, machine) or Base()
        for cell, own in bins(mine).items():
            if cell.job_cpus == 0:
                continue
            load = sum(row["qps"] * (row["intervals"] or 1.0) for row in own) / _count(own) / 1000.0
            kind = f"nice={cell.nice} cpus={cell.cpus} shared={cell.shared} jobs={cell.job_cpus}"
            key = f"{repo} {vm} {kind} {cell.load}k/s"
            for name, level in (("p95", 0.95), ("p99", 0.99)):
                ours = 1000.0 * quantile(base, cell, load, level, machine, c)
                found[name].append((cell.nice, Pair(key, median(row[f"{name}_us"] for row in own), ours)))
    note = "Five constants were fitted on all shipped intervals, and the form was chosen on them."
    simplest = "median of the other bins of the same nice"
    return [
        Test(f"colocation: {name} beside jobs", "us", "factor", 1.3, _with_median(pairs), simplest, None, note)
        for name, pairs in found.items()
    ]


def _with_median(pairs: Sequence[tuple[int, Pair]]) -> list[Pair]:
    out: list[Pair] = []
    for i, (nice, pair) in enumerate(pairs):
        others = [other.measured for j, (own, other) in enumerate(pairs) if own == nice and j != i]
        out.append(pair._replace(simplest=median(others) if others else None))
    return out
