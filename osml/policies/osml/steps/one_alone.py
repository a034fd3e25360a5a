"""One service in a cell beside all others together: for a node where sharing everything nearly does.

Of no paper: a service that can't bear the neighbours' hyperthreads and cache is alone, and whoever bears it shares.
"""

from __future__ import annotations

from osml.domain import Partition
from osml.policies.osml.cliff_shield import cores_in_use
from osml.policies.osml.node import Cell, one_beside_the_rest
from osml.policies.osml.remembered.misses import SETTLE
from osml.policies.osml.remembered.state import POOLED, SHARED
from osml.policies.osml.whole_units import fits
from osml.policies.osml.working_plan import WorkingPlan

MOST = 0.25
"""Of the cores, for the cell: how many cores the others can spare is not known, and
their latency shows it late."""

HOVERS = 8
"""Intervals after which a mean latency beyond the target counts as a miss, be it within the noise of one interval."""


def isolate_one(turn: WorkingPlan) -> Partition | None:
    """A cell for the one service that misses its target while all share; None where that is not the case, or was tried.

    Not beside BE jobs in the background: they are on everybody's CPUs.
    """
    node = turn.node
    if POOLED in turn.scores or SHARED not in turn.scores or node.background or len(turn.services) < 3:
        return None
    late = [name for name in turn.services if _late(turn, name)]
    if len(late) != 1:
        return None
    name, room = late[0], node.for_lc
    want = turn.wants[name]
    cell = node.bounded(name, want.cores, max(want.ways, room.ways * want.cores // room.cores))
    used = sum(cores_in_use(service, turn.quantum) for service in node.lc if service.name != name)
    if cell.cores > MOST * room.cores or room.cores - cell.cores < used or not _allowed(turn, name, cell):
        return None
    turn.go(POOLED)
    turn.pairs = []
    turn.say(
        f"{name} gets a cell of {cell.cores} cores and {cell.ways} ways, the other services share the rest: "
        "it is above its target while all services share everything",
        name,
        cell.cores,
    )
    return one_beside_the_rest(node, name, cell)


def _allowed(turn: WorkingPlan, name: str, cell: Cell) -> bool:
    """Whether what a cell leaves, which all others share, is within the operator's limits of each of them."""
    node, room = turn.node, turn.node.for_lc
    rest = Cell(room.cores - cell.cores, room.ways - cell.ways)
    others = [service.name for service in node.lc if service.name != name]
    return all(node.bounded(other, *rest) == rest for other in others)


def _late(turn: WorkingPlan, name: str) -> bool:
    known = turn.known[name]
    return name in turn.violated or (known.settled >= HOVERS and (known.level or 0.0) > 1.0)


def kept_alone(turn: WorkingPlan) -> Partition | None:
    """The partition of the interval before; None where services changed, a load moved, or another way is better.

    None, too, where the operator's limits of now forbid it, or where BE jobs are in the background again: they would
    have no CPUs.
    """
    alone = next(iter(turn.cells), None)
    same = set(turn.services) == set(turn.before.known) and not turn.moved and len(turn.services) > 1
    if len(turn.cells) != 1 or alone is None or not same or turn.node.background or fits(turn.node, turn.wants):
        return None
    if not _allowed(turn, alone, turn.cells[alone]):
        return None
    worth = turn.scores.get(POOLED)
    if turn.violated and turn.no_progress > SETTLE and worth is not None and worth >= turn.scores.get(SHARED, 1.0):
        return None
    if turn.violated:
        turn.unsatisfied, turn.shortage = (
            list(turn.violated),
            f"a target is missed while {alone} has a cell and the other services share the rest",
        )
    cell = turn.cells[alone]
    turn.say(f"{alone} has a cell of {cell.cores} cores and {cell.ways} ways, the other services share the rest")
    return one_beside_the_rest(turn.node, alone, cell)
