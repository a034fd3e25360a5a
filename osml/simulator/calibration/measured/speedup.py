"""Batch jobs over threads on hyperthreads: Amdahl's law with threads that get slower.

speedup(n) = 1/(serial + (1 - serial) w/n), where w is CPU time over that of one thread. The test leaves one number of
threads out and asks the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import NamedTuple

from osml.simulator.calibration.measured.batch import BatchConstants
from osml.simulator.calibration.measured.machines import Machine, Machines
from osml.simulator.calibration.measured.outcome import Pair, Test
from osml.simulator.calibration.measured.table import Columns, Row, is_context

COLUMNS = Columns(positive=("speedup", "cpu_time_ratio"), whole=("threads",), texts=("repo", "vm", "program"))

_MOST_EXTRA = 0.2
_MOST_SERIAL = 0.5
_USUAL_BESIDE = 1.6
_LEAST_BESIDE = 0.5


class Scaling(NamedTuple):
    """A program: its serial share, the cost of each further thread, and its slowdown beside itself on a sibling."""

    serial: float
    extra: float
    beside: float


class Point(NamedTuple):
    """Medians at one number of threads."""

    speedup: float
    cpu_time_ratio: float


def work(s: Scaling, threads: int, cores: int) -> float:
    """CPU time over that with one thread."""
    both = 2.0 * (threads - cores) / threads if threads > cores else 0.0
    return (1.0 + s.extra * (min(threads, cores) - 1)) * (1.0 + (s.beside - 1.0) * min(both, 1.0))


def speedup(s: Scaling, threads: int, cores: int) -> float:
    """How many times faster than with one thread."""
    return 1.0 / (s.serial + (1.0 - s.serial) * work(s, threads, cores) / threads)


def scaling_of(points: Mapping[int, Point], cores: int, beside: float | None = None) -> Scaling:
    """From the numbers of threads that are known. `beside` says what no point with more threads than cores does."""
    few = [n for n in points if 1 < n <= cores]
    extra = min(max(mean((points[n].cpu_time_ratio - 1.0) / (n - 1) for n in few), 0.0), _MOST_EXTRA) if few else 0.0
    part = Scaling(0.0, extra, 1.0)
    serial = [(1.0 / points[n].speedup - work(part, n, cores) / n) / (1.0 - work(part, n, cores) / n) for n in few]
    more = [n for n in points if n > cores]
    if beside is None:
        n = max(more, default=0)
        both = min(2.0 * (n - cores) / n, 1.0) if more else 1.0
        beside = 1.0 + (points[n].cpu_time_ratio / work(part, n, cores) - 1.0) / both if more else _USUAL_BESIDE
    beside = max(beside, _LEAST_BESIDE)
    return Scaling(min(max(mean(serial), 0.0), _MOST_SERIAL) if serial else 0.0, extra, beside)


def appetite_of(rows: Sequence[Row], c: BatchConstants) -> dict[str, float]:
    """Appetite of each program from its runs with 8 threads on 8 CPUs: CPU time over that with 4 threads."""
    groups: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in rows:
        groups[row["program"], int(row["threads"])].append(row["cpu_time_ratio"])
    both = {program for program, n in groups if n == 8 and (program, 4) in groups}
    more = {program: median(groups[program, 8]) / median(groups[program, 4]) - 1.0 for program in sorted(both)}
    return {program: min(max(own / c.beside_itself, 0.1), 1.2) for program, own in more.items()}


def tests(rows: Sequence[Row], machines: Machines, appetite: Mapping[str, float]) -> list[Test]:
    """More threads than cores from fewer, and fewer from the rest. `appetite`: of programs beside antagonists.

    Rows that are only context (table.py) are read, but not compared.
    """
    c = BatchConstants()
    groups: dict[tuple[str, str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        groups[row["repo"], row["vm"], row["program"]][int(row["threads"])].append(row)
    few: list[Pair] = []
    many: list[Pair] = []
    for (repo, vm, program), by in sorted(groups.items()):
        points = {
            n: Point(*(median(row[name] for row in own) for name in ("speedup", "cpu_time_ratio")))
            for n, own in by.items()
        }
        if len(points) < 3:
            continue
        machine: Machine = machines.of(vm, next(iter(by.values()))[0])
        cores = max(machine.cpus // 2, 1) if machine.siblings else machine.cpus
        for n, point in sorted(points.items()):
            if n == 1 or is_context(by[n][0]):
                continue
            rest = {m: own for m, own in points.items() if m != n and (m <= cores or n <= cores)}
            beside = 1.0 + c.beside_itself * appetite.get(program, 0.7) if n > cores else None
            pair = Pair(
                f"{repo} {vm} {program} threads={n}",
                point.speedup,
                speedup(scaling_of(rest, cores, beside), n, cores),
                float(n),
            )
            (many if n > cores else few).append(pair)
    note = "Serial share and cost of threads come from the other rows of the same program and machine."
    linear = "as many times faster as threads"
    return [
        Test("batch: speed-up with more threads than cores", "times", "factor", 1.3, many, linear, None, note),
        Test("batch: speed-up with 2 to 4 threads", "times", "factor", 1.3, few, linear, None, note),
    ]
