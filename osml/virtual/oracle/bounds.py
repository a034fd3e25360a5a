"""What is certain before a whole node is settled: the fewest cores a service needs, beside the least disturbance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from osml.virtual import columns as c
from osml.virtual.columns import FloatArray, IntArray
from osml.virtual.oracle import stand_ins
from osml.virtual.oracle.settled import SECONDS, SettledNode, tail_column
from osml.virtual.state import Node

TOLERANCE = 1e-3
"""Relative error that the engine's fixed points are granted: a bound is taken at a load that is smaller by this."""

_LATENCY_TOLERANCE = 3.0 * TOLERANCE
"""A bound may be above a real latency by this: that much a smaller load can even cost, on a link that is full."""


class Bounds:
    """Lower bounds for one node under loads. `cells` counts the evaluations of one service on one allocation."""

    def __init__(self, node: Node, loads: Mapping[str, float]) -> None:
        self.node = node
        self.loads = dict(loads)
        self.cells = 0

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
        limit = self.node.services[service].target_ms * (1.0 + _LATENCY_TOLERANCE)
        need = settled.fewest_cores(limit, int(most[service, 0]), int(most[service, 1]))
        self.cells += settled.evaluations
        return need

    def tails_alone(self, service: int) -> FloatArray:
        """Lower bound of the tail latency in ms on 1.. cores x 1.. ways, whoever else is on it."""
        platform, own = self.node.platform, self.node.services[service]
        alone = Node(platform, (own,))
        settled = SettledNode(alone, {own.name: self.loads[own.name] * (1.0 - TOLERANCE)})
        flows = settled.first_tenant(platform.cpus, platform.ways)
        self.cells += settled.evaluations
        tails = flows[:, :, tail_column(alone, 0)] / (1.0 + _LATENCY_TOLERANCE)
        return np.where(np.isnan(tails), np.inf, tails)

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
