"""The kindest environment of a partition: the shortest service times that clock, memory and cache can leave to all.

Isolated services meet in the clock (the power of all), the memory (the traffic of all), the ports of the cache (the
accesses of all) and in physical cores that two of them share. What each of them asks of the node at least makes a bound
of all four, in closed form, with the equations of osml.simulator.physics.fixed_point.
"""

from __future__ import annotations

from typing import NamedTuple

from osml.base.jit import compiled, lean
from osml.simulator import columns as c
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.physics.cpu import CALMED, frequency_ghz
from osml.simulator.physics.memory import M_BUSY, M_OPEN, rise, utilisation

_ROUNDS = 12
_CLOSE = 1e-5


class Demands(NamedTuple):
    """What tenants ask of the node at least; axes of cores and ways begin at one of them.

    A request of service i takes compute[i, cores]/GHz + stall[i, cores] (misses[i, ways] L + W) seconds, L and W the ns
    of an access to the memory and of the wait for the cache. Requests come at `rates` per s and keep at most `most`
    (services, cores) CPUs busy; the share `paired` (cores) of these has its sibling in the same service. They move
    `traffic` and read `reads` GB/s, (services, cores, ways). BE jobs together draw `job_power` (cores), each runs
    `job_cpus` (cores, jobs) with the memory behaviour `jobs` (ways, jobs, TRAFFIC_COLUMNS). `rows` (tenants,
    TRAFFIC_COLUMNS), `siblings`, `busy` and `beside` (services + 1) are room for the work.
    """

    platform: FloatArray
    compute: FloatArray
    stall: FloatArray
    misses: FloatArray
    rates: FloatArray
    most: FloatArray
    paired: FloatArray
    traffic: FloatArray
    reads: FloatArray
    power: FloatArray
    job_power: FloatArray
    job_cpus: FloatArray
    jobs: FloatArray
    rows: FloatArray
    siblings: FloatArray
    busy: FloatArray
    beside: IntArray


@lean
def pair_off(d: Demands, cells: IntArray, n_rows: int) -> bool:
    """Fill `d.beside` with the row that stands on the other thread of a row's odd CPU, -1 where nobody does.

    osml.layout puts the odd CPUs of neighbouring rows together, as far as idle threads don't stand beside them. False
    where it pairs them in another order, and nothing is known.
    """
    idle, odd = float(d.most.shape[1]), 0
    for i in range(n_rows):
        d.beside[i] = -1
        idle -= cells[i, 0]
        odd += cells[i, 0] % 2
    if d.paired[1] == 0.0:
        return True
    if odd > 6:  # layout pairs so many in another order: no statement about them
        return False
    waiting = -1
    for i in range(n_rows):
        if cells[i, 0] % 2 == 0:
            continue
        if waiting >= 0:
            d.beside[i], d.beside[waiting] = waiting, i
            waiting = -1
        elif odd >= idle + 2:
            waiting = i
            odd -= 2
    return True


@lean
def _beside(d: Demands, cells: IntArray, i: int) -> float:
    """Share of a row's running time in which the sibling of its CPU is busy too."""
    pairs = d.paired[cells[i, 0] - 1] * cells[i, 0] / 2.0
    running = d.busy[i] * cells[i, 0]
    overlap = 2.0 * max(0.0, running - (cells[i, 0] - pairs)) / max(running, 1e-9)  # idle cores first, without chance
    return overlap + (d.busy[d.beside[i]] / cells[i, 0] if d.beside[i] >= 0 else 0.0)


@lean
def _fewest(d: Demands, cells: IntArray, i: int) -> float:
    """The least cores that one busy CPU of a row counts for where the clock is concerned: siblings share theirs."""
    odd = cells[i, 0] % 2 if d.paired[1] > 0.0 else 0
    return 1.0 - 0.5 * min(d.paired[cells[i, 0] - 1] + odd / cells[i, 0], 1.0)


@lean
def kindest(d: Demands, cells: IntArray, apart: bool, times_s: FloatArray) -> None:
    """Fill `times_s` with the least service time of each service on its row (cores, ways) of `cells`.

    The last row of `cells` is that of the BE jobs, where there are any. `apart`: as if no two shared a physical core.
    """
    n, n_jobs, p, rows, siblings = len(d.rates), d.jobs.shape[1], d.platform, d.rows, d.siblings
    n_rows = n + (1 if n_jobs else 0)
    reads, drawn = 0.0, 0.0
    for i in range(n):
        cores, way = cells[i, 0] - 1, cells[i, 1] - 1
        rows[i, M_OPEN] = d.traffic[i, cores, way]
        reads += d.reads[i, cores, way]
        d.busy[i], d.beside[i], siblings[i] = 0.0, -1, 0.0
    if n_jobs:
        cores, way = cells[n, 0] - 1, cells[n, 1] - 1
        drawn, running = d.job_power[cores], 0.0
        for k in range(n_jobs):
            for m in range(rows.shape[1]):
                rows[n + k, m] = d.jobs[way, k, m]
            rows[n + k, M_BUSY] = d.job_cpus[cores, k]
            running += d.job_cpus[cores, k]
        d.busy[n] = running / cells[n, 0]
    if not apart:
        pair_off(d, cells, n_rows)
    a, b = p[c.P_RISE], p[c.P_POWER]
    latency_ns = p[c.P_LATENCY] * rise(a, b, utilisation(rows, p[c.P_BANDWIDTH], p[c.P_LATENCY], a, b, 0.0))
    wait_ns = p[c.P_LLC_LATENCY] * (rise(a, b, reads / p[c.P_LLC_GBPS]) - 1.0)
    slowed = 1.0 + (1.0 / p[c.P_SMT_SPEED] - 1.0) * (1.0 - CALMED)  # by siblings that only wait for the memory
    clock = p[c.P_TURBO]
    for _ in range(_ROUNDS):  # from the best downwards: each round is a bound
        moved = 0.0
        for i in range(n):
            cores, way = cells[i, 0], cells[i, 1] - 1
            speed = clock * (1.0 - (1.0 - 1.0 / slowed) * siblings[i])
            stalled = d.stall[i, cores - 1] * (d.misses[i, way] * latency_ns + wait_ns)
            times_s[i] = d.compute[i, cores - 1] / speed + stalled
            d.busy[i] = min(d.rates[i] * times_s[i], d.most[i, cores - 1]) / cores
        power = float(drawn) * _fewest(d, cells, n) if n_jobs else 0.0
        for i in range(n):
            power += d.busy[i] * cells[i, 0] * d.power[i] * _fewest(d, cells, i)
            overlap = _beside(d, cells, i)
            moved = max(moved, abs(overlap - siblings[i]))
            siblings[i] = overlap
        before = clock
        clock = frequency_ghz(p[c.P_CLOCK], p[c.P_ALL_CORE], p[c.P_TURBO], p[c.P_CORES], power)
        if max(moved, before - clock) < _CLOSE:
            break


@compiled
def times_of(d: Demands, partitions: IntArray, apart: bool, found: FloatArray) -> None:
    """The least service times in s of many partitions (partitions, rows, 2), into `found` (partitions, services)."""
    for k in range(len(partitions)):
        kindest(d, partitions[k], apart, found[k])
