"""What became of the last decision on the machine, and what that means for the next one."""

from __future__ import annotations

from msgspec.structs import replace

from osml.allocation.limits import budgets
from osml.allocation.refusals import NOT_DONE
from osml.domain import Observation, Partition, Reason, partition_error
from osml.policies.osml.facts import Facts
from osml.policies.osml.memory.state import OsmlState, Refused
from osml.policies.osml.node import Cell, Node
from osml.policies.osml.rule import Proposal

LONGEST = 32
"""Intervals that pass at most before an agent that did not carry out a decision is asked again: 2, 4, 8 and so on."""


def after_outcome(observation: Observation, state: OsmlState) -> OsmlState:
    """The state, without what the last decision changed in it where that was not carried out."""
    outcome, refused = observation.outcome, state.refused
    if outcome is not None and outcome.status == "dry_run" and observation.partition is None:
        return OsmlState()  # nothing that is decided ever happens
    if outcome is None or outcome.seq != state.seq:
        return state
    if outcome.status not in NOT_DONE:
        return replace(state, refused=None) if refused is not None and refused.wait == 0 else state
    times = 1 if refused is None else min(refused.times + 1, 64)
    return replace(
        state,
        tracks={name: replace(one, before=None) for name, one in state.tracks.items()},
        age=0,
        refused=Refused(times, min(2**times, LONGEST) + 1),
    )


def repeated(facts: Facts) -> Proposal | None:
    """The last request again, where nothing is known to be applied."""
    wanted = facts.before.wanted
    if facts.observation.partition is not None or wanted is None or not stands(wanted, facts.observation, facts.node):
        return None
    text = f"{_in_words(facts.observation)}; the same request is repeated"
    return Proposal({}, [Reason(text=text)], partition=wanted, shortage=facts.before.shortage)


def held_back(facts: Facts) -> Proposal | None:
    """What is applied, where the agent did not carry out the last decisions and is not asked again yet."""
    refused, applied = facts.before.refused, facts.observation.partition
    if refused is None or refused.wait <= 1 or applied is None or not stands(applied, facts.observation, facts.node):
        return None
    outcome = facts.observation.outcome
    why = f"; {_in_words(facts.observation)}" if outcome is not None and outcome.status in NOT_DONE else ""
    text = (
        f"the agent did not apply the last decision ({refused.times} in a row{why}); "
        f"the applied partition stays for {refused.wait - 1} interval(s) before the next request"
    )
    return Proposal({}, [Reason(text=text)], partition=applied)


def after_decision(facts: Facts, proposal: Proposal) -> Refused | None:
    """The refusals after a decision: an interval less to wait, or nothing to wait for where the agent is asked."""
    refused = facts.before.refused
    waits = proposal.partition is not None and facts.observation.partition is not None
    return None if refused is None else replace(refused, wait=max(1, refused.wait - 1) if waits else 0)


def _in_words(observation: Observation) -> str:
    """Why what was decided is not on the machine."""
    outcome = observation.outcome
    if outcome is None or outcome.status not in NOT_DONE:
        return "the applied partition is not the last decision"
    return f"the last decision was {outcome.status.replace('_', ' ')}: {outcome.message or 'no reason given'}"


def stands(partition: Partition, observation: Observation, node: Node) -> bool:
    """Whether a partition is legal for the platform, the services and the operator's limits of now."""
    names = [service.name for service in observation.services]
    if partition_error(partition, observation.platform, names) is not None:
        return False
    for budget in budgets(observation):  # the agent refuses what is above a maximum, of a common cache, too
        if budget.resource == "ways" and any(partition.ways_of(n) > most for n, (_, most) in budget.limits.items()):
            return False
    parts = {name: Cell(partition.cores_of(name), partition.ways_of(name) * node.has_ways) for name in names}
    return all(node.bounded(name, *part) == part for name, part in parts.items())
