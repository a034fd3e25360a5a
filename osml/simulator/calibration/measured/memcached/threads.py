"""A service pinned to its own CPUs with nothing beside it: threads and CPUs against throughput and p95.

Threads beyond the CPUs cost neither throughput nor p95 below u = 0.9; at saturation each of them adds a turn. Rates are
in requests/ms, times in ms.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from osml.simulator.calibration.measured.machines import Machine, Machines
from osml.simulator.calibration.measured.memcached.alone import REACHED, by_target, queue_ms, saturated
from osml.simulator.calibration.measured.outcome import Pair, Test
from osml.simulator.calibration.measured.table import Row


@dataclass(frozen=True)
class ThreadConstants:
    """Fitted on the shipped rows of the sets part4 (n2d-highmem-4) unless another source is named."""

    contention: float = 0.307
    """m threads on m CPUs serve m/(1 + contention (m - 1)) times what one does: siblings, connections. Fitted."""
    contention_cores: float = 0.05
    """The same where CPUs are whole cores: a guess, no row has it."""
    spread: float = 0.8
    """The rise of p95 with utilisation falls with (threads at work)^spread. Fitted."""
    knee: float = 0.25
    """Queue near the knee in service times, as for a service beside an antagonist."""
    closed: float = 116.0
    """p95 x throughput at saturation of one thread: 68 requests on their way, p95 1.7 times the mean."""
    crowded_from: float = 0.94
    """Utilisation from which on threads that share a CPU are felt. Fitted."""
    full: float = 1.03
    """Load over capacity from which on the generator's closed loop is all there is. Read off the rows."""


class Single(NamedTuple):
    """One thread on one CPU: requests/ms at saturation, p95 = floor + rise x utilisation (ms)."""

    capacity: float = 77.3
    floor: float = 0.345
    rise: float = 0.26


_U_MAX = 0.97


def capacity(one: Single, threads: int, cpus: int, machine: Machine, c: ThreadConstants) -> float:
    """Requests/ms at saturation: threads beyond the CPUs neither help nor harm."""
    m = min(threads, cpus)
    contention = c.contention if machine.siblings else c.contention_cores
    return one.capacity * m / (1.0 + contention * (m - 1))


def p95(one: Single, threads: int, cpus: int, load: float, machine: Machine, c: ThreadConstants) -> float:
    """p95 in ms."""
    most, m = capacity(one, threads, cpus, machine, c), min(threads, cpus)
    u = min(load / most, _U_MAX)
    below = max(one.floor + one.rise * u / m**c.spread, 0.0) + queue_ms(1.0 / one.capacity, u, c.knee)
    # At saturation each CPU has `crowd` threads: a request waits a turn of each of the others, then for its own.
    crowd = max(threads / cpus, 1.0)
    full = (math.ceil(crowd) - 1.0) * machine.turn_ms + c.closed / most / crowd**2
    begins = _U_MAX if crowd == 1.0 else c.crowded_from
    part = min(max((load / most - begins) / (c.full - begins), 0.0), 1.0)
    return below * max(full / below, 1.0) ** part


def single(rows: Sequence[Row], c: ThreadConstants) -> Single | None:
    """One thread on one CPU, least squares of p95 over utilisation below 0.9; None where the rows don't show it."""
    mine = [row for row in rows if row["threads"] == 1.0 and row["cpus"] == 1.0]
    full = saturated(mine)
    if not full:
        return None
    top = median(full)
    points: list[tuple[float, float]] = []
    for load, cell in by_target(mine).items():
        if load < 0.9 * top:
            own = median(row["p95_us"] for row in cell) / 1000.0
            points.append((load / top, own - queue_ms(1.0 / top, load / top, c.knee)))
    if len(points) < 2:
        return None
    middle = [sum(point[k] for point in points) / len(points) for k in (0, 1)]
    spread = sum((u - middle[0]) ** 2 for u, _ in points)
    rise = sum((u - middle[0]) * (y - middle[1]) for u, y in points) / spread
    return Single(top, middle[1] - rise * middle[0], rise)


def _groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Rows without a neighbour of machines that ran more than one thread or one CPU."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["interference"] == "none":
            groups[row["repo"], row["vm"]].append(row)
    return {key: own for key, own in sorted(groups.items()) if any(max(r["threads"], r["cpus"]) > 1.0 for r in own)}


def tests(rows: Sequence[Row], machines: Machines, known: Sequence[Row] = ()) -> list[Test]:
    """p95 below the knee, and throughput and p95 at saturation, of all but one thread on one CPU.

    One thread on one CPU comes from the rows, else from the `known` rows of the machine, else from n2d-highmem-4.
    """
    c = ThreadConstants()
    below: list[Pair] = []
    throughput: list[Pair] = []
    full: list[Pair] = []
    for (repo, vm), mine in _groups(rows).items():
        same = [row for row in known if (row["repo"], row["vm"], row["interference"]) == (repo, vm, "none")]
        one = single(mine, c) or single(same, c) or Single()
        sets = sorted({(row["set"], int(row["threads"]), int(row["cpus"])) for row in mine})
        for name, threads, cpus in sets:
            if threads == cpus == 1:
                continue
            own = [r for r in mine if (r["set"], int(r["threads"]), int(r["cpus"])) == (name, threads, cpus)]
            machine, m = machines.of(vm, own[0]), min(threads, cpus)
            for load, runs in by_target(own).items():
                key = f"{repo} {vm} {name} threads={threads} cpus={cpus} {1000.0 * load:g}/s"
                qps, tail = (median(row[column] for row in runs) for column in ("qps", "p95_us"))
                ours = 1000.0 * p95(one, threads, cpus, load, machine, c)
                if qps >= REACHED * 1000.0 * load:
                    simple = 1000.0 * p95(one, 1, 1, load / m, machine, c)
                    below.append(Pair(key, tail, ours, simple))
                    continue
                most = min(load, capacity(one, threads, cpus, machine, c))
                throughput.append(Pair(key, qps, 1000.0 * most, 1000.0 * min(load, one.capacity * m)))
                full.append(Pair(key, tail, ours, 1000.0 * c.closed / one.capacity / m))
    note = "Three constants were fitted on the shipped rows of one machine."
    one_thread = "one thread at the load of each CPU"
    return [
        Test("threads: p95 below the knee", "us", "factor", 1.3, below, one_thread, None, note),
        Test("threads: throughput at saturation", "requests/s", "relative", 0.15, throughput, "CPUs x one", None, note),
        Test("threads: p95 at saturation", "us", "factor", 1.3, full, "closed loop of one thread/CPUs", None, note),
    ]
