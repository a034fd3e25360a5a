"""What tenants ask of a node at least: the tables that osml.simulator.oracle.environment works on."""

from __future__ import annotations

import numpy as np

from osml.simulator import columns as c
from osml.simulator.columns import FloatArray
from osml.simulator.models import JobModel, PlatformModel
from osml.simulator.oracle.environment import Demands
from osml.simulator.oracle.stand_ins import shares_of_jobs
from osml.simulator.physics.cache import miss_ratio
from osml.simulator.physics.memory import (
    M_BUSY,
    M_BYTES,
    M_CAP,
    M_COMPUTE,
    M_OPEN,
    M_STALL,
    MAX_UTILISATION,
    TRAFFIC_COLUMNS,
    rise,
)
from osml.simulator.state import Node

_MARGIN = 1e-3
"""Of a way: the engine lets go of what exceeds a footprint only in time."""


def demands(node: Node, rates: FloatArray, answered: bool) -> Demands:
    """The tables for a node whose services are asked for `rates` requests/s each, at least.

    `answered`: they answer all of these whatever the partition. Otherwise only what their CPUs allow at the slowest
    clock, with busy siblings and the longest waits counts as traffic.
    """
    platform, own = node.platform, node.tenant_rows[: len(node.services)]
    cores, ways = np.arange(1, platform.cpus + 1), np.arange(1, platform.ways + 1)

    def column(name: int) -> FloatArray:
        return own[:, name, None]

    switching = 1.0 + column(c.T_SWITCH_COST) * np.maximum(0.0, np.log2(column(c.T_THREADS) / cores))
    most = np.minimum(column(c.T_THREADS), cores)
    misses = np.array([[_missed(row, way * platform.way_mib, platform) for way in ways] for row in own])
    work = column(c.T_INSTRUCTIONS) * 1e-9
    accesses = work * column(c.T_APKI) / 1000.0
    compute, stall = work * column(c.T_CPI) * switching, accesses / column(c.T_MLP) * switching

    longest_ns, latency_ns = _longest_wait_ns(platform), platform.memory_latency_ns
    slow_ns = latency_ns * rise(platform.latency_rise, platform.latency_power, MAX_UTILISATION)
    slowest = compute / (platform.frequency_ghz * platform.smt_speed)
    slowest = slowest[:, :, None] + stall[:, :, None] * (misses[:, None, :] * slow_ns + longest_ns)
    served = np.broadcast_to(rates[:, None, None], slowest.shape)
    if not answered:
        served = np.minimum(served, most[:, :, None] * (1.0 - _MARGIN) / slowest)
    per_access = column(c.T_BYTES) * misses
    fastest = column(c.T_CPI) / platform.turbo_ghz + column(c.T_APKI) / 1000.0 / column(c.T_MLP) * misses * latency_ns
    moved_at_most = platform.cpus * float((column(c.T_APKI) / 1000.0 * per_access / fastest).max())
    moved_at_most += float((rates * own[:, c.T_DEVICE_KIB]).sum()) * 1024.0 / 1e9
    # Beyond saturation of the memory programs wait so long that they may read less than they are taken to.
    can_read = answered or (not node.jobs and moved_at_most < MAX_UTILISATION * float(node.platform_row[c.P_BANDWIDTH]))

    shares = np.array([shares_of_jobs(node.jobs, int(n)) for n in cores]).reshape(len(cores), len(node.jobs))
    jobs = np.array([[_job_row(job, int(way), platform) for job in node.jobs] for way in ways])
    rows = np.zeros((len(node.tenants), TRAFFIC_COLUMNS))
    rows[:, M_BUSY] = rows[:, M_CAP] = np.inf
    paired = cores // 2 * 2 / cores if platform.cpus > platform.physical_cores else np.zeros(len(cores))
    n = len(node.services)
    return Demands(
        platform=node.platform_row,
        compute=compute,
        stall=stall,
        misses=misses,
        rates=rates,
        most=most,
        paired=paired,
        traffic=served * (accesses * per_access)[:, None, :],
        reads=served * accesses[:, :, None] * 64.0 * float(can_read),
        power=own[:, c.T_POWER].copy(),
        job_power=shares @ np.array([job.memory.power for job in node.jobs]),
        job_cpus=shares,
        jobs=jobs.reshape(len(ways), len(node.jobs), TRAFFIC_COLUMNS),
        rows=rows,
        siblings=np.zeros(n),
        busy=np.zeros(n + 1),
        beside=np.zeros(n + 1, np.int64),
    )


def _missed(row: FloatArray, mib: float, platform: PlatformModel) -> float:
    held = min(mib, float(row[c.T_FOOTPRINT]) + _MARGIN * platform.way_mib)
    return miss_ratio(row[c.T_MISS_MIN], row[c.T_WORKING_SET], row[c.T_STEEPNESS], held)


def _longest_wait_ns(platform: PlatformModel) -> float:
    return platform.llc_latency_ns * (rise(platform.latency_rise, platform.latency_power, MAX_UTILISATION) - 1.0)


def _job_row(job: JobModel, ways: int, platform: PlatformModel) -> FloatArray:
    """The job at its slowest but for the memory: base clock, busy siblings, the longest wait for the cache."""
    m, row = job.memory, np.zeros(TRAFFIC_COLUMNS)
    missed = miss_ratio(m.miss_min, m.working_set_mib, m.steepness, ways * platform.way_mib)
    each = m.apki / 1000.0 * missed
    row[M_OPEN], row[M_CAP] = -1.0, np.inf
    row[M_BYTES], row[M_STALL] = each * m.bytes_per_miss, each / m.mlp
    waits = m.apki / 1000.0 * _longest_wait_ns(platform) / m.mlp
    row[M_COMPUTE] = m.cpi / (platform.frequency_ghz * platform.smt_speed) + waits
    return row
