"""What goes into the engine and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.virtual.models import JobModel, MemoryBehaviour, PlatformModel, ServiceModel

FloatArray = NDArray[np.float64]


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
            raise NodeInputError(f"'{twice}' is on the node twice, every service and job may be there once")
        if not names:
            raise NodeInputError("the node has no service and no job, give at least one")

    @property
    def names(self) -> list[str]:
        """Names of all tenants in order."""
        return [tenant.name for tenant in (*self.services, *self.jobs)]

    @property
    def tenants(self) -> tuple[ServiceModel | JobModel, ...]:
        """All tenants in order."""
        return (*self.services, *self.jobs)

    def memory_of(self, tenant: int) -> MemoryBehaviour:
        """Cache and memory parameters of a tenant."""
        return self.tenants[tenant].memory


@dataclass(frozen=True)
class Grant:
    """What one tenant may use: CPU ids, a mask of cache ways, and optionally quota (CPUs), CPU weight, MBA percent."""

    cpus: frozenset[int]
    way_mask: int
    cpu_quota: float | None = None
    cpu_weight: float = 100.0
    mba_percent: float | None = None


@dataclass(frozen=True)
class NodeState:
    """The memory of the node between two steps. Arrays are never changed in place.

    `occupancy_mib` is (tenants, ways), `backlog` requests per tenant, `latency_ns` and `sibling_busy` the last
    solution, from which the next fixed point starts.
    """

    time_s: float
    occupancy_mib: FloatArray
    backlog: tuple[float, ...]
    latency_ns: tuple[float, ...]
    sibling_busy: tuple[float, ...]


class Flow(NamedTuple):
    """What one tenant did in one step, without measurement noise. Counts are over the step."""

    dt: float
    requests: float  # completed; 0 for jobs
    mean_ms: float | None
    quantiles_ms: FloatArray | None  # at queueing.LEVELS
    cpu_s: float
    instructions: float
    cycles: float
    llc_accesses: float
    llc_misses: float
    memory_bytes: float
    occupancy_mib: float
    frequency_ghz: float
    throttled_s: float
    utilisation: float  # of the CPU time within reach; above 1 a backlog grows
    service_ms: float | None


def initial_state(node: Node) -> NodeState:
    """An idle node with an empty cache."""
    n = len(node.tenants)
    empty = np.zeros((n, node.platform.ways))
    return NodeState(0.0, empty, (0.0,) * n, (node.platform.memory_latency_ns,) * n, (0.0,) * n)
