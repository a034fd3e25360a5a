"""Whether a mix can be satisfied at all: the oracle's answer, or what a few good partitions show where it has none.

The oracle searches exactly, for mixes of a few services whose jobs are all managed. For more services, and beside jobs
that nobody manages, some partitions are settled: one that meets all targets proves that the mix is feasible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from osml.domain import Observation, Partition, Region, Service
from osml.lab.bench.oracle_policy import NAME, Answers
from osml.lab.bench.scenario import Scenario
from osml.layout import assign
from osml.policies.staffing import Staffing
from osml.simulator.closed_loop import describe, grant_of
from osml.simulator.node_platform import domain_platform
from osml.simulator.state import Flow, Grant, Node
from osml.simulator.steady import steady
from osml.simulator.surface import tail_ms, whole_node

_MOST_EXACT = 4
"""Services for which the exact search takes seconds."""

_STAFFED = (1.0, 1.5, 2.0, 10.0)
"""Times the CPU use that services really have: what `staffing` makes of it, up to parts that fill the node."""

_SETTLE_S = 20.0


@dataclass(frozen=True)
class Feasible:
    """`feasible` is None where neither was proven; `cores`, `ways` and `e_s` are of the oracle's partition.

    They are None where it is not proven that none is better.
    """

    feasible: bool | None
    cores: int | None = None
    ways: int | None = None
    e_s: float | None = None

    @property
    def row(self) -> dict[str, Any]:
        """Columns of the results."""
        return {
            "feasible_oracle": self.feasible,
            "oracle_cores": self.cores,
            "oracle_ways": self.ways,
            "oracle_e_s": self.e_s,
        }


def asked(scenario: Scenario, answers: Answers) -> Feasible:
    """Whether the scenario, at constant load, can meet all targets; where its work drifts, at all its busiest moments.

    The most work together is not always the hardest: the first of these moments that can't be satisfied decides.
    """
    variant = scenario.variant
    nodes = [scenario.node] if variant is None else variant.busiest(scenario.limit_s)
    found: list[Feasible] = []
    for node in nodes:
        found.append(_asked_of(node, scenario, answers))
        if found[-1].feasible is False:
            return found[-1]
    return next((one for one in found if one.feasible is None), found[0])


def _asked_of(node: Node, scenario: Scenario, answers: Answers) -> Feasible:
    variant, loads = scenario.variant, scenario.mix.loads
    hidden = frozenset[str]() if variant is None else variant.hidden
    if variant is not None and len(node.services) > _MOST_EXACT:
        return Feasible(_shown(node, loads, hidden, None))
    known = answers.best(NAME, node, loads)
    if hidden and known.feasible is not False:
        return Feasible(_shown(node, loads, hidden, _without(known.partition, hidden)))
    if not known.proven:  # a partition that meets all targets is proof enough, but a better one may exist
        return Feasible(known.feasible)
    return Feasible(known.feasible, known.cores, known.ways, known.e_s)


def _shown(node: Node, loads: Mapping[str, float], hidden: frozenset[str], best: Partition | None) -> bool | None:
    """True where one of some partitions meets all targets, False where a service without the others misses its own."""
    seen = [one for one in describe(node, loads) if one.name not in hidden]
    shared = _settled(node, loads, whole_node(node))
    candidates = _staffed(node, seen, shared)
    for partition in candidates if best is None else (best, *candidates):
        if _met(node, _settled(node, loads, _grants(node, seen, partition))):
            return True
    if _met(node, shared):
        return True
    unseen = tuple(job for job in node.jobs if job.name in hidden)
    alone = [Node(node.platform, (service,), unseen) for service in node.services]
    best_of = [_settled(one, {one.names[0]: loads[one.names[0]]}, whole_node(one)) for one in alone]
    return None if all(_met(one, flows) for one, flows in zip(alone, best_of, strict=True)) else False


def _staffed(node: Node, seen: list[Service], shared: list[Flow]) -> Iterator[Partition]:
    """What `staffing` plans for the CPU use that services have when all share everything, and for more."""
    usage = {name: flow.cpu_s / flow.dt for name, flow in zip(node.names, shared, strict=True)}
    platform = domain_platform(node.platform)
    for times in _STAFFED:
        services = [
            replace(one, counters=replace(one.counters, cpu_usage_cores=times * usage[one.name])) for one in seen
        ]
        observed = Observation("virtual", 0, 0.0, 1.0, platform, services)
        policy = Staffing()
        yield policy.decide(observed, policy.initial(observed, 0))[0].partition


def _grants(node: Node, seen: list[Service], partition: Partition) -> list[Grant]:
    """The partition on the node; who is not in it uses everything."""
    platform = domain_platform(node.platform)
    given = {one.service: grant_of(one, node.platform) for one in assign(partition, platform, seen)}
    return [given.get(name, all_of_it) for name, all_of_it in zip(node.names, whole_node(node), strict=True)]


def _settled(node: Node, loads: Mapping[str, float], grants: list[Grant]) -> list[Flow]:
    return steady(node, grants, dict(loads), _SETTLE_S)


def _met(node: Node, flows: list[Flow]) -> bool:
    served = zip(node.services, flows, strict=False)
    return all(tail_ms(flow, service.percentile) <= service.target_ms for service, flow in served)


def _without(partition: Partition, hidden: frozenset[str]) -> Partition:
    """The partition for those who are not hidden."""
    kept = [
        Region([name for name in one.owners if name not in hidden], one.cores, one.ways) for one in partition.regions
    ]
    return Partition([region for region in kept if region.owners])
