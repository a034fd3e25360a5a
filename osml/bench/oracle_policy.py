"""The best that isolation can do: a policy that is told the loads and applies the exact best partition at once.

It divides cores and ways into isolated parts, so a policy that shares, or that sets knobs, can do better. It is no
policy of `osml.policies`, because it needs the equations of the node: only the bench has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msgspec import Struct

from osml.domain import Infeasible, Observation, Partition, Reason, Region
from osml.policies.policy import Plan
from osml.virtual.oracle import Answer, best_partition
from osml.virtual.state import Node

NAME = "oracle"
LIMIT_S = 20.0
"""How long the exact search may take for one set of loads; on nearly all mixes it takes a fraction of a second."""


@dataclass(frozen=True)
class BestFor:
    """The oracle's answer for one set of loads. `feasible` is None where the time was up before either was proven."""

    partition: Partition
    feasible: bool | None
    missing: list[str]
    e_s: float
    cores: int
    ways: int


def best_for(node: Node, loads: Mapping[str, float]) -> BestFor:
    """Ask the oracle (osml.virtual.oracle) and put its answer into regions; BE jobs share theirs."""
    present = tuple(service for service in node.services if service.name in loads)
    smaller = Node(node.platform, present, node.jobs)
    return as_regions(smaller, best_partition(smaller, loads, LIMIT_S))


def as_regions(node: Node, answer: Answer) -> BestFor:
    """An answer of the oracle for a node whose services are all there."""
    rows = answer.partition.tolist()
    owners = [[service.name] for service in node.services] + [[job.name for job in node.jobs]]
    regions = [Region(names, row[0], row[1]) for names, row in zip(owners, rows, strict=True) if names]
    used = answer.partition[: len(node.services)].sum(axis=0)
    feasible = True if answer.outcome.feasible else False if answer.proven else None
    return BestFor(Partition(regions), feasible, answer.missing, answer.outcome.e_s, int(used[0]), int(used[1]))


class OracleState(Struct, frozen=True):
    """Nothing to remember."""


class Oracle:
    """Applies what `known` says for the present loads of the services that it observes, whatever else it sees."""

    name = NAME
    version = 1
    State = OracleState

    def __init__(self, known: Callable[[frozenset[str]], BestFor]) -> None:
        self._known = known

    def initial(self, observation: Observation, seed: int) -> OracleState:
        """Nothing to remember."""
        return OracleState()

    def decide(self, observation: Observation, state: OracleState) -> tuple[Plan, OracleState]:
        """The best partition."""
        names = [service.name for service in observation.services if service.kind == "lc"]
        best = self._known(frozenset(names))
        why = "; ".join(best.missing) or "no partition into isolated parts meets all targets"
        infeasible = Infeasible(names, why) if best.feasible is False else None
        return Plan(best.partition, [Reason(text="oracle: the exact best partition")], infeasible), state
