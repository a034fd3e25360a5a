"""What became of the last decision on the machine, and what that means for the next one."""

from __future__ import annotations

from msgspec.structs import replace

from osml.allocation.limits import budgets
from osml.allocation.refusals import NOT_DONE, never_applied, towards
from osml.domain import Infeasible, Observation, Partition, Reason, partition_error
from osml.policies.osml.divide import cut_down
from osml.policies.osml.facts import Facts
from osml.policies.osml.guard import objection
from osml.policies.osml.memory.state import OsmlState, Refused, Undo
from osml.policies.osml.node import Cell, Node
from osml.policies.osml.rule import Proposal, changes

LONGEST = 32
"""Intervals that pass at most before an agent that did not carry out a decision is asked again: 2, 4, 8 and so on."""

_MOST_TEXT = 200
"""Characters of an agent's message that are kept."""


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
    undo = Undo(state.set_aside, {}) if state.undo is None else state.undo
    return replace(
        state,
        tracks={
            name: replace(one, before=None, correction=undo.corrections.get(name, one.correction))
            for name, one in state.tracks.items()
        },
        set_aside=undo.set_aside,
        age=0,
        refused=Refused(times, min(2**times, LONGEST) + 1, (outcome.message or "")[:_MOST_TEXT]),
        undo=None,
    )


def undo_of(facts: Facts, proposal: Proposal) -> Undo | None:
    """What to take back if the agent does not carry the proposal out; None where that is nothing."""
    before = {
        name: facts.tracks[name].correction
        for name, track in proposal.tracks.items()
        if track.correction != facts.tracks[name].correction
    }
    same = not before and list(proposal.set_aside) == facts.set_aside
    return None if same else Undo(facts.set_aside, before)


def part_of_the_way(facts: Facts, proposal: Proposal) -> Proposal:
    """The proposal with cells on the way to its own, after an agent refused it: it may limit how much changes at once.

    Half of the way after the first refusal, a quarter after the second. Who has no cell yet gets what these leave of
    its own. As proposed where that is illegal.
    """
    refused, node = facts.before.refused, facts.node
    if refused is None or proposal.partition is not None or facts.observation.partition is None:
        return proposal
    near = {
        name: Cell(*(towards(old, new, refused.times) for old, new in zip(facts.cells[name], cell, strict=True)))
        for name, cell in proposal.cells.items()
        if name in facts.cells
    }
    cells = cut_down(node, {**proposal.cells, **near}, {n: near.get(n, node.leasts[n]) for n in proposal.cells})
    if cells is None or cells == proposal.cells:
        return proposal
    tracks = {  # the step that these are about is still to come
        name: replace(track, before=facts.tracks[name].before, correction=facts.tracks[name].correction)
        if cells.get(name) != proposal.cells.get(name)
        else track
        for name, track in proposal.tracks.items()
    }
    shorter = proposal._replace(cells=cells, tracks=tracks)
    if objection(facts, shorter) is not None:
        return proposal
    text = f"cells change by a part of what was wanted: the agent refused that {refused.times} time(s)"
    return shorter._replace(reasons=[*changes(facts, cells), Reason(text=text)])


def stuck(facts: Facts) -> Infeasible | None:
    """For the scheduler above: that the agent refuses what this policy asks for, and why."""
    refused = facts.before.refused
    return None if refused is None else never_applied(facts.observation, refused.times, refused.message)


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
