"""Hidden nodes: machines, programs and sensors that a twin knows nothing of but their record."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from osml.decide.decide import decide
from osml.domain import DRY_RUN, Assignment, Decision, Observation, Service
from osml.records import Line, Record
from osml.simulator.closed_loop import describe, grant_of, observed_service
from osml.simulator.engine import advance
from osml.simulator.load_traces import Trace, loads_at, random_trace
from osml.simulator.measure import measure
from osml.simulator.node_platform import domain_platform
from osml.simulator.physics.waking import throttled
from osml.simulator.state import Flow, Grant, Node, initial_state
from osml.simulator.surface import whole_node
from osml.simulator.variation.conditions import CONDITIONS
from osml.simulator.variation.draw import drawn
from osml.simulator.variation.drift import Drift
from osml.simulator.variation.nodes import renamed
from osml.simulator.variation.sensors import Sensors

_WATCHED = "the agent decides and reports, and applies nothing (simulated)"
_TRACES = ("diurnal", "bursty", "step")


@dataclass(frozen=True)
class Hidden:
    """A node with its loads over time. `quotas` are limits of its own that no record tells."""

    seed: int
    node: Node
    loads: Mapping[str, Trace | float]
    sensors: Sensors
    drift: Drift | None
    quotas: Mapping[str, float] = field(default_factory=dict[str, float])

    def grants(self) -> list[Grant]:
        """Nothing is managed but the limits of its own."""
        every = zip(self.node.names, whole_node(self.node), strict=True)
        return [replace(grant, cpu_quota=self.quotas.get(name)) for name, grant in every]


def hidden(condition: str, seed: int, *, beside_job: bool, seconds: float) -> Hidden:
    """A node of the suite `osml-mismatch` under a condition, with names that say nothing and loads that change."""
    variant = drawn(CONDITIONS[condition], seed, beside_job=beside_job)
    node = renamed(variant.node)
    names = zip(variant.node.services, node.services, strict=True)
    rng = np.random.default_rng([seed, 20261124])
    loads: dict[str, Trace | float] = {}
    for old, new in names:
        load = variant.loads[old.name]
        kind = _TRACES[int(rng.integers(len(_TRACES)))]
        loads[new.name] = random_trace(kind, rng, 0.5 * load, 1.2 * load, seconds)
    return Hidden(seed, node, loads, variant.sensors or Sensors(), variant.drift)


def loads_then(one: Hidden, time_s: float) -> dict[str, float]:
    """Shares of max load at a time."""
    return {
        name: float(load) if isinstance(load, int | float) else loads_at(load, time_s)
        for name, load in one.loads.items()
    }


def _stopped_s(flow: Flow, quota: float, threads: int, cv2: float) -> float:
    """What the kernel would count as throttled in an interval: the simulator's waits for the end of a period."""
    probability, wait_ms = throttled(quota, 100.0, flow.utilisation, flow.service_ms or 0.0, cv2, threads)
    waits = flow.requests * probability * wait_ms / 1000.0 / max(quota, 1.0)
    return float(min(max(waits, flow.throttled_s), flow.dt))


def record_of(one: Hidden, seconds: int, policy: str | None = None) -> Record:
    """What an agent writes on this node in so many seconds: watching only, or under a policy."""
    node, state, grants = one.node, initial_state(one.node), one.grants()
    platform = domain_platform(node.platform)
    known = describe(node, {name: loads_then(one, 0.0)[name] for name in one.loads})
    measured: deque[list[Service]] = deque(maxlen=one.sensors.late + 1)
    lines: list[Line] = []
    decision: Decision | None = None
    assignments: list[Assignment] = []
    shaken = np.random.default_rng([one.seed, 1])
    for seq in range(seconds):
        now = node if one.drift is None else one.drift.node(node, float(seq))
        shocks = shaken.standard_normal(len(node.tenants))
        state, flows = advance(now, state, grants, loads_then(one, float(seq)), 1.0, shocks)
        services: list[Service] = []
        for at, (service, flow) in enumerate(zip(known, flows, strict=True)):
            seen = observed_service(
                service, measure([flow], np.random.default_rng([one.seed, seq, at]), one.sensors.seen)
            )
            quota = one.quotas.get(service.name)
            if service.kind == "lc":
                model = node.services[at]
                stopped = 0.0 if quota is None else _stopped_s(flow, quota, model.threads, model.cv2)
                seen = msgspec.structs.replace(
                    seen, counters=msgspec.structs.replace(seen.counters, throttled_s=stopped)
                )
            services.append(seen)
        measured.append(services)
        observation = Observation(
            node="hidden", seq=seq, time_s=float(seq + 1), interval_s=1.0, platform=platform,
            services=one.sensors.shown(measured, seq), policy=policy,
            partition=None if decision is None else decision.partition, assignments=assignments,
            missing={DRY_RUN: _WATCHED} if policy is None else {},
            policy_state=None if decision is None else decision.policy_state,
        )  # fmt: skip
        if policy is not None:
            decision = decide(observation, seed=one.seed)
            assignments = decision.assignments
            given = {a.service: grant_of(a, node.platform) for a in assignments}
            grants = [given[name] for name in node.names]
        lines.append(Line(observation, decision))
    return Record(lines)
