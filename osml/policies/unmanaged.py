"""Unmanaged: everybody shares everything, as on a machine without a scheduler of this kind.

The baseline of all papers here (Ah-Q section VII, OSML section 6): the operating system divides time, the cache is free
for all. Nobody has a part of its own, so an operator's maximum can't be kept: the agent refuses such a decision.
"""

from __future__ import annotations

from msgspec import Struct

from osml.allocation.policy import Plan
from osml.domain import Infeasible, Observation, Partition, Reason, Region


class UnmanagedState(Struct, frozen=True):
    """Nothing to remember."""


class Unmanaged:
    """One region of all cores and all ways, owned by all services."""

    name = "unmanaged"
    version = 1
    whole_node = True
    State = UnmanagedState

    def initial(self, observation: Observation, seed: int) -> UnmanagedState:
        """Nothing to remember."""
        return UnmanagedState()

    def decide(self, observation: Observation, state: UnmanagedState) -> tuple[Plan, UnmanagedState]:
        """The same plan for every observation."""
        partition, text = shared_by_all(observation)
        return Plan(partition, [Reason(text=f"unmanaged: {text}")], beyond_limits(observation)), state


def shared_by_all(observation: Observation) -> tuple[Partition, str]:
    """One region of all cores and ways for everybody on the node, and that in words."""
    cores, ways = observation.platform.cores, observation.platform.ways or 0
    names = [service.name for service in observation.services]
    text = f"{len(names)} service(s) share all {cores} cores" + (f" and {ways} ways" if ways else "")
    return Partition([Region(names, cores, ways)]), text


def beyond_limits(observation: Observation) -> Infeasible | None:
    """Who may not have all cores and ways: the agent refuses to give more than a maximum."""
    platform, found = observation.platform, dict[str, list[str]]()
    for service in observation.services:
        for field, most, all_of_it in (
            ("max_cores", service.max_cores, platform.cores),
            ("max_ways", service.max_ways, platform.ways),
        ):
            if most is not None and all_of_it is not None and most < all_of_it:
                found.setdefault(service.name, []).append(field)
    if not found:
        return None
    listed = ", ".join(f"{name} has {' and '.join(fields)}" for name, fields in found.items())
    return Infeasible(list(found), f"the agent refuses to share everything: {listed}; remove it or use another policy")
