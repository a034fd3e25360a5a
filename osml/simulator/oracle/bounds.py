"""What is certain before a whole node is settled: the fewest cores a service needs, beside the least disturbance."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from osml.simulator import columns as c
from osml.simulator.columns import FloatArray, IntArray
from osml.simulator.oracle import stand_ins
from osml.simulator.oracle.demands import demands
from osml.simulator.oracle.environment import Demands
from osml.simulator.oracle.settled import SECONDS, SettledNode, tail_column
from osml.simulator.oracle.slowness import Curve, Slowness
from osml.simulator.state import Node

TOLERANCE = 1e-3
"""Relative error that the engine's fixed points are granted: a bound is taken at a load that is smaller by this."""

_LATENCY_TOLERANCE = 3e-3
_TIME_TOLERANCE = 5e-4
"""Relative error that service times in closed form are granted against those of the engine, which is at 1e-4."""

_CROWDED_TOLERANCE = 3e-2
"""A bound may be above a real latency by this where disk, network or memory can be full: a little less load can then
even cost, since a service waits at its own share of the link. Of 13,000 random allocations none was above by 1.6 %."""


class Bounds:
    """Lower bounds for one node under loads. `cells` counts the evaluations of one service on one allocation."""

    def __init__(self, node: Node, loads: Mapping[str, float]) -> None:
        self.node = node
        self.loads = dict(loads)
        self.cells = 0
        self._crowding = 1.0 if self._others_wait_for_cpus_only() else 1.0 + _CROWDED_TOLERANCE
        self._slack = 1.0 + (_LATENCY_TOLERANCE if self._others_wait_for_cpus_only() else _CROWDED_TOLERANCE)

    def _beside_stand_ins(self, service: int, most: IntArray, job_cores: int, job_ways: int) -> SettledNode:
        """A node with the service first, a little less loaded than it is, and stand-ins of all others."""
        platform, own = self.node.platform, self.node.services[service]
        loads = {own.name: self.loads[own.name] * (1.0 - TOLERANCE)}
        tenants = [own]
        for j, other in enumerate(self.node.services):
            if j != service:
                tenants.append(stand_ins.of_service(other, platform, int(most[j, 0]), int(most[j, 1])))
                loads[other.name] = self.loads[other.name] * stand_ins.least_share_served(other.target_ms, SECONDS)
        shares = stand_ins.shares_of_jobs(self.node.jobs, job_cores)
        jobs = tuple(
            stand_ins.of_job(job, platform, cpus, job_ways) for job, cpus in zip(self.node.jobs, shares, strict=True)
        )
        settled = SettledNode(Node(platform, tuple(tenants), jobs), loads)
        settled.limits[len(tenants) :, c.G_QUOTA] = 1.0 / stand_ins.SCALE
        return settled

    def fewest_cores(self, service: int, most: IntArray, job_cores: int, job_ways: int) -> IntArray:
        """For 1..most[service, 1] ways the fewest cores with which the service can meet its target; 0 where it can't.

        Certain for every partition in which each service has at most `most` (services, 2) cores and ways and meets its
        target, and the BE jobs have at least job_cores and at most job_ways.
        """
        settled = self._beside_stand_ins(service, most, job_cores, job_ways)
        limit = self.node.services[service].target_ms * self._slack
        need = settled.fewest_cores(limit, self._missing[service], int(most[service, 0]), int(most[service, 1]))
        self.cells += settled.evaluations
        return need

    def tails_alone(self, service: int) -> FloatArray:
        """Lower bound of the tail latency in ms on 1.. cores x 1.. ways, whoever else is on it."""
        alone, settled = self._alone(service)
        flows = settled.first_tenant(self.node.platform.cpus, self.node.platform.ways)
        self.cells += settled.evaluations
        tails = flows[:, :, tail_column(alone, 0)] / self._slack
        return np.where(np.isnan(tails), np.inf, tails)

    def _alone(self, service: int) -> tuple[Node, SettledNode]:
        own = self.node.services[service]
        alone = Node(self.node.platform, (own,))
        return alone, SettledNode(alone, {own.name: self.loads[own.name] * (1.0 - TOLERANCE)})

    def slowness(self, service: int) -> Slowness:
        """The service alone, at its full load."""
        own = self.node.services[service]
        alone = Node(self.node.platform, (own,))
        return Slowness(alone, SettledNode(alone, {own.name: self.loads[own.name]}))

    def curve(self, service: int) -> Curve:
        """Lower bound of the tail latency in ms by cores and service time (`granted`), whoever else is on the node."""
        found = self.slowness(service).curve(self.node.services[service].target_ms * self._crowding)
        self.cells += found.times_s.size
        return found._replace(tails_ms=found.tails_ms / self._crowding)

    @cached_property
    def _missing(self) -> FloatArray:
        """`longest_times`, a little later: from there on the tail is certainly above the target."""
        return self.longest_times() * (1.0 + _TIME_TOLERANCE)

    def longest_times(self) -> FloatArray:
        """Service times in s (`granted`), (services, cores), from which on a service certainly misses its target."""
        found = [
            self.slowness(i).longest_times(service.target_ms * self._crowding)
            for i, service in enumerate(self.node.services)
        ]
        self.cells += len(found) * (18 + 52) * len(found[0])
        return np.stack(found)

    def granted(self, times_s: FloatArray) -> FloatArray:
        """Least service times with the error that the engine's fixed points are granted."""
        return times_s * (1.0 - _TIME_TOLERANCE)

    def demands(self, *, feasible: bool) -> Demands:
        """What the services ask of the node at least: in partitions that meet all targets, or in any.

        In any, interference only makes requests longer: as many are asked for as alone. That does not hold where others
        may take disk, network or memory from a service: then it may ask for nothing.
        """
        rates: list[float] = []
        for service in self.node.services:
            rate = self.loads[service.name] * service.max_load * (1.0 - TOLERANCE)
            if feasible:
                rate *= stand_ins.least_share_served(service.target_ms, SECONDS)
            elif not self._others_wait_for_cpus_only():
                rate = 0.0
            elif service.serial_ms > 0.0:
                rate = min(rate, 1000.0 / service.serial_ms)
            rates.append(rate)
        return demands(self.node, np.array(rates), feasible)

    def _others_wait_for_cpus_only(self) -> bool:
        """True where disk, network and memory are ample for everybody at once."""
        platform, services, jobs = self.node.platform, self.node.services, self.node.jobs
        rates = [self.loads[service.name] * service.max_load for service in services]
        sent = sum(rate * s.network_kib * 8192e-9 for rate, s in zip(rates, services, strict=True))
        reads = sum(rate * s.disk_ios for rate, s in zip(rates, services, strict=True))
        held = sum(tenant.memory.footprint_mib for tenant in self.node.tenants)
        return (
            sent + sum(job.network_gbps for job in jobs) < 0.9 * platform.network_gbps
            and reads < 0.45 * platform.disk_iops
            and held < 0.99 * (platform.memory_gib - platform.reserved_gib) * 1024.0
        )

    def rates_alone(self) -> FloatArray:
        """Upper bound of the instructions/s of each BE job, (jobs, cores, ways), when they share so much."""
        platform = self.node.platform
        rates: list[FloatArray] = []
        for job in self.node.jobs:
            settled = SettledNode(Node(platform, (), (job,)), {})
            flows = settled.first_tenant(platform.cpus, platform.ways)
            self.cells += settled.evaluations
            rates.append(flows[:, :, c.F_INSTRUCTIONS] * (1.0 + TOLERANCE))
        return np.stack(rates)
