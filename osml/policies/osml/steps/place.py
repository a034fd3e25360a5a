"""Where a service goes that has come, and everybody at the start (OSML, algorithm 1)."""

from __future__ import annotations

from osml.domain import Partition
from osml.policies.osml.node import Cell
from osml.policies.osml.steps.overcommit import QUEUES_DRAIN, draining, overcommit, share
from osml.policies.osml.steps.relieve import step_up
from osml.policies.osml.steps.take_from_neighbours import b_points, best_fit
from osml.policies.osml.whole_units import fits, missing
from osml.policies.osml.working_plan import WorkingPlan

TO_SAVE, EACH = 0.1, 0.03
"""Of the cores: cells that leave less, or less than the second for each service (a need may be wrong by as much), are
not worth parting a node whose services meet their targets as it is."""


def place_all(turn: WorkingPlan) -> Partition:
    """Algorithm 1 at the beginning, or where everybody shares: nobody has a cell yet."""
    node = turn.node
    if not fits(node, turn.wants):
        return overcommit(turn)
    if node.may_share and not node.background and draining(turn):  # needs are guessed too low behind a queue
        turn.unsatisfied, turn.shortage = list(turn.violated), "targets are missed while all services share everything"
        return share(turn, QUEUES_DRAIN)
    needed = sum(cell.cores for cell in turn.wants.values())
    guessed = len(turn.unpredicted) == len(turn.services)  # even parts are no needs
    least = max(TO_SAVE, EACH * len(turn.services)) * node.for_lc.cores
    saves_nothing = node.for_lc.cores - needed < least and not guessed
    if node.may_share and not node.background and not turn.violated and saves_nothing:
        return share(turn, "all targets are met, and cells would free too few cores")
    return turn.part(turn.wants, list(turn.services))


def place(turn: WorkingPlan) -> Partition:
    """Algorithm 1: the need of who has come out of what is idle, of what others don't need, of Model-B's points."""
    here = {name: _at_this_load(turn, name) for name in turn.cells if name not in turn.on_leftovers}
    for asked in (lambda: here, lambda: {name: turn.wants[name] for name in here}, lambda: _traded(turn, here)):
        base = asked()  # Model-B is asked last, and speaks only where it decides
        cells = {n: base.get(n, turn.wants[n] if n in turn.new else turn.node.least(n)) for n in turn.services}
        if base and fits(turn.node, cells):
            # Who is there already has less from now on, too: of the clock, of memory traffic.
            return turn.part(cells, list(cells))
    return overcommit(turn)


def _at_this_load(turn: WorkingPlan, name: str) -> Cell:
    """What a service has; where its load changed while somebody came, what it needs beyond that."""
    cell = turn.cells[name]
    if name not in turn.moved:
        return cell
    if name in turn.violated:
        return step_up(turn, name)
    want = turn.wants[name]
    return turn.node.bounded(name, max(cell.cores, want.cores), max(cell.ways, want.ways))


def _traded(turn: WorkingPlan, here: dict[str, Cell]) -> dict[str, Cell]:
    """What the neighbours keep where Model-B says what they can spare; empty where that is not enough."""
    wants = {name: turn.wants[name] for name in here}
    lack = missing(turn.node, {**wants, **{name: turn.wants[name] for name in turn.new}})
    givers = [turn.services[name] for name in here if not turn.known[name].missed]
    points = b_points(turn.node.observation, givers, turn.models)
    for name, options in points.items():
        less = [Cell(wants[name].cores - cell.cores, wants[name].ways - cell.ways) for cell in options]
        points[name] = [
            option
            for option, cell in zip(options, less, strict=True)
            if cell == turn.node.bounded(name, *cell) and turn.safe(name, cell)
        ]
    given = best_fit(lack, points)
    if given is None:
        return {}
    for name, cell in given.items():
        turn.say(f"{name} can give {cell.cores} cores and {cell.ways} ways (Model-B)", name, -cell.cores)
        wants[name] = Cell(wants[name].cores - cell.cores, wants[name].ways - cell.ways)
    return wants
