"""More for who misses its target (OSML, algorithm 2), and two services on the same cores where there is no more (4)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from osml.domain import Partition
from osml.policies.osml.answers.correct import upsize
from osml.policies.osml.node import Cell
from osml.policies.osml.remembered.backoff import with_ban
from osml.policies.osml.remembered.state import Pair
from osml.policies.osml.steps.overcommit import overcommit
from osml.policies.osml.steps.take_from_neighbours import neighbour_to_share
from osml.policies.osml.whole_units import cut_down, spread_out
from osml.policies.osml.working_plan import WorkingPlan

FAR = -1.0
"""Slack below which a service is far behind: its latency is twice the target."""

WITHDRAWN = 3
"""Intervals after a step down in which a missed target takes it back."""


def relieve(turn: WorkingPlan, names: Sequence[str]) -> Partition:
    """Algorithm 2: more for those who miss their target, out of what is idle, else of what others don't need."""
    steps = {name: step_up(turn, name) for name in names}
    # More of both, or of the one that others can spare: cores and ways stand for each other (PARTIES, 3.4.3).
    more_ways = {n: turn.node.bounded(n, turn.cells[n].cores, step.ways + 1) for n, step in steps.items()}
    for more in (steps, more_ways):
        cells = _given(turn, more)
        if cells is not None and any(cells[name] != turn.cells[name] for name in names):
            return turn.changed(_lent(turn, names, cells))
    if not any(turn.known[name].missed for name in names):
        return turn.hold()  # a guess ahead of any miss is not worth anybody else's cell
    turn.wants |= steps
    return _pair(turn, names, steps) or overcommit(turn)


def _lent(turn: WorkingPlan, names: Sequence[str], cells: dict[str, Cell]) -> dict[str, Cell]:
    """The cells, with all that is idle for those who are far behind: a queue drains the faster the more it has.

    BE jobs pay for that only where they are in the background anyway.
    """
    behind = [name for name in names if (turn.services[name].slack or 0.0) < FAR]
    if not behind or (turn.node.be and not turn.node.background):
        return cells
    for name in behind:
        turn.known[name] = replace(turn.known[name], before=None)
    return spread_out(turn.node, cells, behind)


def step_up(turn: WorkingPlan, name: str) -> Cell:
    """What is tried next for a service: its need where that is more, else what Model-C says, else a plain step."""
    known, cell = turn.known[name], turn.cells[name]
    target = turn.wants[name]
    if known.missed:
        bans = with_ban(known.bans, cell, known.rate, turn.now_s)
        turn.known[name] = known = replace(known, bans=bans, underway=False)
        target = turn.want(name)
        tried = _correction(turn, name, cell)
        if known.before is not None and known.settled <= WITHDRAWN:
            tried = Cell(*known.before)
            turn.say(f"{name} misses its target after its last step down: the step is withdrawn", name)
        target = Cell(max(target.cores, tried.cores), max(target.ways, tried.ways))
    target = turn.node.bounded(name, max(target.cores, cell.cores), max(target.ways, cell.ways))
    turn.wants[name] = target
    return target


def _correction(turn: WorkingPlan, name: str, cell: Cell) -> Cell:
    """Model-C's action; without it, or where a queue grows fast, a step in proportion to the cell."""
    slack = turn.services[name].slack or 0.0
    more, way = max(1, round(0.15 * cell.cores)), int(turn.node.ways is not None)
    if slack < FAR:
        return Cell(cell.cores + max(2, round(0.3 * cell.cores)), cell.ways + way)
    free = Cell(turn.node.total.cores - cell.cores, turn.node.total.ways - cell.ways)
    action = upsize(turn.node.observation, name, turn.models, cell, free)
    if action is None:
        return Cell(cell.cores + more, cell.ways + way)
    turn.actions[name] = action
    return Cell(cell.cores + action.cores, cell.ways + action.ways)


def _given(turn: WorkingPlan, more: dict[str, Cell]) -> dict[str, Cell] | None:
    """Cells with more for some: idle units first, else what others don't need; None where that is too little."""
    asked = {**turn.cells, **more}
    least = {name: cell if name in more else _spared(turn, name, cell) for name, cell in asked.items()}
    least |= {name: turn.node.least(name) for name in turn.on_leftovers}
    return cut_down(turn.node, asked, least)


def _pair(turn: WorkingPlan, names: Sequence[str], steps: dict[str, Cell]) -> Partition | None:
    """Algorithm 4: the cores that a service lacks are shared with whom that harms least, by Model-B'."""
    busy = (
        {name for pair in turn.pairs for name in (pair.taker, pair.giver)} | set(turn.violated) | set(turn.on_leftovers)
    )
    name = names[0]
    cores = min(steps[name].cores - turn.cells[name].cores, 3)
    givers = [service for n, service in turn.services.items() if n not in busy]
    if len(names) > 1 or cores < 1 or turn.node.background or not givers or name in busy - set(turn.violated):
        return None
    found = neighbour_to_share(turn.node.observation, turn.cells, givers, cores, turn.models)
    if found is None:
        return None
    giver, percent = found
    left = turn.node.bounded(giver, turn.cells[giver].cores - cores, turn.cells[giver].ways)
    if left.cores != turn.cells[giver].cores - cores or turn.banned(giver, left):
        return None
    turn.pairs = [*turn.pairs, Pair(name, giver, cores)]
    text = f"{name} shares {cores} cores with {giver}: Model-B' expects {giver} to be {percent:.0f} % slower"
    turn.say(text, name, cores)
    turn.unsatisfied, turn.shortage = [name], f"{text}; {name} needs a node with more free resources"
    return turn.write({**turn.cells, giver: left})


def _spared(turn: WorkingPlan, name: str, cell: Cell) -> Cell:
    """What a neighbour keeps at least: its need of both, or what it has; all where the shield calls that unsafe."""
    want = turn.wants[name]
    least = Cell(min(want.cores, cell.cores), min(want.ways, cell.ways))
    return least if turn.meets(name) and turn.safe(name, least) else cell
