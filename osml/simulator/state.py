"""What goes into the engine and what comes out of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from osml.simulator import columns, queueing
from osml.simulator.columns import FloatArray
from osml.simulator.models import JobModel, PlatformModel, ServiceModel


class NodeInputError(ValueError):
    """A load or an allocation is not possible. The text is one sentence for the user."""


@dataclass(frozen=True)
class Node:
    """The inventory of a virtual node: a platform, and the tenants in a fixed order (services, then jobs)."""

    platform: PlatformModel
    services: tuple[ServiceModel, ...]
    jobs: tuple[JobModel, ...] = ()

    def __post_init__(self) -> None:
        names = self.names
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise NodeInputError(f"'{twice}' is on the node twice, expected each service and job once")
        if not names:
            raise NodeInputError("the node has no service and no job, expected at least one")
        if len(names) > columns.MOST_TENANTS:
            raise NodeInputError(f"{len(names)} services and jobs on one node, expected at most {columns.MOST_TENANTS}")

    @cached_property
    def names(self) -> list[str]:
        """Names of all tenants in order."""
        return [tenant.name for tenant in (*self.services, *self.jobs)]

    @property
    def tenants(self) -> tuple[ServiceModel | JobModel, ...]:
        """All tenants in order."""
        return (*self.services, *self.jobs)

    @cached_property
    def platform_row(self) -> FloatArray:
        """The platform for the compiled step, (PLATFORM_COLUMNS,). Not to be changed."""
        return columns.platform_row(self.platform)

    @cached_property
    def tenant_rows(self) -> FloatArray:
        """The tenants for the compiled step, (tenants, TENANT_COLUMNS). Not to be changed."""
        rows = np.stack([columns.tenant_row(tenant) for tenant in self.tenants])
        rows[:, columns.T_TABLE] = np.arange(len(rows))
        return rows

    @cached_property
    def tables(self) -> FloatArray:
        """Percentiles of response times for the compiled step, one table a tenant. Not to be changed."""
        return np.stack(
            [queueing.percentile_table(t.cv2 if isinstance(t, ServiceModel) else 0.0) for t in self.tenants]
        )

    @cached_property
    def plans(self) -> dict[tuple[Grant, ...], Plan]:
        """Grants that were translated already."""
        return {}


@dataclass(frozen=True)
class Grant:
    """What one tenant may use: CPU ids and a mask of cache ways; everything else has no limit by default.

    `cpu_quota` in CPUs over `cpu_period_ms` (None: 100), `cpu_weight` as in cgroup v2, `mba_percent` of the memory
    bandwidth or `mba_gbps` (AMD), each for every cache domain, `frequency_ghz`, `memory_gib`, `disk_iops`,
    `network_gbps` at most. A higher `priority` (a real-time class) gets its CPUs first; `slice_ms` is the time slice of
    the others on its CPUs (None: the platform's).
    """

    cpus: frozenset[int]
    way_mask: int
    cpu_quota: float | None = None
    cpu_weight: float = 100.0
    mba_percent: float | None = None
    frequency_ghz: float | None = None
    memory_gib: float | None = None
    disk_iops: float | None = None
    network_gbps: float | None = None
    priority: int = 0
    slice_ms: float | None = None
    cpu_period_ms: float | None = None
    mba_gbps: float | None = None


class Plan(NamedTuple):
    """Grants as the compiled step reads them: tenants on each CPU as bits, way masks, limits."""

    users: columns.IntArray
    masks: columns.IntArray
    limits: FloatArray


def plan(platform: PlatformModel, platform_row: FloatArray, grants: tuple[Grant, ...]) -> Plan:
    """Translate grants that were checked."""
    users = np.zeros(platform.cpus, np.int64)
    masks = np.zeros(len(grants), np.int64)
    limits = columns.no_limits(len(grants), platform_row)
    for i, grant in enumerate(grants):
        for cpu in grant.cpus:
            users[cpu] |= 1 << i
        masks[i] = grant.way_mask
        row = limits[i]
        row[columns.G_QUOTA] = math.inf if grant.cpu_quota is None else grant.cpu_quota
        row[columns.G_PERIOD_MS] = columns.PERIOD_MS if grant.cpu_period_ms is None else grant.cpu_period_ms
        row[columns.G_WEIGHT], row[columns.G_PRIORITY] = grant.cpu_weight, grant.priority
        row[columns.G_MBA] = _throttle_gbps(platform_row, grant)
        if grant.frequency_ghz is not None:
            row[columns.G_CLOCK] = grant.frequency_ghz
        if grant.memory_gib is not None:
            row[columns.G_MEMORY_MIB] = grant.memory_gib * 1024.0
        if grant.disk_iops is not None:
            row[columns.G_DISK_IOPS] = grant.disk_iops
        if grant.network_gbps is not None:
            row[columns.G_NETWORK_GBPS] = grant.network_gbps
        if grant.slice_ms is not None:
            row[columns.G_SLICE_MS] = grant.slice_ms
    return Plan(users, masks, limits)


def _throttle_gbps(platform_row: FloatArray, grant: Grant) -> float:
    """The throttle of memory bandwidth in GB/s, infinite without."""
    most = math.inf if grant.mba_gbps is None else grant.mba_gbps
    if grant.mba_percent is None or grant.mba_percent >= 100.0:
        return most
    return min(most, float(platform_row[columns.P_BANDWIDTH]) * grant.mba_percent / 100.0)


@dataclass(frozen=True)
class NodeState:
    """The memory of the node between two steps. Arrays are never changed in place.

    `rows` is (tenants, STATE_COLUMNS): backlog in requests and the last fixed point, from which the next one starts;
    `occupancy_mib` is (tenants, ways).
    """

    time_s: float
    rows: FloatArray
    occupancy_mib: FloatArray

    @property
    def backlog(self) -> list[float]:
        """Requests that wait, of every tenant (0 for jobs)."""
        return [float(x) for x in self.rows[:, columns.S_BACKLOG] + self.rows[:, columns.S_QUEUED]]


KNOWN_LEVELS = (0.50, 0.95, 0.99)
"""Probabilities of the percentiles that a flow has."""


class Flow(NamedTuple):
    """What one tenant did in one step, without measurement noise. Counts are over the step."""

    dt: float
    requests: float  # completed; 0 for jobs
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    cpu_s: float
    instructions: float
    cycles: float
    llc_accesses: float
    llc_misses: float
    memory_bytes: float
    occupancy_mib: float
    frequency_ghz: float
    throttled_s: float
    utilisation: float  # of what the service could get through; above 1 a backlog grows
    service_ms: float | None
    disk_ios: float
    network_bytes: float
    resident_mib: float
    response: queueing.Response | None  # of the stationary queue; None for jobs and where nothing was completed
    backlog_ms: tuple[float, float]  # what an arrival has to wait for besides, at the two ends of the step
    backlog_share: float  # of the step, in which it goes from one to the other; below 1 it is the lower one in the rest

    @property
    def quantiles_ms(self) -> FloatArray | None:
        """Response time at queueing.LEVELS, with the wait for a backlog that grows or shrinks during the step.

        Its p50, p95 and p99 are those of the flow: what these have beyond the stationary queue (requests beside a busy
        sibling) is interpolated between them.
        """
        if self.response is None or self.p50_ms is None or self.p95_ms is None or self.p99_ms is None:
            return None
        first, last = sorted(self.backlog_ms)
        found = queueing.quantiles(self.response) + [
            queueing.ramp(x, first, last, self.backlog_share) for x in queueing.LEVELS
        ]
        beyond = np.array([self.p50_ms, self.p95_ms, self.p99_ms]) - np.interp(KNOWN_LEVELS, queueing.LEVELS, found)
        return np.maximum.accumulate(found + np.interp(queueing.LEVELS, KNOWN_LEVELS, beyond))


def initial_state(node: Node) -> NodeState:
    """An idle node with an empty cache."""
    n = len(node.tenants)
    return NodeState(0.0, columns.initial_rows(n, node.platform_row), np.zeros((n, node.platform.ways)))
