"""What a run was worth: convergence, violations, resources, entropy, falls off the cliff; from noiseless flows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import UNSET

from osml.allocation.throttle_units import gbps_of
from osml.domain import MbaRange, Partition
from osml.entropy import be_entropy, combine, intolerable, lc_entropy
from osml.simulator.closed_loop import Interval
from osml.simulator.state import Node

CLIFF_TIMES = 5.0
"""A decision that takes from a service and multiplies its latency so, beyond the target, is a fall off the cliff."""


@dataclass(frozen=True)
class Judged:
    """One interval as it really was. Lists are by LC service of the node; NaN where one was not there.

    `cores` and `ways` are what each service can reach, `reserved_gbps` the memory bandwidth that throttles of
    all others leave it (None: they leave none, or somebody has no throttle),
    `used` what LC services hold together; `missed` of `targets` targets were missed, by any amount. `slowdowns` are of
    BE jobs by work done, `ipcs` their instructions per cycle; `busy` is the share of all CPU time that was used.
    """

    time_s: float
    loads: list[float]
    tails_ms: list[float]
    met: bool
    e_lc: float | None
    e_be: float | None
    e_s: float | None
    e_be_ipc: float | None
    e_s_ipc: float | None
    slowdowns: list[float]
    cores: list[int]
    ways: list[int]
    used: tuple[int, int]
    changed: bool
    fault: str | None
    busy: float = 0.0
    ipcs: list[float] = field(default_factory=list[float])
    reserved_gbps: list[float | None] = field(default_factory=list[float | None])
    missed: int = 0
    targets: int = 0


class Judge:
    """Judges intervals one by one, in order. `mba` is the unit of throttles (None: there are none).

    `solo` has the speeds of the first jobs of the node: of those that the policy knows of, who alone count in E_BE.
    `caches`: so many has the node, each with the ways of its platform.
    """

    def __init__(
        self, node: Node, solo: Sequence[tuple[float, float]], mba: MbaRange | None = None, caches: int = 1
    ) -> None:
        self.node, self.solo, self.mba, self.caches = node, solo, mba, caches
        self._last: Partition | None = None
        self._lc = {service.name for service in node.services}

    def __call__(self, interval: Interval, loads: dict[str, float]) -> Judged:
        """The interval without measurement noise. `loads` are those of the services that were there.

        Who has no load and nothing to do has no latency to judge, so it counts as not there.
        """
        node, n = self.node, len(self.node.services)
        loads = {s.name: loads[s.name] for i, s in enumerate(node.services) if _judgeable(loads, s.name, interval, i)}
        there = [service.name in loads for service in node.services]
        tails = [
            interval.tail_ms(i, service.percentile) if there[i] else math.nan for i, service in enumerate(node.services)
        ]
        pairs = [(tail, s.target_ms) for tail, s, here in zip(tails, node.services, there, strict=True) if here]
        e_lc = lc_entropy([intolerable(tail, target) for tail, target in pairs]) if pairs else None
        seconds = sum(part.dt for part in interval.parts(0))
        cpu_s = sum(part.cpu_s for i in range(len(interval.flows)) for part in interval.parts(i))
        jobs = [interval.parts(n + number) for number in range(len(self.solo))]
        instructions = [sum(part.instructions for part in parts) for parts in jobs]
        cycles = [sum(part.cycles for part in parts) for parts in jobs]
        by_work = [_over(work, done / seconds / 1e9) for done, (_, work) in zip(instructions, self.solo, strict=True)]
        ipcs = [done / taken if taken else 0.0 for done, taken in zip(instructions, cycles, strict=True)]
        by_ipc = [_over(solo, ipc) for ipc, (solo, _) in zip(ipcs, self.solo, strict=True)]
        e_be = be_entropy(by_work) if by_work else None
        e_be_ipc = be_entropy(by_ipc) if by_ipc else None
        partition = interval.decision.partition if interval.decision else None
        # The first decision leads away from nothing: that is where every policy begins, not an action.
        changed = partition is not None and self._last is not None and partition != self._last
        self._last = partition or self._last
        return Judged(
            time_s=interval.time_s,
            loads=[loads.get(service.name, math.nan) for service in node.services],
            tails_ms=tails,
            met=all(tail <= target for tail, target in pairs),
            e_lc=e_lc,
            e_be=e_be,
            e_s=combine(e_lc, e_be),
            e_be_ipc=e_be_ipc,
            e_s_ipc=combine(e_lc, e_be_ipc),
            slowdowns=by_work,
            cores=[_reached(partition, s.name, "cores", node.platform.cpus) for s in node.services],
            ways=[_reached(partition, s.name, "ways", node.platform.ways) for s in node.services],
            used=self._used(partition),
            changed=changed,
            fault=interval.fault,
            busy=cpu_s / seconds / node.platform.cpus,
            ipcs=ipcs,
            reserved_gbps=[self._reserved(partition, service.name) for service in node.services],
            missed=sum(not tail <= target for tail, target in pairs),
            targets=len(pairs),
        )

    def _reserved(self, partition: Partition | None, name: str) -> float | None:
        """GB/s that a service has for sure: what the others' throttles leave, no more than its own."""
        if self.mba is None or partition is None or not {*self.node.names}.issubset(partition.mba):
            return None
        peak = self.node.platform.bandwidth_gbps
        gbps = {tenant: gbps_of(throttle, self.mba, peak) for tenant, throttle in partition.mba.items()}
        reserved = min(gbps[name], peak - sum(others for tenant, others in gbps.items() if tenant != name))
        return reserved if reserved > 0 else None

    def _used(self, partition: Partition | None) -> tuple[int, int]:
        """Cores and ways in regions of LC services, shared ones included; the way mask of a region that is in no cache
        domain holds in every cache.
        """
        if partition is None:
            return self.node.platform.cpus, self.node.platform.ways * self.caches
        held = [region for region in partition.regions if self._lc.intersection(region.owners)]
        ways = sum(region.ways * (self.caches if region.domain is UNSET else 1) for region in held)
        return sum(region.cores for region in held), ways


def _judgeable(loads: Mapping[str, float], name: str, interval: Interval, tenant: int) -> bool:
    """Whether a service that is there was asked for something, or had something left to do."""
    if name not in loads:
        return False
    return loads[name] > 0 or any(part.requests > 0 or max(part.backlog_ms) > 0 for part in interval.parts(tenant))


def _reached(partition: Partition | None, name: str, resource: str, everything: int) -> int:
    if partition is None:
        return everything
    return partition.cores_of(name) if resource == "cores" else partition.ways_of(name)


def _over(solo: float, now: float) -> float:
    return math.inf if now <= 0 else max(1.0, solo / now)


def converged_at(judged: Sequence[Judged], intervals: int) -> int | None:
    """Index of the first interval from which all targets hold for so many in a row; None where there is none."""
    held = 0
    for index, interval in enumerate(judged):
        held = held + 1 if interval.met else 0
        if held == intervals:
            return index - intervals + 1
    return None


def longest_met(judged: Sequence[Judged]) -> int:
    """The most intervals in a row in which all targets hold."""
    longest = held = 0
    for interval in judged:
        held = held + 1 if interval.met else 0
        longest = max(longest, held)
    return longest


def falls(node: Node, judged: Sequence[Judged]) -> tuple[int, int]:
    """Downward decisions (one a service that met its target), and how many of them were falls off the cliff.

    A fall: within two intervals after something was taken from the service, at the same load, its tail is over its
    target and CLIFF_TIMES what it was.
    """
    downward = fallen = 0
    for at in range(1, len(judged)):
        before, after = judged[at - 1], judged[at]
        if not after.changed:
            continue
        for i, service in enumerate(node.services):
            taken = after.cores[i] < before.cores[i] or after.ways[i] < before.ways[i]
            if not taken or not before.tails_ms[i] <= service.target_ms or before.loads[i] != after.loads[i]:
                continue
            downward += 1
            same = [later for later in judged[at : at + 2] if later.loads[i] == before.loads[i]]
            worst = max(later.tails_ms[i] for later in same)
            fallen += worst > service.target_ms and worst >= CLIFF_TIMES * before.tails_ms[i]
    return downward, fallen
