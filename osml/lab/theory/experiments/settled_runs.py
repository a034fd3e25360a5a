"""What a node shows after it has settled: under any policy of the registry, or under fixed strict priorities."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from osml.base.failure import InputError
from osml.decide.registry import policy_names
from osml.domain import Knobs, Partition, Region
from osml.lab.theory.abilities import Abilities, abilities, mean_abilities
from osml.simulator.closed_loop import ClosedLoop
from osml.simulator.engine import advance
from osml.simulator.node_platform import LEVERS
from osml.simulator.state import Flow, Grant, Node, initial_state
from osml.simulator.surface import tail_ms

REALTIME_SHARE = 0.95
"""Of the CPU time that real-time tasks get: Linux' sched_rt_runtime_us over sched_rt_period_us, its default."""

PRIORITY_POLICIES = ("arq", "lc_first", "round_robin")
"""Policies that real-time priorities are a part of, by their paper."""


@dataclass(frozen=True)
class Settling:
    """How long a node runs before it counts, how long it counts, and how often a policy decides.

    `knobs`: policies may set frequency, memory, disk, network and priorities besides cores and ways; None: only those
    that priorities are a part of (PRIORITY_POLICIES). Ah-Q's experiments move cores and ways.
    """

    settle_s: float = 60.0
    measure_s: float = 30.0
    interval_s: float = 0.5
    seed: int = 0
    knobs: bool | None = None

    def __post_init__(self) -> None:
        for name in ("settle_s", "measure_s", "interval_s"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise InputError(f"{name} is {getattr(self, name)}, expected a number of seconds")
        if not 0 < self.interval_s <= self.measure_s:
            raise InputError(
                f"measure_s is {self.measure_s}, expected at least one interval_s ({self.interval_s}) above 0"
            )

    @property
    def measured(self) -> int:
        """Intervals that count."""
        return max(1, round(self.measure_s / self.interval_s))

    @property
    def total_s(self) -> float:
        """Both."""
        return self.settle_s + self.measure_s


@dataclass(frozen=True)
class Settled:
    """Medians and means of the counted intervals, without measurement noise (which only the policy sees).

    `tails_ms` of LC services at the percentile of their targets (infinite: nothing was answered), `ipcs` (per cycle)
    and `work_gips` (10^9 instructions/s) of BE jobs, `utilisation` the share of all CPU time that was used, and what
    the policy granted of cores and ways.
    """

    tails_ms: dict[str, float]
    ipcs: dict[str, float]
    work_gips: dict[str, float]
    utilisation: float
    cores: Abilities
    ways: Abilities


def kind_ranks(node: Node) -> dict[str, int]:
    """LC services before BE jobs: what every policy knows of criticality."""
    return {tenant.name: int(at >= len(node.services)) for at, tenant in enumerate(node.tenants)}


def _settled(
    node: Node, flows: Sequence[Sequence[Flow]], partitions: Sequence[Partition], ranks: Mapping[str, int]
) -> Settled:
    n, platform = len(node.services), node.platform
    columns = list(zip(*flows, strict=True))  # one a tenant
    tails = {
        service.name: float(np.median([tail_ms(flow, service.percentile) for flow in columns[i]]))
        for i, service in enumerate(node.services)
    }
    jobs = {job.name: columns[n + i] for i, job in enumerate(node.jobs)}
    span = sum(row[0].dt for row in flows)
    return Settled(
        tails,
        {name: sum(f.instructions for f in of) / max(sum(f.cycles for f in of), 1e-9) for name, of in jobs.items()},
        {name: sum(f.instructions for f in of) / span / 1e9 for name, of in jobs.items()},
        sum(flow.cpu_s for row in flows for flow in row) / span / platform.cpus,
        mean_abilities([abilities(p, "cores", platform.cpus, ranks) for p in partitions]),
        mean_abilities([abilities(p, "ways", platform.ways, ranks) for p in partitions]),
    )


def check_policy(name: str) -> str:
    """The name of a policy of the registry; InputError lists those that exist."""
    if name not in policy_names():
        raise InputError(f"policy '{name}' is unknown, known are {', '.join(policy_names())}")
    return name


def under_policy(
    node: Node, loads: Mapping[str, float], policy: str, settling: Settling, ranks: Mapping[str, int] | None = None
) -> Settled:
    """The node under a policy of the registry, which sees measurements with noise and decides once an interval."""
    check_policy(policy)
    knobs = policy in PRIORITY_POLICIES if settling.knobs is None else settling.knobs
    levers = frozenset(LEVERS if knobs else ())
    loop = ClosedLoop(node, loads, policy, interval_s=settling.interval_s, seed=settling.seed, levers=levers)
    intervals = loop.run(settling.total_s)[-settling.measured :]
    partitions = [interval.decision.partition for interval in intervals if interval.decision is not None]
    return _settled(node, [interval.flows for interval in intervals], partitions, ranks or kind_ranks(node))


def by_priority(node: Node, loads: Mapping[str, float], ranks: Mapping[str, int], settling: Settling) -> Settled:
    """Everybody on all cores and ways, the more critical in a higher real-time class (SCHED_RR), the last in none.

    Ranks are places, the most critical lowest. A BE job in a real-time class is held to REALTIME_SHARE of the CPUs, as
    Linux does, because it would take all of them; an LC service would only be held to it in overload, and is not.
    """
    platform, lowest = node.platform, max(ranks.values())
    everything = frozenset(range(platform.cpus)), (1 << platform.ways) - 1
    grants = [
        Grant(
            *everything, REALTIME_SHARE * platform.cpus if at >= len(node.services) and level else None, priority=level
        )
        for at, level in enumerate(lowest - ranks[name] for name in node.names)
    ]
    state = initial_state(node)
    rows: list[list[Flow]] = []
    for _ in range(round(settling.total_s / settling.interval_s)):
        state, flows = advance(node, state, grants, loads, settling.interval_s)
        rows.append(flows)
    knobs = {n: Knobs(realtime_priority=lowest - ranks[n]) for n in node.names if ranks[n] < lowest}
    partition = Partition([Region(list(node.names), platform.cpus, platform.ways)], knobs=knobs)
    return _settled(node, rows[-settling.measured :], [partition], ranks)
