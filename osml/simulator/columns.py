"""The node as arrays, one row a tenant: what the compiled step reads and writes. The names here are column numbers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from osml.base.jit import lean
from osml.simulator.models import JobModel, PlatformModel, ServiceModel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# -- platform: one row of float64 ------------------------------------------------------------------------------------
(
    P_CORES,
    P_CLOCK,
    P_ALL_CORE,
    P_TURBO,
    P_WAYS,
    P_WAY_MIB,
    P_BANDWIDTH,
    P_MEMORY_MIB,
    P_LATENCY,
    P_RISE,
    P_POWER,
    P_LLC_GBPS,
    P_LLC_LATENCY,
    P_SMT_SPEED,
    P_SLICE_MS,
    P_WARMUP_S,
    P_DISK_IOPS,
    P_DISK_MBPS,
    P_NETWORK_GBPS,
    P_CPU_GROUPS,
    P_EEVDF,
    PLATFORM_COLUMNS,
) = range(22)

# -- tenants: what they are ------------------------------------------------------------------------------------------
(
    T_LC,
    T_THREADS,
    T_CPI,
    T_APKI,
    T_MISS_MIN,
    T_WORKING_SET,
    T_STEEPNESS,
    T_MLP,
    T_BYTES,
    T_FOOTPRINT,
    T_POWER,
    T_INSTRUCTIONS,
    T_CV2,
    T_BURSTINESS,
    T_SWITCH_COST,
    T_USABLE,
    T_QUEUE_LIMIT,
    T_STACK_MS,
    T_SERIAL_MS,
    T_DISK_IOS,
    T_PAGES,
    T_NETWORK_KIB,
    T_DEVICE_KIB,
    T_DISK_MBPS,
    T_NETWORK_GBPS,
    T_FLOWS,
    T_TABLE,
    T_ELSEWHERE,
    TENANT_COLUMNS,
) = range(29)

# -- grants: what they may use. Infinite where there is no limit -----------------------------------------------------
(
    G_QUOTA,
    G_WEIGHT,
    G_MBA,
    G_CLOCK,
    G_MEMORY_MIB,
    G_DISK_IOPS,
    G_NETWORK_GBPS,
    G_PRIORITY,
    G_SLICE_MS,
    G_PERIOD_MS,
    GRANT_COLUMNS,
) = range(11)

# -- state between two steps: one row a tenant; occupancy of the cache is an array of its own ------------------------
# (the clock and the wait for the cache are the same for all tenants).
# S_QUEUED are the requests that wait by chance, in the mean; S_BACKLOG those that wait for want of capacity. S_SHOCK is
# a standard normal number that the caller draws before each step, S_SCORE what they make of the queue's state; without
# a shock (NaN) a step is that of the mean.
(
    S_BACKLOG, S_LATENCY_NS, S_SIBLING, S_PRESSURE, S_CLOCK, S_LLC_WAIT_NS, S_QUEUED, S_SHOCK, S_SCORE,
    STATE_COLUMNS,
) = range(10)  # fmt: skip

# -- what a tenant did in a step -------------------------------------------------------------------------------------
(
    F_COMPLETED,
    F_MEAN_MS,
    F_P50_MS,
    F_P95_MS,
    F_P99_MS,
    F_CPU_S,
    F_INSTRUCTIONS,
    F_CYCLES,
    F_LLC_ACCESSES,
    F_LLC_MISSES,
    F_MEMORY_BYTES,
    F_OCCUPANCY_MIB,
    F_CLOCK,
    F_THROTTLED_S,
    F_UTILISATION,
    F_SERVICE_MS,
    F_WAIT_PROBABILITY,
    F_WAIT_MS,
    F_DELAY_PROBABILITY,
    F_DELAY_MS,
    F_BACKLOG_MS_BEFORE,
    F_BACKLOG_MS_AFTER,
    F_BACKLOG_SHARE,
    F_DISK_IOS,
    F_NETWORK_BYTES,
    F_RESIDENT_MIB,
    FLOW_COLUMNS,
) = range(27)

PERIOD_MS = 100.0
"""Period of a CPU quota where nothing else is set (cpu.max, cfs_period_us)."""

MAX_TENANTS = 16
"""Of a node of the fleet, the environment and the training data."""

MOST_TENANTS = 48
"""Of any node: tenants of a CPU are bits of an int64."""

LEAST_AREAS = 64
"""Room for different sets of tenants that share CPUs: at most one a CPU, so that larger machines have more."""


def platform_row(platform: PlatformModel) -> FloatArray:
    """A platform as (PLATFORM_COLUMNS,)."""
    row = np.empty(PLATFORM_COLUMNS)
    row[P_CORES] = platform.physical_cores
    row[P_CLOCK], row[P_ALL_CORE], row[P_TURBO] = platform.frequency_ghz, platform.all_core_ghz, platform.turbo_ghz
    row[P_WAYS], row[P_WAY_MIB] = platform.ways, platform.way_mib
    # Of two limits in series the lower one is that of a domain which has the memory to itself.
    row[P_BANDWIDTH] = min(platform.bandwidth_gbps * platform.usable_bandwidth, platform.link_gbps)
    row[P_MEMORY_MIB] = (platform.memory_gib - platform.reserved_gib) * 1024.0
    row[P_LATENCY], row[P_RISE], row[P_POWER] = (
        platform.memory_latency_ns,
        platform.latency_rise,
        platform.latency_power,
    )
    row[P_LLC_GBPS], row[P_LLC_LATENCY] = platform.llc_gbps, platform.llc_latency_ns
    row[P_SMT_SPEED], row[P_SLICE_MS], row[P_WARMUP_S] = platform.smt_speed, platform.time_slice_ms, platform.warmup_s
    row[P_CPU_GROUPS], row[P_EEVDF] = float(platform.cpu_groups), float(platform.eevdf)
    row[P_DISK_IOPS], row[P_DISK_MBPS], row[P_NETWORK_GBPS] = (
        platform.disk_iops,
        platform.disk_mbps,
        platform.network_gbps,
    )
    return row


def tenant_row(tenant: ServiceModel | JobModel) -> FloatArray:
    """A service or a job as (TENANT_COLUMNS,). T_TABLE, the number of its table of percentiles, is set by the caller.

    T_ELSEWHERE is what a service gets done in other cache domains of the socket, for each request here: nothing.
    """
    row = np.zeros(TENANT_COLUMNS)
    m = tenant.memory
    row[T_THREADS] = tenant.threads
    row[T_CPI], row[T_APKI], row[T_MISS_MIN] = m.cpi, m.apki, m.miss_min
    row[T_WORKING_SET], row[T_STEEPNESS], row[T_MLP] = m.working_set_mib, m.steepness, m.mlp
    row[T_BYTES], row[T_FOOTPRINT], row[T_POWER] = m.bytes_per_miss, m.footprint_mib, m.power
    if isinstance(tenant, ServiceModel):
        row[T_LC] = 1.0
        row[T_INSTRUCTIONS], row[T_CV2], row[T_BURSTINESS] = tenant.instructions, tenant.cv2, tenant.burstiness
        row[T_SWITCH_COST], row[T_USABLE] = tenant.switch_cost, tenant.usable
        row[T_QUEUE_LIMIT] = tenant.queue_limit_s * tenant.max_load
        row[T_STACK_MS], row[T_SERIAL_MS] = tenant.stack_ms, tenant.serial_ms
        row[T_DISK_IOS], row[T_PAGES] = tenant.disk_ios, tenant.pages
        row[T_NETWORK_KIB], row[T_FLOWS] = tenant.network_kib, tenant.threads
        row[T_DEVICE_KIB] = tenant.device_kib
    else:
        row[T_USABLE] = 1.0
        row[T_DISK_MBPS], row[T_NETWORK_GBPS], row[T_FLOWS] = tenant.disk_mbps, tenant.network_gbps, tenant.flows
    return row


def no_limits(tenants: int, platform: FloatArray) -> FloatArray:
    """Grants without any limit but CPUs and ways, as (tenants, GRANT_COLUMNS)."""
    grants = np.full((tenants, GRANT_COLUMNS), math.inf)
    grants[:, G_WEIGHT] = 100.0
    grants[:, G_PRIORITY] = 0.0
    grants[:, G_SLICE_MS], grants[:, G_PERIOD_MS] = platform[P_SLICE_MS], PERIOD_MS
    return grants


@lean
def make_idle(platform: FloatArray, state: FloatArray) -> None:
    """Fill `state` (tenants, STATE_COLUMNS) with that of an idle node."""
    for i in range(len(state)):
        for k in range(STATE_COLUMNS):
            state[i, k] = 0.0
        state[i, S_LATENCY_NS], state[i, S_CLOCK] = platform[P_LATENCY], platform[P_TURBO]
        state[i, S_SHOCK], state[i, S_PRESSURE] = math.nan, 1.0


def initial_rows(tenants: int, platform: FloatArray) -> FloatArray:
    """The state of an idle node, as (tenants, STATE_COLUMNS)."""
    rows = np.empty((tenants, STATE_COLUMNS))
    make_idle(platform, rows)
    return rows
