"""Which step `osml` takes: place who is new, relieve who misses a target, else take back what is too much."""

from __future__ import annotations

from osml.domain import Partition
from osml.policies.osml.remembered.misses import SETTLE, alarming
from osml.policies.osml.remembered.state import POOLED
from osml.policies.osml.steps.leave_be_cores import move_jobs_away
from osml.policies.osml.steps.one_alone import kept_alone
from osml.policies.osml.steps.place import place, place_all
from osml.policies.osml.steps.reclaim import reclaim
from osml.policies.osml.steps.relieve import relieve
from osml.policies.osml.working_plan import WorkingPlan


def chosen(turn: WorkingPlan) -> Partition:
    """The partition for the next interval."""
    if turn.kind == POOLED:
        kept = kept_alone(turn)
        if kept is not None:
            return kept
        turn.cells = {}
    if not turn.cells:
        return place_all(turn)
    if turn.new:
        return place(turn)
    cleared = move_jobs_away(turn)
    alarmed = [
        name
        for name in turn.violated
        if name not in turn.on_leftovers
        and name not in cleared
        and alarming(turn.known[name], turn.before.known.get(name), turn.services[name])
    ]
    ahead = [n for n in turn.moved if n not in turn.on_leftovers and turn.wants[n].cores > turn.cells[n].cores]
    if alarmed or ahead:
        return relieve(turn, alarmed or ahead)
    met = [name for name in turn.on_leftovers if turn.known[name].met > SETTLE]
    if met:
        turn.say(f"these services meet their target again: {', '.join(met)}", met[0])
        turn.on_leftovers = [name for name in turn.on_leftovers if name not in met]
    return reclaim(turn)
