"""A policy on a twin: each member is run under it in closed loop, so its decisions have their consequences.

The policy sees the machine of the record with its platform, but for levers that do nothing on a twin. Its assignments
mean what they mean there.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from osml.allocation.policy import Policy
from osml.base.failure import InputError
from osml.domain import Assignment, Partition, Service
from osml.entropy import system_entropy
from osml.records import Record
from osml.simulator.closed_loop import ClosedLoop, Original, describe
from osml.simulator.columns import FloatArray
from osml.simulator.load_traces import Steps, Trace
from osml.simulator.state import Grant, Node
from osml.simulator.surface import solo_speed
from osml.twin.ensemble import Ensemble, grants_for, node_of, quota_of
from osml.twin.forward import only
from osml.twin.machine import grant_in_force, modelled
from osml.twin.scenes import Scene, Tenant, rate_of, tenants_of
from osml.twin.trajectory import names_of, with_rates_of
from osml.twin.world import LONGEST_MS

MEMBERS = 5
CONVERGED_S, JUDGED_S = 60, 30
"""Under a policy a scene lasts so long before it is looked at, and so long it is looked at."""


def outcomes_under(
    ensemble: Ensemble, scenes: Sequence[Scene], policy: str | Policy, *, members: int = MEMBERS, seed: int = 0
) -> list[list[dict[str, float]]]:
    """Latency in ms of services and speed of jobs under a policy, by member and scene.

    InputError where a service has no target.
    """
    _check_targets(ensemble, {name for scene in scenes for name in scene.present})
    some = ensemble.some(members)
    return [[_judged(some, member, scene, policy, seed) for scene in scenes] for member in range(some.size)]


def _check_targets(ensemble: Ensemble, names: AbstractSet[str]) -> None:
    """Policies know no service without a target."""
    for one in ensemble.tenants:
        if one.kind == "lc" and one.target_ms is None and one.name in names:
            raise InputError(
                f"service '{one.name}' has no target_ms, without which no policy can decide; set it in the agent's "
                "configuration, and fit a twin to a record from then on"
            )


def _judged(ensemble: Ensemble, member: int, scene: Scene, policy: str | Policy, seed: int) -> dict[str, float]:
    node = only(node_of(ensemble, member), scene.present)
    loads = {one.name: scene.rates.get(one.name, 0.0) / one.max_load for one in node.services}
    original = _original(ensemble, member, node, loads, ensemble.tenants)
    loop = ClosedLoop(node, loads, policy, seed=seed, original=original)
    loop.run(CONVERGED_S)
    last = loop.run(JUDGED_S)
    found: dict[str, float] = {}
    for at, service in enumerate(node.services):
        tails = [min(one.tail_ms(at, service.percentile), LONGEST_MS) for one in last]
        found[service.name] = float(np.median(tails))
    for at, job in enumerate(node.jobs, start=len(node.services)):
        done = np.mean([one.flows[at].instructions / one.flows[at].dt / 1e9 for one in last])
        found[job.name] = float(done) / solo_speed(node.platform, job)[1]
    return found


def _original(
    ensemble: Ensemble, member: int, node: Node, loads: Mapping[str, float | Trace], limits: Sequence[Tenant]
) -> Original:
    """The machine of the record, for which the node of a member stands. It has one cache, whatever the machine has.

    `limits` has those of the operator.
    """
    values, limit = ensemble.values(member), {one.name: one for one in limits}
    first = grants_for(ensemble, values, {})

    def granted(assignment: Assignment) -> Grant:
        quota = quota_of(ensemble, values, assignment.service)
        return grant_in_force(assignment, ensemble.platform, ensemble.machine, quota)

    services = [_limited(one, limit.get(one.name)) for one in describe(node, loads)]
    return Original(modelled(ensemble.platform), granted, [first[name] for name in node.names], services)


def _limited(service: Service, by: Tenant | None) -> Service:
    """The service with the operator's limits."""
    if by is None:
        return service
    return replace(service, min_cores=by.min_cores, max_cores=by.max_cores, min_ways=by.min_ways, max_ways=by.max_ways)


@dataclass(frozen=True)
class Run:
    """A policy along a record: `latency_ms` (members, intervals, services), `e_s` (members, intervals).

    Both are NaN where nothing is answered because nobody asks. `partitions` are what the first member's policy decided
    on each interval: in force from the next one on.
    """

    latency_ms: FloatArray
    e_s: FloatArray
    partitions: list[Partition]


def run_along(
    ensemble: Ensemble, record: Record, policy: str | Policy, *, members: int = MEMBERS, seed: int = 0
) -> Run:
    """Every member under a policy, with the loads and the operator's limits of the record.

    A service that is not there has no load; jobs are there all the time. InputError where a service has no target.
    """
    _check_targets(ensemble, {one.name for one in ensemble.tenants})
    known = with_rates_of(ensemble, record).some(members)
    names, count = names_of(known), len(record.lines)
    latency, entropy = np.full((known.size, count, len(names)), np.nan), np.full((known.size, count), np.nan)
    partitions: list[Partition] = []
    interval_s = statistics.median(line.observation.interval_s for line in record.lines)  # single ones may be late
    loads = loads_along(record, known.rates, interval_s)
    limits = [*known.tenants, *tenants_of(record)]  # those of the record win
    for member in range(known.size):
        node = node_of(known, member)
        original = _original(known, member, node, loads, limits)
        loop = ClosedLoop(node, loads, policy, interval_s=interval_s, seed=seed, original=original)
        for at in range(count):
            asked = loop.loads_now()
            step = loop.step()
            if member == 0 and loop.decision is not None:
                partitions.append(loop.decision.partition)
            for place, service in enumerate(node.services):
                if asked.get(service.name, 0.0) > 0:
                    latency[member, at, place] = min(step.tail_ms(place, service.percentile), LONGEST_MS)
            e_s = system_entropy(step.observed).e_s
            entropy[member, at] = np.nan if e_s is None else e_s
    return Run(latency, entropy, partitions)


def loads_along(record: Record, rates: Mapping[str, float], interval_s: float) -> dict[str, float | Trace]:
    """Loads of every service over the record as shares of its highest rate.

    They change in the middle of the interval before: the clock of a loop is a sum of intervals, and may be a little
    before or after their multiples.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in rates}
    for at, line in enumerate(record.lines):
        there = {service.name: rate_of(service) for service in line.observation.services if service.kind == "lc"}
        for name, changes in found.items():
            rate = there.get(name, 0.0)
            before = changes[-1][1] if changes else 0.0
            changes.append(((at - 0.5) * interval_s, before if rate is None else min(rate / rates[name], 2.0)))
    return {name: Steps(changes[0][1], tuple(changes[1:])) for name, changes in found.items() if changes}
