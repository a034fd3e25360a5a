"""The upper bounds: policies that are told the loads and apply at once the best that the node's equations know.

`oracle` is the exact best partition into isolated parts, or one region that all share where that is better; both at
constant load. Parts that meet all targets by a hair can stay above them behind a backlog (a cold start, a load that was
too high): the oracle then lends the services what is idle or BE jobs', and where that does not help shares, where that
meets the targets, too. Regions that some share, and knobs, can do better still.
`oracle:isolated` never shares between services: the oracle that PARTIES compares itself with finds the best allocation
of parts (section 5.2.3). Neither is a policy of `osml.policies`, because they need the equations of the node: only the
bench has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from msgspec import Struct

from osml.allocation.policy import Plan
from osml.domain import Infeasible, Observation, Partition, Platform, Reason, Region
from osml.simulator.oracle import Answer, best_partition
from osml.simulator.oracle.partitions import Outcome
from osml.simulator.oracle.shared import settle_shared
from osml.simulator.state import Node

NAME, ISOLATED = "oracle", "oracle:isolated"
ORACLES = (NAME, ISOLATED)
DRAINS = 2
"""Observations with a missed target in a row after which all that is idle or BE jobs' is lent.

What is BE jobs' only until all targets are met, what is idle for as long as the best partition is the same.
"""
GAVE_UP = 10
"""Observations with a missed target in a row after which the oracle takes the other way."""

LIMIT_WORK = 200_000
"""Units of work (osml.simulator.oracle.deadline) of the exact search for one set of loads: some 15 s of a core.

On nearly all mixes a tenth is enough. Not seconds: the same seed must give the same rows on every machine.
"""


@dataclass(frozen=True)
class BestFor:
    """The oracle's answer for one set of loads. `feasible` is None where the search ended before either was proven.

    `proven` is False where the search ended early: there may be a better partition, of less cost or of lower E_S.
    """

    partition: Partition
    feasible: bool | None
    missing: list[str]
    e_s: float
    cores: int
    ways: int
    proven: bool = True
    instead: Partition | None = None
    """Shares everything and meets all targets, where `partition` doesn't do it in practice."""


def best_for(node: Node, loads: Mapping[str, float], isolated: BestFor | None = None) -> BestFor:
    """The better of what isolation (`best_isolated`, where that is known already) and what sharing everything can do.

    Isolated parts where they meet all targets and nothing is gained for BE jobs by sharing, because they leave more to
    others; else what meets all targets, else the least E_S.
    """
    smaller = _present(node, loads)
    isolated = isolated or best_isolated(node, loads)
    shared = settle_shared(smaller, loads)
    better = (shared.feasible, -shared.e_s) > (isolated.feasible is True, -isolated.e_s)
    if better:
        found = _all_share(smaller, shared)
        undecided = isolated.feasible is None and not shared.feasible
        return replace(found, proven=isolated.proven, feasible=None if undecided else found.feasible)
    return replace(isolated, instead=_all_share(smaller, shared).partition) if shared.feasible else isolated


def best_isolated(node: Node, loads: Mapping[str, float]) -> BestFor:
    """The exact best partition into isolated parts, or the best that was found within LIMIT_WORK."""
    smaller = _present(node, loads)
    return as_regions(smaller, best_partition(smaller, loads, limit_work=LIMIT_WORK))


class Answers:
    """What the oracles say of a scenario's nodes, each set of loads asked once: no noise, so no seed changes it.

    A scenario has more than one node where jobs are hidden: feasibility counts them, a policy does not know of them.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, Node, tuple[tuple[str, float], ...]], BestFor] = {}

    def best(self, oracle: str, node: Node, loads: Mapping[str, float]) -> BestFor:
        """The answer of the oracle of that name; `loads` are those of the services that are there."""
        key = (oracle, node, tuple(sorted(loads.items())))
        if key not in self._known:
            if oracle == ISOLATED:
                self._known[key] = best_isolated(node, loads)
            else:
                self._known[key] = best_for(node, loads, self.best(ISOLATED, node, loads))
        return self._known[key]


def _present(node: Node, loads: Mapping[str, float]) -> Node:
    """The node with the services that have a load now."""
    return Node(node.platform, tuple(service for service in node.services if service.name in loads), node.jobs)


def _all_share(node: Node, outcome: Outcome) -> BestFor:
    cores, ways = node.platform.cpus, node.platform.ways
    region = Region([tenant.name for tenant in node.tenants], cores, ways)
    feasible = outcome.feasible
    missing = [] if feasible else ["no isolated partition meets all targets, and one shared region does not either"]
    return BestFor(Partition([region]), feasible, missing, outcome.e_s, cores, ways)


def as_regions(node: Node, answer: Answer) -> BestFor:
    """An answer of the oracle for a node whose services are all there."""
    rows = answer.partition.tolist()
    owners = [[service.name] for service in node.services] + [[job.name for job in node.jobs]]
    regions = [Region(names, row[0], row[1]) for names, row in zip(owners, rows, strict=True) if names]
    used = answer.partition[: len(node.services)].sum(axis=0)
    feasible = True if answer.outcome.feasible else False if answer.proven else None
    return BestFor(
        Partition(regions), feasible, answer.missing, answer.outcome.e_s, int(used[0]), int(used[1]), answer.proven
    )


def _lent(partition: Partition, services: frozenset[str], missing: list[str], platform: Platform) -> Partition:
    """What is idle or in regions of BE jobs alone beyond the least, in equal parts to whose targets are missed."""
    regions = list(partition.regions)
    takers = [i for i, region in enumerate(regions) if set(region.owners) & set(missing)]
    if not takers:
        return partition
    for at, region in enumerate(regions):
        if not services & set(region.owners):
            regions[at] = Region(region.owners, min(1, region.cores), min(platform.min_way_bits, region.ways))
    idle = (platform.cores - sum(r.cores for r in regions), (platform.ways or 0) - sum(r.ways for r in regions))
    for number, at in enumerate(takers):
        cores, ways = (units // len(takers) + (number < units % len(takers)) for units in idle)
        regions[at] = Region(regions[at].owners, regions[at].cores + cores, regions[at].ways + ways)
    return Partition(regions)


class OracleState(Struct, frozen=True):
    """What happened with `best`, the best partition; where the best one is another, the loads are others, too.

    `missed`: observations in a row that missed a target. `gave_up`: all share in its place. `takers`: who keeps what is
    idle, because it missed its target without.
    """

    best: Partition | None = None
    missed: int = 0
    gave_up: bool = False
    takers: list[str] = []


class Oracle:
    """Applies what `known` says for the present loads of the services that it observes, whatever else it sees."""

    version = 1
    whole_node = True
    State = OracleState

    def __init__(self, name: str, known: Callable[[frozenset[str]], BestFor]) -> None:
        self.name, self._known = name, known

    def initial(self, observation: Observation, seed: int) -> OracleState:
        """Nothing missed yet."""
        return OracleState()

    def decide(self, observation: Observation, state: OracleState) -> tuple[Plan, OracleState]:
        """The best partition."""
        names = [service.name for service in observation.services if service.kind == "lc"]
        best = self._known(frozenset(names))
        why = "; ".join(best.missing) or "neither an isolated partition nor one shared region meets all targets"
        infeasible = Infeasible(names, why) if best.feasible is False else None
        missing = [s.name for s in observation.services if s.slack is not None and s.slack < 0]
        if state.best != best.partition:
            state = OracleState(best.partition)
        missed = state.missed + 1 if missing and not state.gave_up else 0
        gave_up = best.instead is not None and (state.gave_up or missed >= GAVE_UP)
        takers = missing if missed >= DRAINS else []
        if all(service.kind == "lc" for service in observation.services):
            takers = sorted({*state.takers, *takers})
        partition = best.partition
        if gave_up and best.instead is not None:
            partition = best.instead
        elif best.feasible:
            partition = _lent(best.partition, frozenset(names), takers, observation.platform)
        reason = Reason(text=f"{self.name}: the best partition by the equations of the node")
        return Plan(partition, [reason], infeasible), OracleState(best.partition, missed, gave_up, takers)
