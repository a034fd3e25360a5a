"""A policy and a virtual node in one process: observe, decide, lay out, apply, step. For validation, benches and tests.

The way of an observation is that of the agent and the server without the files and the network between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np
from msgspec.structs import replace

from osml.domain import Assignment, Counters, Decision, Latency, Observation, Platform, Service
from osml.domain.cpulist import format_cpulist, parse_cpulist
from osml.domain.service import Percentile
from osml.policies.decide import decide
from osml.virtual.engine import advance
from osml.virtual.measure import Measurement, measure
from osml.virtual.models import PlatformModel
from osml.virtual.state import Flow, Grant, Node, NodeState, initial_state
from osml.virtual.surface import known_ideal_ms, solo_speed, whole_node


def domain_platform(model: PlatformModel) -> Platform:
    """The platform as a policy counts it: cores, ways, siblings."""
    return Platform(
        id=model.id,
        cores=model.cpus,
        cpus=format_cpulist(range(model.cpus)),
        ways=model.ways,
        siblings=model.siblings if model.cpus > model.physical_cores else [],
    )


@dataclass(frozen=True)
class Interval:
    """What happened between two decisions: the decision in force, noiseless flows, and what the policy got to see."""

    decision: Decision | None
    flows: list[Flow]
    observed: list[Service]


class ClosedLoop:
    """One node under one policy. The same seed and loads give the same run."""

    def __init__(self, node: Node, loads: Mapping[str, float], policy: str, *, interval_s: float = 1.0, seed: int = 0):
        self.node, self.policy, self.interval_s, self.seed = node, policy, interval_s, seed
        self.loads = dict(loads)
        self._rng = np.random.default_rng(seed)
        self._platform = domain_platform(node.platform)
        self._services = self._describe()
        self._state: NodeState = initial_state(node)
        self._grants: list[Grant] = whole_node(node)
        self._decision: Decision | None = None
        self._assignments: list[Assignment] = []
        self._seq = 0

    def _describe(self) -> list[Service]:
        """Names, targets and solo speeds: what does not change from interval to interval."""
        platform, found = self.node.platform, list[Service]()
        for model in self.node.services:
            ideal = known_ideal_ms(platform, model, self.loads.get(model.name, 0.2))
            found.append(
                Service(
                    name=model.name,
                    kind="lc",
                    target_ms=model.target_ms,
                    percentile=cast(Percentile, model.percentile),
                    ideal_ms=ideal,
                )
            )
        for job in self.node.jobs:
            ipc, work = solo_speed(platform, job)
            found.append(Service(name=job.name, kind="be", ipc_solo=ipc, work_rate_solo=work))
        return found

    def _observed(self, index: int, measured: Measurement) -> Service:
        known = self._services[index]
        latency = None
        if known.kind == "lc" and measured.p99_ms is not None:
            latency = Latency(
                mean_ms=measured.mean_ms,
                p50_ms=measured.p50_ms,
                p95_ms=measured.p95_ms,
                p99_ms=measured.p99_ms,
                requests_per_s=measured.requests_per_s,
                samples=measured.samples,
            )
        counters = Counters(
            cpu_usage_cores=measured.cpu_usage_cores,
            instructions=measured.instructions,
            cycles=measured.cycles,
            ipc=measured.ipc,
            llc_misses=measured.llc_misses,
            llc_occupancy_mib=measured.llc_occupancy_mib,
            bandwidth_gbps=measured.bandwidth_gbps,
            frequency_ghz=measured.frequency_ghz,
            work_rate=measured.work_rate if known.kind == "be" else None,
        )
        return replace(known, latency=latency, counters=counters)

    def _grant(self, assignment: Assignment) -> Grant:
        platform = self.node.platform
        cpus = range(platform.cpus) if assignment.cpus is None else parse_cpulist(assignment.cpus)
        mask = (1 << platform.ways) - 1 if assignment.way_mask is None else int(assignment.way_mask, 16)
        return Grant(
            frozenset(cpus), mask, assignment.cpu_quota,
            100.0 if assignment.cpu_weight is None else assignment.cpu_weight, assignment.mba,
        )  # fmt: skip

    def step(self) -> Interval:
        """One interval, then the decision on what it showed (in force from the next interval on)."""
        in_force = self._decision
        self._state, flows = advance(self.node, self._state, self._grants, self.loads, self.interval_s)
        observed = [self._observed(i, measure([flow], self._rng)) for i, flow in enumerate(flows)]
        self._decision = decide(
            Observation(
                node="virtual",
                seq=self._seq,
                time_s=self._state.time_s,
                interval_s=self.interval_s,
                platform=self._platform,
                services=observed,
                policy=self.policy,
                partition=None if in_force is None else in_force.partition,
                assignments=self._assignments,
                policy_state=None if in_force is None else in_force.policy_state,
            ),
            seed=self.seed,
        )
        self._assignments = self._decision.assignments
        by_name = {assignment.service: self._grant(assignment) for assignment in self._assignments}
        self._grants = [by_name[name] for name in self.node.names]
        self._seq += 1
        return Interval(in_force, flows, observed)

    def run(self, seconds: float) -> list[Interval]:
        """So many seconds."""
        return [self.step() for _ in range(round(seconds / self.interval_s))]
