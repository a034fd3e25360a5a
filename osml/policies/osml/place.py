"""Rules for services without a cell: at the start, where one comes, where all share (OSML, algorithm 1)."""

from __future__ import annotations

from msgspec.structs import replace

from osml.domain import Infeasible, Reason
from osml.policies.osml.divide import cut_down, fits, spread_out
from osml.policies.osml.facts import Facts
from osml.policies.osml.memory.state import CELLS, SHARED
from osml.policies.osml.node import NO_SERVICE, Cell, total
from osml.policies.osml.rule import Proposal, changes


def shares(facts: Facts) -> bool:
    """Whether all services share everything, and go on to be allowed to."""
    return facts.way == SHARED and facts.node.may_share


def unplaced(facts: Facts) -> bool:
    """Whether somebody has no cell of a sufficient size, and cells for all were not tried at these loads."""
    return (
        facts.way == SHARED or bool(facts.new) or (facts.way != CELLS and CELLS not in facts.scores and facts.calm > 0)
    )


def share(why: str) -> Proposal:
    """Everybody on everything."""
    return Proposal({}, [Reason(text=f"all services share everything: {why}")])


def no_cells(facts: Facts) -> tuple[str, Proposal] | None:
    """All share where the node cannot be cut into cells at all, for the reason that it has."""
    names, why = list(facts.services) or list(facts.node.be), facts.node.obstacle
    if why is None:
        return None
    return "no-cells", share(why)._replace(shortage=None if why == NO_SERVICE else Infeasible(names, why))


def shared_queues_drain(facts: Facts) -> bool:
    """Whether all share, targets are missed, and the queues may still become shorter."""
    return shares(facts) and bool(facts.missed) and facts.draining()


def wait_for_queues(facts: Facts) -> Proposal:
    """All go on to share: needs are guessed too low behind a queue, and it drains fastest so."""
    return share(f"request queues of {', '.join(facts.missed)} may still become shorter")


def shared_is_enough(facts: Facts) -> bool:
    """Whether all share and meet their targets, and cells would not fit or free too few cores to be worth it.

    Not beside BE jobs, to which each core is worth something.
    """
    if not shares(facts) or facts.missed or facts.new or facts.age <= 1 or facts.node.be:
        return False
    room, settings = facts.node.for_lc, facts.settings
    needed = total(facts.wants.values()).cores
    least = max(settings.to_save, settings.to_save_each * len(facts.services)) * room.cores
    return not fits(facts.node, facts.wants) or room.cores - needed < least


def stay_shared(_: Facts) -> Proposal:
    """All go on to share."""
    return share("all targets are met, and cells would free too few cores")


def cells_for_all(facts: Facts) -> Proposal | None:
    """Its need for everybody, and what is left in proportion until all is calm.

    Where BE jobs gain by it, less than the bound of the predictions is tried, too. Who does not meet its target keeps
    what it has. Not where sharing did better.
    """
    scores = facts.scores
    if CELLS in scores and SHARED in scores and scores[SHARED] <= scores[CELLS]:
        return None
    wants = {name: _kept(facts, name, want) for name, want in facts.wants.items()}
    least = {name: _kept(facts, name, facts.point(name)) for name in wants} if facts.node.be else wants
    cells = cut_down(facts.node, wants, least)
    return None if cells is None else placed(facts, cells)


def _kept(facts: Facts, name: str, cell: Cell) -> Cell:
    """The cell, or what a service has now that does not meet its target: from that one nothing may be taken."""
    now = facts.cells.get(name)
    if now is None or facts.meets(name):
        return cell
    return facts.node.bounded(name, max(cell.cores, now.cores), max(cell.ways, now.ways))


def placed(facts: Facts, cells: dict[str, Cell]) -> Proposal:
    """Cells, and what is left of the node in proportion until all is calm."""
    order = {name: cells[name] for name in facts.services}
    predicted = [name for name in order if not facts.unpredicted(name)]
    found = spread_out(facts.node, order, predicted or list(order))
    tracks = dict(facts.tracks)
    for name, cell in found.items():
        if cell == facts.cells.get(name):
            continue
        # What is only lent until all is calm goes back in one step.
        tracks[name] = replace(facts.tracks[name], before=None)
    reasons = changes(facts, found) or [Reason(text="all needs fit: the cells stay as they are")]
    return Proposal(found, reasons, tracks=tracks)
