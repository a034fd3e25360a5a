"""What is more than a service needs goes to BE jobs or stays idle (OSML, algorithm 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from osml.domain import Partition
from osml.policies.osml_correct import downsize, downsize_value
from osml.policies.osml_memory import banned
from osml.policies.osml_misses import SETTLE
from osml.policies.osml_node import Cell
from osml.policies.osml_overcommit import filled
from osml.policies.osml_shield import cores_in_use
from osml.policies.policy import latency_text

if TYPE_CHECKING:
    from osml.policies.osml_round import Round

CALM = 2
"""Intervals with all targets met before anything is taken back."""

LATER = 8
"""Intervals in a cell, and of predictions, before a small surplus is taken back."""

LITTLE = 0.1
"""A surplus that is less than this share of a cell is left where it is, once the first surplus is gone."""

FALL = 0.25
"""A step down that Model-C values so much less than doing nothing leads over the cliff, as it thinks: a fall costs 1,
the resources of a whole node 0.2 (docs/reference/model-c.md)."""


def reclaim(turn: Round) -> Partition:
    """Algorithm 3: what is more than the OAA goes to BE jobs or stays idle, in few large steps."""
    ready = all(k.settled >= 1 and k.confined for n, k in turn.known.items() if n not in turn.aside)
    if turn.calm < CALM or not ready:
        return turn.hold()
    cells = dict(turn.cells)
    for name, cell in turn.cells.items():
        less = cell if name in turn.aside or not turn.meets(name) else _less(turn, name, cell)
        if less == cell:
            continue
        cells[name] = less
        turn.known[name] = known = replace(turn.known[name], before=(cell.cores, cell.ways), count=1)
        turn.say(
            f"{name} {less.cores - cell.cores:+d} cores, {less.ways - cell.ways:+d} ways: OAA {known.oaa[0]:.1f} "
            f"cores, {known.oaa[1]:.1f} ways (at most {known.oaa_upper[0]:.1f}), RCliff at most "
            f"{known.upper[0]:.1f}, {known.upper[1]:.1f}; {latency_text(turn.services[name])}",
            name, less.cores - cell.cores,
        )  # fmt: skip
    if turn.aside:
        cells = filled(turn, {n: Cell(c.cores, max(c.ways, turn.cells[n].ways)) for n, c in cells.items()})
        more = [n for n, c in cells.items() if c.cores > turn.cells[n].cores or c.ways > turn.cells[n].ways]
        if more:
            turn.say(f"{', '.join(more)} has what is idle, while {', '.join(turn.aside)} is set aside", more[0])
    return turn.hold() if cells == turn.cells else turn.write(cells)


def _less(turn: Round, name: str, cell: Cell) -> Cell:
    """The cell without what is not needed: at first to the OAA at once, later only what is clearly too much."""
    known, want = turn.known[name], turn.wants[name]
    if turn.blind:
        return _tried(turn, name, cell)
    cores, ways = min(cell.cores, want.cores), min(cell.ways, want.ways)
    if known.before is not None:
        if known.count < LATER or known.settled < LATER:
            return cell
        if cell.cores - cores < LITTLE * cell.cores:
            cores = cell.cores
    cores = max(cores, min(cell.cores, cores_in_use(turn.services[name], turn.quantum)))
    found = Cell(cores, ways)
    if found == cell or not turn.safe(name, found):
        return cell
    if known.before is not None:
        change = Cell(found.cores - cell.cores, found.ways - cell.ways)
        values = downsize_value(turn.node.observation, name, turn.models, change)
        if values is not None and values[0] < values[1] - FALL:
            return cell  # Model-C expects a fall
    return found


def _tried(turn: Round, name: str, cell: Cell) -> Cell:
    """Without predictions: what Model-C would take, once the cell has settled."""
    action = downsize(turn.node.observation, name, turn.models, cell)
    if action is None or turn.known[name].settled <= SETTLE:
        return cell
    found = turn.node.bounded(name, cell.cores + action.cores, cell.ways + action.ways)
    if banned(turn.known[name], found):
        return cell
    turn.actions[name] = action
    return found
