"""What became of the last decision on the machine, and what that means for the next one."""

from __future__ import annotations

from msgspec.structs import replace

from osml.domain import Observation, Partition, partition_error
from osml.policies.osml.node import Cell, Node
from osml.policies.osml.remembered.state import PARTED, POOLED, SHARED, SOME, OsmlState, Refused

NOT_DONE = ("refused", "rolled_back", "failed")

LONGEST = 32
"""Intervals that pass at most before an agent that did not carry out a decision is asked again: 2, 4, 8 and so on."""


def after_outcome(observation: Observation, cells: dict[str, Cell], state: OsmlState) -> OsmlState:
    """The state, without what the last decision changed in it where that was not carried out; `cells` are applied."""
    outcome, refused = observation.outcome, state.refused
    if outcome is None or outcome.seq != state.seq:
        return state
    if outcome.status not in NOT_DONE:
        return replace(state, refused=None) if refused is not None and refused.asked else state
    times = 1 if refused is None else min(refused.times + 1, 64)
    shared = [] if observation.partition is None else [set(region.owners) for region in observation.partition.regions]
    return replace(
        state,
        known={name: replace(one, before=None, underway=False) for name, one in state.known.items()},
        kind=_way(observation, cells, state),
        age=0,
        on_leftovers=state.on_leftovers if cells else [],
        pairs=[pair for pair in state.pairs if {pair.taker, pair.giver} in shared],
        refused=Refused(times, min(2**times, LONGEST)),
    )


def _way(observation: Observation, cells: dict[str, Cell], state: OsmlState) -> str:
    """The way in which the node is run with what is applied."""
    if not cells:
        return SHARED
    if state.on_leftovers:
        return SOME
    regions = [] if observation.partition is None else observation.partition.regions
    others = {service.name for service in observation.services if service.kind == "lc"} - set(cells)
    together = any(region.cores and len(others.intersection(region.owners)) > 1 for region in regions)
    return POOLED if len(cells) == 1 and together else PARTED


def in_words(observation: Observation) -> str:
    """Why what was decided is not on the machine."""
    outcome = observation.outcome
    if outcome is None or outcome.status not in NOT_DONE:
        return "the applied partition is not the last decision"
    return f"the last decision was {outcome.status.replace('_', ' ')}: {outcome.message or 'no reason given'}"


def why_held(observation: Observation, refused: Refused) -> str:
    """The same while an agent is not asked: its last outcome may be that it went on as it was told to."""
    outcome = observation.outcome
    if outcome is None or outcome.status not in NOT_DONE:
        return f"the agent did not apply the last decision ({refused.times} in a row)"
    return in_words(observation)


def stands(partition: Partition, node: Node) -> bool:
    """Whether a partition is legal for the platform, the services and the operator's limits of now."""
    names = [service.name for service in node.observation.services]
    if partition_error(partition, node.observation.platform, names) is not None:
        return False
    has_ways = node.ways is not None
    parts = {name: Cell(partition.cores_of(name), partition.ways_of(name) if has_ways else 0) for name in names}
    return all(node.bounded(name, *part) == part for name, part in parts.items())
