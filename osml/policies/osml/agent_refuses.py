"""What became of the last decision on the machine, and what that means for the next one."""

from __future__ import annotations

from msgspec.structs import replace

from osml.allocation.limits import budgets
from osml.allocation.refusals import NOT_DONE, never_applied, towards, was_refused
from osml.domain import Infeasible, Observation, Partition, Reason, partition_error
from osml.policies.osml.divide import cut_down
from osml.policies.osml.facts import Facts
from osml.policies.osml.guard import objection
from osml.policies.osml.memory.state import OsmlState, Refused, Track, Undo
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
    before, state = state.in_force, replace(state, in_force=_in_force(observation, state))
    if outcome is None or outcome.seq != state.seq:
        return state
    if outcome.status not in NOT_DONE:
        if refused is None:
            held = before is not None and state.wanted is not None and before.regions == state.wanted.regions
            return state if held else replace(state, halvings=0)
        return replace(state, refused=None) if refused.wait == 0 else state
    known = refused is None and state.halvings > 0  # all of a way was refused, after a part of one was not
    times = 1 if refused is None else min(refused.times + 1, 64)
    wait = 1 if known else min(2**times, LONGEST) + 1
    state = replace(
        state,
        refused=Refused(times, wait, (outcome.message or "")[:_MOST_TEXT]),
        halvings=state.halvings if known else min(state.halvings + 1, 64),
    )
    if state.in_force is None:
        return state  # the same is asked for again, so what it supposes may still come true
    undo = Undo(state.set_aside, {}) if state.undo is None else state.undo
    served = {owner for region in state.in_force.regions for owner in region.owners}
    return replace(
        state,
        tracks={  # who came with the refused decision is still to be placed
            name: replace(one, before=None, correction=undo.corrections.get(name, one.correction))
            for name, one in state.tracks.items()
            if name in served
        },
        set_aside=undo.set_aside,
        age=0,
        undo=None,
    )


def _in_force(observation: Observation, state: OsmlState) -> Partition | None:
    """The last partition that is known to be applied; None after a failure, which leaves anything."""
    outcome = observation.outcome
    if observation.partition is not None or outcome is None or outcome.seq != state.seq:
        return observation.partition or state.in_force
    if outcome.status in NOT_DONE:
        return None if outcome.status == "failed" else state.in_force
    return state.wanted


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
    its own, and who gets more waits for what the others give. As proposed where that is illegal.
    """
    halvings, node = facts.before.halvings, facts.node
    known = facts.observation.partition or facts.before.in_force
    if facts.before.refused is None or proposal.partition is not None or known is None:
        return proposal
    near = {
        name: Cell(*(towards(old, new, halvings) for old, new in zip(facts.cells[name], cell, strict=True)))
        for name, cell in proposal.cells.items()
        if name in facts.cells
    }
    least = {name: Cell(*map(min, cell, facts.cells[name])) for name, cell in near.items()}
    cells = cut_down(node, {**proposal.cells, **near}, {n: least.get(n, node.leasts[n]) for n in proposal.cells})
    if cells is None or cells == proposal.cells:
        return proposal
    tracks = {
        name: _on_the_way(facts, name, track) if cells.get(name) != proposal.cells.get(name) else track
        for name, track in proposal.tracks.items()
    }
    shorter = proposal._replace(cells=cells, tracks=tracks)
    if objection(facts, shorter) is not None:
        return proposal
    text = "cells change by a part of what was wanted: the agent refused to change as much at once"
    return shorter._replace(reasons=[*changes(facts, cells), Reason(text=text)])


def _on_the_way(facts: Facts, name: str, track: Track) -> Track:
    """The track of a shortened step: its correction is still to come, but a step down can be withdrawn already."""
    now = facts.tracks[name]
    down = track.before == facts.cells.get(name)
    return replace(track, before=track.before if down else now.before, correction=now.correction)


def stuck(facts: Facts) -> Infeasible | None:
    """For the scheduler above: that the agent refuses what this policy asks for, and why."""
    refused = facts.before.refused
    return None if refused is None else never_applied(facts.observation, refused.times, refused.message)


def repeated(facts: Facts) -> Proposal | None:
    """The last request again, where nothing is known to be applied."""
    wanted, observation = facts.before.wanted, facts.observation
    if observation.partition is not None or wanted is None or not stands(wanted, observation, facts.node):
        return None
    if was_refused(observation) and facts.before.in_force is not None:
        return None  # it may be too much at once for what is in force, also where a service came
    text = f"{_in_words(observation)}; the same request is repeated"
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
