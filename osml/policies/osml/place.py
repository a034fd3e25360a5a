"""Rules for services without a cell: at the start, where one comes, where all share (OSML, algorithm 1)."""

from __future__ import annotations

from msgspec.structs import replace

from osml.domain import Infeasible, Reason
from osml.policies.osml.divide import cut_down, spread_out
from osml.policies.osml.facts import Facts
from osml.policies.osml.memory.state import CELLS, SHARED
from osml.policies.osml.node import NO_SERVICE, Cell
from osml.policies.osml.rule import Proposal, changes


def share(why: str) -> Proposal:
    """Everybody on everything."""
    return Proposal({}, [Reason(text=f"all services share everything: {why}")])


def no_cells(facts: Facts) -> Proposal | None:
    """All share where the node cannot be cut into cells at all, for the reason that it has."""
    names, why = list(facts.services) or list(facts.node.be), facts.node.obstacle
    if why is None:
        return None
    return share(why)._replace(shortage=None if why == NO_SERVICE else Infeasible(names, why))


def cells_for_all(facts: Facts) -> Proposal | None:
    """A cell of its need for everybody, where somebody has none of a sufficient size.

    What is left is lent in proportion until all is calm. Where BE jobs gain by it, less than the bound of the
    predictions is tried, too. Who does not meet its target keeps what it has. Not where cells for all were tried at
    these loads, or sharing did better.
    """
    scores, node = facts.scores, facts.node
    untried = facts.way != CELLS and CELLS not in scores and facts.calm > 0
    if not (facts.way == SHARED or facts.new or untried):
        return None
    if CELLS in scores and SHARED in scores and scores[SHARED] <= scores[CELLS]:
        return None
    wants = {name: _kept(facts, name, want) for name, want in facts.wants.items()}
    least = {name: _kept(facts, name, facts.point(name)) for name in wants} if node.be else wants
    cells = cut_down(node, wants, least)
    if cells is None:
        return None
    predicted = [name for name in cells if not facts.unpredicted(name)]
    cells = spread_out(node, cells, predicted or list(cells))
    # What is only lent goes back in one step.
    lent = {n: replace(facts.tracks[n], before=None) for n, cell in cells.items() if cell != facts.cells.get(n)}
    reasons = changes(facts, cells) or [Reason(text="all needs fit: the cells stay as they are")]
    return Proposal(cells, reasons, tracks={**facts.tracks, **lent})


def _kept(facts: Facts, name: str, cell: Cell) -> Cell:
    """The cell, or what a service has now that does not meet its target: from that one nothing may be taken."""
    return cell if facts.meets(name) else _no_less(facts, name, cell)


def unmeasured(facts: Facts, name: str, cell: Cell) -> Cell:
    """The cell, or what a service has now whose latency was not measured: it may be right."""
    return cell if facts.services[name].slack is not None else _no_less(facts, name, cell)


def _no_less(facts: Facts, name: str, cell: Cell) -> Cell:
    now = facts.cells.get(name)
    return cell if now is None else facts.node.bounded(name, max(cell.cores, now.cores), max(cell.ways, now.ways))
