"""Rows of a service that nobody has confined yet: what a scheduler sees in the first interval after its arrival.

Half of them with everybody on all cores and ways, as on a node before its first decision; in the other half the
neighbours have parts of their own and the newcomer runs everywhere, as where a service comes to a managed node. Their
allocations overlap, so they are no cells of the run's surface, but they have its labels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from osml.base.jit import compiled
from osml.simulator import columns as c
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.fleet import measure as m
from osml.simulator.fleet.noise import Streams
from osml.simulator.physics.fixed_point import Work, empty_work
from osml.simulator.physics.step import step_node

if TYPE_CHECKING:
    from osml.simulator.state import Node
    from osml_training.collect.sweep import Run, Sweep

INTERVALS = 12
"""After the start, one after the other: a backlog grows meanwhile. Each is read again and again, with other noise."""


class Unconfined(NamedTuple):
    """`own` (rows, MEASURED_COLUMNS), `beside_gbps` (rows,), `others` (rows, 2): cores and ways of the neighbours."""

    own: FloatArray
    beside_gbps: FloatArray
    others: IntArray


@compiled
def _observe(
    platform: FloatArray,
    tenants: FloatArray,
    tables: FloatArray,
    grants: FloatArray,
    users: IntArray,
    masks: IntArray,
    arrivals: FloatArray,
    interval_s: float,
    intervals: int,
    noise: bool,
    streams: Streams,
    state: FloatArray,
    occupancy: FloatArray,
    flows: FloatArray,
    measured: FloatArray,
    work: Work,
    own: FloatArray,
    beside: FloatArray,
) -> None:
    """Fill `own` and `beside` from an idle node on: row k is interval k % intervals."""
    c.make_idle(platform, state)
    occupancy[:, :] = 0.0
    n, rows = len(tenants), len(own)
    for interval in range(min(intervals, rows)):
        step_node(platform, tenants, tables, grants, users, masks, arrivals, interval_s, state, occupancy, flows, work)
        for row in range(interval, rows, intervals):
            total = 0.0
            for i in range(n):
                m.measure_tenant(flows, i, tenants[i, c.T_LC] > 0.0, interval_s, noise, streams, measured, 0, i)
                if i > 0:
                    total += measured[0, i, m.M_BANDWIDTH_GBPS]
            own[row, :] = measured[0, 0, :]
            beside[row] = total


def unconfined(run: Run, sweep: Sweep, node: Node) -> Unconfined:
    """`sweep.unconfined` rows of a run with neighbours; the same run and sweep give the same numbers."""
    n, platform = len(node.tenants), node.platform
    loads = [run.load, *(load for _, load in run.beside), *(0.0 for _ in run.jobs)]
    rates = [s.max_load for s in node.services] + [0.0] * len(node.jobs)
    order = platform.cpu_order()
    rng = np.random.default_rng(run.seed)
    everything = (1 << platform.ways) - 1
    streams = np.array([run.seed ^ 1], np.uint64)
    parts: list[Unconfined] = []
    first = sweep.unconfined - sweep.unconfined // 2
    for rows, parted in ((first, False), (sweep.unconfined - first, True)):
        users, masks = np.full(platform.cpus, (1 << n) - 1, np.int64), np.full(n, everything, np.int64)
        others = (platform.cpus, platform.ways)
        if parted:
            counts = [_parts(rng, total, run.neighbours) for total in (platform.cpus, platform.ways)]
            users[:], cpu, way = 1, 0, 0
            for i, (cores, ways) in enumerate(zip(*counts, strict=True), start=1):
                for k in order[cpu : cpu + cores]:
                    users[k] |= 1 << i
                masks[i] = ((1 << ways) - 1) << way
                cpu, way = cpu + cores, way + ways
            others = (cpu, way)
        own, beside = np.empty((rows, m.MEASURED_COLUMNS)), np.empty(rows)
        _observe(
            node.platform_row,
            node.tenant_rows,
            node.tables,
            c.no_limits(n, node.platform_row),
            users,
            masks,
            np.array(loads) * np.array(rates),
            sweep.interval_s,
            INTERVALS,
            sweep.noise,
            streams,
            np.empty((n, c.STATE_COLUMNS)),
            np.empty((n, platform.ways)),
            np.empty((n, c.FLOW_COLUMNS)),
            np.empty((1, n, m.MEASURED_COLUMNS)),
            empty_work(n, platform.ways, platform.cpus),
            own,
            beside,
        )
        parts.append(Unconfined(own, beside, np.tile(np.array(others, np.int64), (rows, 1))))
    return Unconfined(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _parts(rng: np.random.Generator, total: int, neighbours: int) -> list[int]:
    """One for each neighbour, and of the rest what is drawn; a part of it stays idle."""
    drawn: list[float] = rng.dirichlet(np.full(neighbours + 1, 2.0)).tolist()
    return [1 + int((total - neighbours) * share) for share in drawn[:-1]]
