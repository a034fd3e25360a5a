"""A policy and a virtual node in one process: observe, decide, lay out, apply, step. For validation, benches and tests.

The way of an observation is that of the agent and the server without the files and the network between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import cast

import numpy as np
from msgspec.structs import replace

from osml.allocation.policy import Policy
from osml.decide.decide import decide, decide_by
from osml.domain import Assignment, Counters, Decision, Knobs, Latency, Observation, Partition, Platform, Service
from osml.domain.cpulist import parse_cpulist
from osml.domain.service import Percentile
from osml.simulator.board import whole_platform
from osml.simulator.columns import FloatArray
from osml.simulator.load_traces import Churn, Trace, loads_at
from osml.simulator.measure import Measurement, measure, mixed_mean, mixed_quantile
from osml.simulator.models import PlatformModel
from osml.simulator.node_platform import NO_LEVERS, UNLIMITED_EIGHTHS, Lever, board_platform
from osml.simulator.physics.memory import MAX_UTILISATION
from osml.simulator.sockets import State, advance, initial, without
from osml.simulator.state import Flow, Grant, Node
from osml.simulator.surface import USUAL_LOAD, known_ideal_ms, solo_speed, tail_ms, whole_node
from osml.simulator.variation.drift import Drift
from osml.simulator.variation.sensors import Sensors

_LEVELS = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Interval:
    """What happened between two decisions: the decision in force, flows without the noise of samples, and what the
    policy got to see.

    `before` are the flows until the decision was in force, where it changed something and that took time; `flows` are
    those from then on. `fault` says what the policy did wrong after this interval; then the old decision goes on.
    """

    decision: Decision | None
    flows: list[Flow]
    observed: list[Service]
    time_s: float = 0.0
    before: list[Flow] | None = None
    fault: str | None = None

    def parts(self, tenant: int) -> list[Flow]:
        """What a tenant did in the whole interval: until the decision was in force, if that took time, and then."""
        return [flows[tenant] for flows in (self.before, self.flows) if flows is not None]

    def tail_ms(self, tenant: int, percentile: str) -> float:
        """The tail, or the mean, of the whole interval without noise; infinite where nothing was completed."""
        parts = self.parts(tenant)
        if len(parts) == 1:
            return tail_ms(parts[0], percentile)
        if percentile == "mean":
            return mixed_mean(parts)
        found = mixed_quantile(parts, [_LEVELS[percentile]])
        return float("inf") if found is None else found[0]


@dataclass(frozen=True)
class Original:
    """A real machine that a node stands in for: how a policy counts it, and what its assignments mean on the node.

    `grants` are those of all tenants until the first decision, `services` how the machine describes them.
    """

    platform: Platform
    granted: Callable[[Assignment], Grant]
    grants: Sequence[Grant]
    services: Sequence[Service]


class ClosedLoop:
    """One node under one policy, named or given. The same seed and loads give the same run.

    `loads` are fractions of max load: fixed, traces, or a script of services that come and go. A decision is in force
    `delay_s` after it was asked for. The noise of a tenant in an interval follows from seed, tenant and interval alone,
    so that two policies are compared under the same noise. `levers`: what the node can set besides cores and ways (by
    default nothing); `regulator`: it regulates bandwidth in software where it has no MBA. A `tolerant` loop outlives a
    policy that raises. `drift` changes the work per request over time, `sensors` what the policy sees. Jobs in `hidden`
    it does not see at all: they use all CPUs and ways.

    A node of several `sockets` has the node's platform so many times. `by_domain` says whether the policy may place
    services on them; else it sees one pool of CPUs and ways.

    With an `original` the policy sees that machine; `levers`, `regulator`, `sockets` and `by_domain` stay unset then.
    """

    def __init__(
        self,
        node: Node,
        loads: Mapping[str, float | Trace] | Churn,
        policy: str | Policy,
        *,
        interval_s: float = 1.0,
        seed: int = 0,
        delay_s: float = 0.0,
        levers: frozenset[Lever] = NO_LEVERS,
        regulator: bool = False,
        tolerant: bool = False,
        drift: Drift | None = None,
        sensors: Sensors | None = None,
        hidden: frozenset[str] = frozenset(),
        sockets: int = 1,
        by_domain: bool = True,
        original: Original | None = None,
    ) -> None:
        self.node, self.interval_s, self.seed, self.delay_s = node, interval_s, seed, delay_s
        self.tolerant = tolerant
        self._drift, self._sensors, self._hidden = drift, sensors or Sensors(), hidden
        self._measured: deque[list[Service]] = deque(maxlen=self._sensors.late + 1)
        self.loads = loads
        self._named = policy if isinstance(policy, str) else None
        self._decide = decide if isinstance(policy, str) else partial(decide_by, policy)
        self._sockets, self._whole = sockets, whole_platform(node.platform, sockets)
        self._state: State = initial(node, sockets)
        seen = original or Original(
            board_platform(node.platform, sockets, levers=levers, regulator=regulator, by_domain=by_domain),
            partial(grant_of, platform=self._whole),
            whole_node(Node(self._whole, node.services, node.jobs)),
            describe(node, loads),
        )
        self._platform, self._granted, self._services = seen.platform, seen.granted, seen.services
        self._first_grants = seen.grants
        self._grants: list[Grant] = list(seen.grants)
        self._pending: list[Grant] = self._grants
        self._decision: Decision | None = None
        self._assignments: list[Assignment] = []
        self._partition: Partition | None = None
        self._divided_among = frozenset[str]()
        self._there = frozenset[str]()
        self._seq = 0

    @property
    def platform(self) -> Platform:
        """The node as the policy counts it."""
        return self._platform

    @property
    def time_s(self) -> float:
        """Seconds since the start of the node."""
        return self._state.time_s

    @property
    def decision(self) -> Decision | None:
        """The last decision: in force from the next interval on."""
        return self._decision

    def loads_now(self) -> dict[str, float]:
        """Loads of the services that are there now."""
        if isinstance(self.loads, Churn):
            return dict(self.loads.at(self._state.time_s))
        now = self._state.time_s
        return {n: float(t) if isinstance(t, int | float) else loads_at(t, now) for n, t in self.loads.items()}

    def step(self) -> Interval:
        """One interval, then the decision on what it showed (in force `delay_s` into the next interval)."""
        in_force, began_s = self._decision, self._state.time_s
        loads = self.loads_now()
        self._come_and_go(frozenset(loads))
        node = self.node if self._drift is None else self._drift.node(self.node, began_s)
        before, rest_s = None, self.interval_s
        if self.delay_s > 0 and self._pending != self._grants:
            self._state, before = advance(
                node, self._sockets, self._state, self._grants, loads, self.delay_s, self._shocks(1)
            )
            rest_s -= self.delay_s
        self._grants = self._pending
        self._state, flows = advance(node, self._sockets, self._state, self._grants, loads, rest_s, self._shocks(0))
        self._measured.append(self._measure(before, flows, loads))
        observed = self._sensors.shown(self._measured, self._seq)
        fault = self._ask(observed) if observed else None
        self._seq += 1
        return Interval(in_force, flows, observed, began_s, before, fault)

    def run(self, seconds: float) -> list[Interval]:
        """So many seconds."""
        return [self.step() for _ in range(round(seconds / self.interval_s))]

    def _come_and_go(self, there: frozenset[str]) -> None:
        """Who has left takes its requests and its lines in the cache along; who comes has what all had at first."""
        left = [i for i, name in enumerate(self.node.names) if name in self._there - there]
        if left:
            self._state = without(self._state, left)
        for i, name in enumerate(self.node.names):
            if name in there - self._there:
                self._grants[i] = self._pending[i] = self._first_grants[i]
        self._there = there

    def _shocks(self, part: int) -> FloatArray:
        """How chance moves the queues in a part of this interval: the same for every policy."""
        return np.array([self._noise(i, part + 1).standard_normal() for i in range(len(self._services))])

    def _noise(self, tenant: int, part: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(key=[self.seed, tenant], counter=[0, 0, part, self._seq]))

    def _measure(self, before: list[Flow] | None, flows: list[Flow], loads: Mapping[str, float]) -> list[Service]:
        found: list[Service] = []
        for i, known in enumerate(self._services):
            if known.name in self._hidden:
                continue
            if known.kind == "lc" and isinstance(self.loads, Churn) and known.name not in loads:
                continue
            parts = [flows[i]] if before is None else [before[i], flows[i]]
            found.append(observed_service(known, measure(parts, self._noise(i, 0), self._sensors.seen)))
        return found

    def _ask(self, observed: list[Service]) -> str | None:
        """Ask for the next decision; what was wrong with it where the loop is tolerant, and then nothing changes."""
        in_force, names = self._decision, frozenset(service.name for service in observed)
        if names != self._divided_among:
            self._partition = None  # as the agent does: it divides the node among others than those who are there now
        observation = Observation(
            node="virtual",
            seq=self._seq,
            time_s=self._state.time_s,
            interval_s=self.interval_s,
            platform=self._platform,
            services=observed,
            policy=self._named,
            partition=self._partition,
            assignments=self._assignments,
            policy_state=None if in_force is None else in_force.policy_state,
        )
        try:
            self._decision = self._decide(observation, seed=self.seed)
        except Exception as error:
            if not self.tolerant:
                raise
            return f"{type(error).__name__}: {error}"
        self._partition, self._divided_among = self._decision.partition, names
        self._assignments = self._decision.assignments
        given = {assignment.service: self._granted(assignment) for assignment in self._assignments}
        self._pending = [given.get(name, old) for name, old in zip(self.node.names, self._grants, strict=True)]
        return None


def describe(node: Node, loads: Mapping[str, float | Trace] | Churn) -> list[Service]:
    """Names, targets, ideal latencies, solo speeds, threads: what does not change from interval to interval.

    Ideal latencies and solo speeds are those on one socket.
    """
    platform, found = node.platform, list[Service]()
    for model in node.services:
        load = None if isinstance(loads, Churn) else loads.get(model.name)
        usual = float(load) if isinstance(load, int | float) else USUAL_LOAD
        found.append(
            Service(
                name=model.name,
                kind="lc",
                target_ms=model.target_ms,
                percentile=cast(Percentile, model.percentile),
                ideal_ms=_ideal_ms(platform, model, usual),
                counters=Counters(threads=model.threads),
            )
        )
    for job in node.jobs:
        ipc, work = _solo_speed(platform, job)
        counters = Counters(threads=job.threads)
        found.append(Service(name=job.name, kind="be", counters=counters, ipc_solo=ipc, work_rate_solo=work))
    return found


_ideal_ms = cache(known_ideal_ms)
_solo_speed = cache(solo_speed)


def observed_service(known: Service, measured: Measurement) -> Service:
    """A tenant with what was measured of it."""
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
        rss_mib=measured.rss_mib,
        disk_iops=measured.disk_iops,
        network_mbps=measured.network_mbps,
        work_rate=measured.work_rate if known.kind == "be" else None,
        threads=known.counters.threads,
    )
    return replace(known, latency=latency, counters=counters)


@lru_cache(maxsize=8192)
def grant_of(assignment: Assignment, platform: PlatformModel) -> Grant:
    """An assignment as the engine reads it; what it does not name has no limit."""
    cpus = range(platform.cpus) if assignment.cpus is None else parse_cpulist(assignment.cpus)
    mask = (1 << platform.ways) - 1 if assignment.way_mask is None else int(assignment.way_mask, 16)
    knobs = assignment.knobs or Knobs()
    return Grant(
        frozenset(cpus),
        mask,
        cpu_quota=assignment.cpu_quota,
        cpu_weight=100.0 if assignment.cpu_weight is None else assignment.cpu_weight,
        mba_percent=_percent(assignment.mba, platform),
        mba_gbps=_gbps(assignment.mba, platform),
        frequency_ghz=None if knobs.frequency_mhz is None else knobs.frequency_mhz / 1e3,
        memory_gib=None if knobs.memory_mib is None else knobs.memory_mib / 1024.0,
        disk_iops=knobs.disk_iops,
        network_gbps=None if knobs.network_mbps is None else knobs.network_mbps / 1e3,
        priority=knobs.realtime_priority or 0,
        slice_ms=knobs.slice_ms,
    )


def _percent(mba: int | None, platform: PlatformModel) -> float | None:
    """Intel's throttle, in percent of what the memory gives."""
    return None if mba is None or not platform.mba or platform.vendor == "amd" else mba


def _gbps(mba: int | None, platform: PlatformModel) -> float | None:
    """AMD's throttle, for each cache domain, or without MBA that of the software regulator; None without a limit.

    The regulator counts bytes. So who wants more moves all of its budget, and no MAX_UTILISATION of it.
    """
    if mba is None:
        return None
    if platform.mba:
        return None if platform.vendor != "amd" or mba >= UNLIMITED_EIGHTHS else mba / 8.0
    return None if mba >= round(platform.bandwidth_gbps * 1e3) else mba / 1e3 / MAX_UTILISATION
