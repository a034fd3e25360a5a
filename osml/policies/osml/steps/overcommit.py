"""Not everybody's need fits: what the policy `osml` does then (OSML, algorithms 1 and 4, and beyond them)."""

from __future__ import annotations

from osml.domain import Partition
from osml.policies.osml.cliff_shield import units
from osml.policies.osml.node import Cell, shared_by_services
from osml.policies.osml.remembered.misses import SETTLE
from osml.policies.osml.remembered.state import PARTED, SHARED, SOME
from osml.policies.osml.steps.one_alone import isolate_one
from osml.policies.osml.whole_units import cut_down, fits, missing, spread_out
from osml.policies.osml.working_plan import WorkingPlan

KEPT = 30
"""Intervals for which the choice of who is set aside is kept: queues need time to show what it is worth."""

BETTER = 0.9
"""Sharing has to be better than missing the targets of those who would be set aside, by this factor of E_S."""


QUEUES_DRAIN = "request queues may still become shorter"
"""Why everybody goes on to share everything while targets are missed."""


def overcommit(turn: WorkingPlan) -> Partition:
    """RCliff instead of OAA, everybody on everything, or some at the cost of others: by what each came to, if tried.

    Sharing everything goes first: queues behind a start drain fastest there, and it needs no prediction.
    """
    node, names = turn.node, list(turn.services)
    lack = missing(node, turn.wants)
    turn.shortage = (
        f"the OAAs of all services need {lack.cores} cores and {lack.ways} ways more than there are"
        if any(lack)
        else _why(turn)
    )
    turn.unsatisfied = list(turn.violated) or names
    if node.may_share and turn.kind == SHARED:
        if not turn.violated:
            turn.shortage = ""
            return isolate_one(turn) or share(
                turn, f"all targets are met, and cells need {lack.cores} more cores than there are"
            )
        if draining(turn):
            return share(turn, QUEUES_DRAIN)
        beside = isolate_one(turn)
        if beside is not None:
            return beside
    if turn.kind == SOME and turn.on_leftovers and not turn.new and turn.age <= KEPT:
        turn.unsatisfied = sorted({*turn.on_leftovers, *turn.violated})
        return turn.hold()
    tight = {name: _tight(turn, name) for name in names}
    cells = cut_down(node, turn.wants, tight)
    if cells is not None and PARTED not in turn.scores and (SHARED in turn.scores or not node.may_share):
        turn.say(
            "the OAAs do not fit together: cells have the size of RCliff's bound"
            if cells != turn.wants
            else turn.shortage
        )
        return turn.part(cells, names)
    served = _served(turn, tight)
    shared, least = turn.scores.get(SHARED), max(1, len(names) - len(served))
    if node.may_share and (shared is None or shared < BETTER * least / len(names)):
        return share(turn, "the needs of all services do not fit in cells" if any(lack) else turn.shortage)
    return _serve_the_others(turn, served)


def draining(turn: WorkingPlan) -> bool:
    """Whether everybody shares everything and the queues behind missed targets may get shorter so."""
    return turn.kind == SHARED and bool(turn.violated) and (turn.no_progress <= SETTLE or turn.age <= SETTLE)


def _why(turn: WorkingPlan) -> str:
    """Why a target is missed though all needs fit."""
    full = [f"{n} ({w.cores} cores, {w.ways} ways)" for n in turn.violated if turn.cells.get(n) == (w := turn.wants[n])]
    if full:
        return f"the target is missed with all resources that exist or are allowed: {', '.join(full)}"
    return (
        "all OAAs fit, but no service can give resources: each is above its target, was not measured, "
        "or has no safe smaller cell"
    )


def share(turn: WorkingPlan, why: str) -> Partition:
    """Everybody on everything."""
    turn.go(SHARED)
    turn.pairs = []
    if turn.violated and turn.age > 0:
        turn.few_job_ways = True
    turn.say(f"all services share everything: {why}")
    return shared_by_services(turn.node, few_job_ways=turn.few_job_ways)


def filled(turn: WorkingPlan, cells: dict[str, Cell]) -> dict[str, Cell]:
    """Idle cores for those who are set aside, idle ways for everybody: more cache makes cores go further."""
    return spread_out(turn.node, cells, turn.on_leftovers or list(cells), list(cells))


def _tight(turn: WorkingPlan, name: str) -> Cell:
    """RCliff with its bound, where that is less than the OAA: the lesser alternative (OSML, algorithm 1, line 17).

    With the OAA's ways where the shield lets that pass, else with RCliff's, else nothing less than the OAA.
    """
    known, want = turn.known[name], turn.wants[name]
    cores = min(units(known.upper[0], turn.quantum), want.cores)
    for ways in (want.ways, max(want.ways, units(known.upper[1], 1.0) if want.ways else 0)):
        cell = turn.node.bounded(name, cores, ways)
        if turn.safe(name, cell):
            return cell
    return want


def _served(turn: WorkingPlan, tight: dict[str, Cell]) -> dict[str, Cell]:
    """As many as possible in their cells, whoever needs least first: with the OAA, then with RCliff."""
    order = _by_price(turn)
    cells = {name: turn.node.least(name) for name in order}
    served: dict[str, Cell] = {}
    for need in (turn.wants, tight):
        for name in order:
            trial = {**cells, name: need[name]}
            if name not in served and fits(turn.node, trial):
                cells, served[name] = trial, need[name]
    return served


def _serve_the_others(turn: WorkingPlan, served: dict[str, Cell]) -> Partition:
    """Those in their cells, the others in what is left: the least E_S where not all can meet their target."""
    node, order = turn.node, _by_price(turn)
    cells = {name: node.least(name) for name in order} | served
    turn.go(SOME)
    turn.age = 0  # a choice that follows another is kept as long as the first
    turn.pairs = []
    turn.on_leftovers = [name for name in order if name not in served]
    turn.unsatisfied = list(turn.on_leftovers) or turn.unsatisfied
    if len(turn.on_leftovers) > 1:  # all that is left for one of them: its need may be less than predicted
        first = turn.on_leftovers.pop(0)
        room = missing(node, {**cells, first: Cell(cells[first].cores + node.for_lc.cores, cells[first].ways)})
        cells[first] = node.bounded(first, cells[first].cores + node.for_lc.cores - room.cores, cells[first].ways)
    turn.say(f"services that use what the others leave: {', '.join(turn.on_leftovers) or 'none'}; {turn.shortage}")
    return turn.write(filled(turn, {name: cells[name] for name in turn.services}))


def _by_price(turn: WorkingPlan) -> list[str]:
    return sorted(turn.services, key=lambda name: (_price(turn, turn.wants[name]), name))


def _price(turn: WorkingPlan, cell: Cell) -> float:
    total = turn.node.total
    return cell.cores / total.cores + (cell.ways / total.ways if total.ways else 0.0)
