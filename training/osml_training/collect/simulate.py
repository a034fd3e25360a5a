"""One run on the virtual node: every cell settles, then its monitor reads it, with the noise of finite samples."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.jit import compiled
from osml.simulator import catalogs
from osml.simulator import columns as c
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.fleet import measure as m
from osml.simulator.fleet.noise import Streams
from osml.simulator.models import on_platform
from osml.simulator.physics.fixed_point import Work, empty_work
from osml.simulator.physics.step import step_node
from osml.simulator.state import Node
from osml.simulator.steady import settle_node
from osml_training.collect.sweep import Run, Sweep
from osml_training.collect.variants import platform_of, service_of

Floats = NDArray[np.float64]


class Measured(NamedTuple):
    """What a run gave; the first axes are (cores, ways), index 0 is one of each.

    `own` is (cores, ways, samples, MEASURED_COLUMNS), `beside_gbps` (cores, ways, samples) the traffic of all others.
    `others` (cores, ways, 2) are the cores and ways that the neighbours have together.
    """

    own: Floats
    beside_gbps: Floats
    others: IntArray


def splits(total: int, shares: tuple[float, ...], neighbours: int) -> IntArray:
    """What each neighbour gets when the service has 1, 2, ... of `total`: (total - neighbours, neighbours).

    Everybody has one; the rest goes by `shares`, largest remainder first, and the last share stays idle.
    """
    own = np.arange(1, total - neighbours + 1)
    if neighbours == 0:
        return np.zeros((len(own), 0), np.int64)
    spare = (total - neighbours - own)[:, None]  # (own, 1)
    exact = spare * np.array(shares) / sum(shares)  # (own, neighbours + 1)
    given = np.floor(exact + 1e-9).astype(np.int64)
    order = np.argsort(-(exact - given), axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    given += rank < (spare - given.sum(1, keepdims=True))
    return 1 + given[:, :-1]


@compiled
def _sweep(
    platform: FloatArray,
    tenants: FloatArray,
    tables: FloatArray,
    grants: FloatArray,
    order: IntArray,
    cores: IntArray,
    ways: IntArray,
    arrivals: FloatArray,
    warmup_s: float,
    interval_s: float,
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
    """Fill `own` and `beside`; `cores` (rows, neighbours) and `ways` (columns, neighbours) are what the others have."""
    n = len(tenants)
    users, masks = np.zeros(len(order), np.int64), np.zeros(n, np.int64)
    for row in range(own.shape[0]):
        users[:] = 0
        cpu = 0
        for i in range(n):
            wanted = row + 1 if i == 0 else cores[row, i - 1]
            for _ in range(wanted):
                users[order[cpu]] = 1 << i
                cpu += 1
        for column in range(own.shape[1]):
            way = 0
            for i in range(n):
                width = column + 1 if i == 0 else ways[column, i - 1]
                masks[i] = ((1 << width) - 1) << way
                way += width
            settle_node(
                platform, tenants, tables, grants, users, masks, arrivals, warmup_s, state, occupancy, flows, work
            )
            for sample in range(own.shape[2]):
                step_node(
                    platform, tenants, tables, grants, users, masks, arrivals, interval_s, state, occupancy, flows, work
                )
                total = 0.0
                for i in range(n):
                    m.measure_tenant(flows, i, tenants[i, c.T_LC] > 0.0, interval_s, noise, streams, measured, 0, i)
                    if i > 0:
                        total += measured[0, i, m.M_BANDWIDTH_GBPS]
                own[row, column, sample, :] = measured[0, 0, :]
                beside[row, column, sample] = total


def node_of_run(run: Run) -> Node:
    """The node with the service in front, its threads as the run has them, and its neighbours."""
    platform = platform_of(run.platform)
    service = replace(service_of(run.service, run.platform), threads=run.threads)
    beside = [service_of(name, run.platform) for name, _ in run.beside]
    jobs = [on_platform(catalogs.job(name), platform) for name in run.jobs]
    return Node(platform, (service, *beside), tuple(jobs))


def simulate(run: Run, sweep: Sweep) -> Measured:
    """Measure all cells of a run; the same run and sweep give the same numbers."""
    node = node_of_run(run)
    n, platform = len(node.tenants), node.platform
    rows, columns = run.grid()
    cores = splits(platform.cpus, run.shares, run.neighbours)
    ways = splits(platform.ways, run.shares, run.neighbours)
    loads = [run.load, *(load for _, load in run.beside), *(0.0 for _ in run.jobs)]
    rates = [s.max_load for s in node.services] + [0.0] * len(node.jobs)
    own = np.empty((rows, columns, sweep.samples, m.MEASURED_COLUMNS))
    beside = np.empty((rows, columns, sweep.samples))
    _sweep(
        node.platform_row,
        node.tenant_rows,
        node.tables,
        c.no_limits(n, node.platform_row),
        np.array(platform.cpu_order(), np.int64),
        cores,
        ways,
        np.array(loads) * np.array(rates),
        sweep.warmup_s,
        sweep.interval_s,
        sweep.noise,
        np.array([run.seed], np.uint64),
        np.empty((n, c.STATE_COLUMNS)),
        np.empty((n, platform.ways)),
        np.empty((n, c.FLOW_COLUMNS)),
        np.empty((1, n, m.MEASURED_COLUMNS)),
        empty_work(n, platform.ways, platform.cpus),
        own,
        beside,
    )
    others = np.empty((rows, columns, 2), np.int64)
    others[:, :, 0], others[:, :, 1] = cores.sum(1)[:, None], ways.sum(1)[None, :]
    return Measured(own, beside, others)


def compile_all() -> None:
    """Run what is compiled once, on the smallest machine: seconds at the first start after a change, else nothing."""
    sweep = Sweep(("i7-4770k",), ("moses",), (), samples=1)
    simulate(Run("i7-4770k", "moses", 1, 0.1, (), (), (), 0), sweep)
