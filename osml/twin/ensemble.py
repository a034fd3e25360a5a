"""Many virtual nodes that could be this one: their numbers as a table, and each as a node of the simulator."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from osml.domain import Assignment, Platform, Service
from osml.simulator.columns import FloatArray
from osml.simulator.models import JobModel, MemoryBehaviour, PlatformModel, ServiceModel
from osml.simulator.state import Grant, Node
from osml.twin.machine import grant_in_force
from osml.twin.prior import FOOTPRINT_MIB, LIMITS, MACHINE, MEMORY
from osml.twin.scenes import Tenant

Key = tuple[str, str]
"""Whose number it is ("" for the machine's), and which."""

MACHINE_S = ""
_TABLES = 1.08
"""Percentile tables are made for powers of this number of cv2: others are at most 4 % away."""

_QUEUE_S = 30.0
_SWITCH_COST = 0.01


@dataclass(frozen=True)
class Ensemble:
    """`logs` are natural logarithms, (members, keys). `rates` are the highest requests/s that were seen.

    `bias:NAME` of a tenant is the error of a counter, all others are numbers of the simulator's models.
    """

    machine: PlatformModel
    platform: Platform
    tenants: tuple[Tenant, ...]
    rates: Mapping[str, float]
    quotas: Mapping[str, float]
    keys: tuple[Key, ...]
    logs: FloatArray

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.logs)

    def with_logs(self, logs: FloatArray) -> Ensemble:
        """The same with other numbers, cut to what is possible."""
        return replace(self, logs=clipped(self.keys, logs))

    def some(self, count: int) -> Ensemble:
        """So many members, evenly taken."""
        if count >= self.size:
            return self
        return replace(self, logs=self.logs[np.linspace(0, self.size - 1, count).astype(int)])

    def values(self, member: int) -> dict[Key, float]:
        """The numbers of one member."""
        return dict(zip(self.keys, np.exp(self.logs[member]).tolist(), strict=True))

    def tenant(self, name: str) -> Tenant:
        """The tenant of this name; StopIteration where there is none."""
        return next(one for one in self.tenants if one.name == name)


def judged_by(ensemble: Ensemble, now: Iterable[Service | Tenant]) -> Ensemble:
    """The same with the targets that these have by name: those of a twin are as old as its record."""
    newer = {one.name: one for one in now}
    tenants = tuple(
        one if (by := newer.get(one.name)) is None else replace(one, target_ms=by.target_ms, percentile=by.percentile)
        for one in ensemble.tenants
    )
    return replace(ensemble, tenants=tenants)


def clipped(keys: Sequence[Key], logs: FloatArray) -> FloatArray:
    """Numbers within their limits; errors of counters within a factor of 2."""
    low = np.array([-math.log(2) if name.startswith("bias:") else math.log(LIMITS[name][0]) for _, name in keys])
    high = np.array([math.log(2) if name.startswith("bias:") else math.log(LIMITS[name][1]) for _, name in keys])
    return np.clip(logs, low, high)


def _on_grid(cv2: float) -> float:
    return float(_TABLES ** round(math.log(cv2) / math.log(_TABLES)))


def _memory(values: Mapping[Key, float], name: str) -> MemoryBehaviour:
    numbers = {key: values[name, key] for key in MEMORY}
    return MemoryBehaviour(**numbers, footprint_mib=values.get((name, "footprint_mib"), FOOTPRINT_MIB), power=1.0)


def threads_of(tenant: Tenant, values: Mapping[Key, float]) -> int:
    """Threads of a tenant: counted, or of this member."""
    return tenant.threads or max(1, round(values[tenant.name, "threads"]))


def service_of(tenant: Tenant, values: Mapping[Key, float], rate: float, platform: str) -> ServiceModel:
    """A service of one member. Its max load is the highest rate that was seen."""
    name = tenant.name
    return ServiceModel(
        name=name, platform=platform, max_load=rate, target_ms=tenant.target_ms or math.inf,
        percentile=tenant.percentile, threads=threads_of(tenant, values), instructions=values[name, "instructions"],
        cv2=_on_grid(values[name, "cv2"]), burstiness=values[name, "burstiness"], switch_cost=_SWITCH_COST,
        usable=values[name, "usable"], queue_limit_s=_QUEUE_S, stack_ms=values[name, "stack_ms"],
        serial_ms=values[name, "serial_ms"], disk_ios=0.0, pages=0.0, network_kib=0.0, device_kib=0.0,
        memory=_memory(values, name),
    )  # fmt: skip


def job_of(tenant: Tenant, values: Mapping[Key, float]) -> JobModel:
    """A job of one member."""
    return JobModel(tenant.name, threads_of(tenant, values), 0.0, 0.0, 0.0, _memory(values, tenant.name))


def machine_with(machine: PlatformModel, values: Mapping[Key, float]) -> PlatformModel:
    """The machine of one member."""
    numbers = {name: values[MACHINE_S, name] for name in MACHINE}
    return replace(machine, **numbers)  # pyright: ignore[reportArgumentType] - all of them are floats


def node_of(ensemble: Ensemble, member: int) -> Node:
    """One member as a node of the simulator."""
    values = ensemble.values(member)
    services = [one for one in ensemble.tenants if one.kind == "lc"]
    return Node(
        machine_with(ensemble.machine, values),
        tuple(service_of(one, values, ensemble.rates.get(one.name, 1.0), ensemble.machine.id) for one in services),
        tuple(job_of(one, values) for one in ensemble.tenants if one.kind == "be"),
    )


def quota_of(ensemble: Ensemble, values: Mapping[Key, float], name: str) -> float | None:
    """CPUs that a tenant's own limit allows: told by the operator, or found from its throttling."""
    return ensemble.quotas.get(name, values.get((name, "quota")))


def grants_for(
    ensemble: Ensemble, values: Mapping[Key, float], assignments: Mapping[str, Assignment]
) -> dict[str, Grant]:
    """What each tenant of one member may use under these assignments."""
    return {
        one.name: grant_in_force(
            assignments.get(one.name), ensemble.platform, ensemble.machine, quota_of(ensemble, values, one.name)
        )
        for one in ensemble.tenants
    }
