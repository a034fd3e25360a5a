"""What is more than a service needs goes to BE jobs or stays idle (OSML, algorithm 3)."""

from __future__ import annotations

from msgspec.structs import replace

from osml.allocation.policy import latency_text
from osml.domain import Partition
from osml.policies.osml.answers.correct import downsize, downsize_value
from osml.policies.osml.cliff_shield import cores_in_use
from osml.policies.osml.node import Cell
from osml.policies.osml.remembered.misses import CALM, CLOSE, CLOSE_TO_JOBS, SETTLE
from osml.policies.osml.steps.below_oaa import one_core_below
from osml.policies.osml.steps.overcommit import filled
from osml.policies.osml.steps.ways_for_cores import ways_for_cores
from osml.policies.osml.working_plan import WorkingPlan

LATER = 8
"""Intervals in a cell, and of predictions, before a small surplus is taken back."""

LITTLE = 0.1
"""A surplus that is less than this share of a cell is left where it is, once the first surplus is gone."""

ROOM, HALF = 0.2, 0.5
"""Slack that a service has at least before it gives something without a prediction, and the share of its CPUs that it
uses at most after that."""

FALL = 0.25
"""A step down that Model-C values so much less than doing nothing leads over the cliff, as it thinks: a fall costs 1,
the resources of a whole node 0.2 (docs/reference/model-c.md)."""


def reclaim(turn: WorkingPlan) -> Partition:
    """Algorithm 3: what is more than the OAA goes to BE jobs or stays idle, in few large steps."""
    ready = all(k.settled >= 1 and k.confined for n, k in turn.known.items() if n not in turn.on_leftovers)
    if turn.calm < CALM or not ready or _jobs_would_hurt(turn):
        return turn.hold()
    cells = dict(turn.cells)
    for name, cell in turn.cells.items():
        if name in turn.on_leftovers or not turn.meets(name):
            continue
        goal = _goal(turn, name, cell)
        if turn.on_leftovers:
            goal = Cell(goal.cores, cell.ways)  # cores are what who is set aside lacks
        why = ""
        if goal == cell and name not in turn.unpredicted:
            goal, why = one_core_below(turn, name, cell)
        if goal == cell:
            continue
        less = _halfway(cell, goal) if turn.node.be or turn.known[name].before is not None else goal
        if less == cell or not _agreed(turn, name, cell, less):
            continue
        cells[name] = less
        turn.known[name] = known = replace(
            turn.known[name], before=(cell.cores, cell.ways), count=1, underway=less != goal
        )
        turn.say(
            f"{name} changes by {less.cores - cell.cores:+d} cores and {less.ways - cell.ways:+d} ways: "
            f"OAA {known.oaa[0]:.1f} cores, {known.oaa[1]:.1f} ways (at most {known.oaa_upper[0]:.1f} cores), "
            f"RCliff at most {known.upper[0]:.1f} cores, {known.upper[1]:.1f} ways; "
            f"{latency_text(turn.services[name])}{why}",
            name,
            less.cores - cell.cores,
        )
    if turn.on_leftovers:
        cells = filled(turn, cells)
        more = [n for n, c in cells.items() if c.cores > turn.cells[n].cores or c.ways > turn.cells[n].ways]
        if more:
            turn.say(
                f"idle resources go to {', '.join(more)}, while {', '.join(turn.on_leftovers)} is set aside", more[0]
            )
    return ways_for_cores(turn) if cells == turn.cells else turn.write(cells)


def _jobs_would_hurt(turn: WorkingPlan) -> bool:
    """Whether BE jobs would get what others give, and a service is beyond its target now, if only by noise."""
    return bool(turn.node.be) and any(
        known.missed for name, known in turn.known.items() if name not in turn.on_leftovers
    )


def _goal(turn: WorkingPlan, name: str, cell: Cell) -> Cell:
    """The cell without what is not needed: at first all of it, later only what is clearly too much."""
    known, want = turn.known[name], turn.wants[name]
    if turn.blind:
        return _tried(turn, name, cell)
    if name in turn.unpredicted:
        return _plain(turn, name, cell)
    close = CLOSE_TO_JOBS if turn.node.be else CLOSE
    if known.before is not None and (known.level or 0.0) > close:
        return cell
    cores, ways = min(cell.cores, want.cores), min(cell.ways, max(want.ways, turn.ways_for_cores.kept.get(name, 0)))
    if known.underway:
        if known.settled < SETTLE:
            return cell
    elif known.before is not None:
        if known.count < LATER or known.settled < LATER:
            return cell
        if cell.cores - cores < LITTLE * cell.cores:
            cores = cell.cores
    cores = max(cores, min(cell.cores, cores_in_use(turn.services[name], turn.quantum)))
    found = Cell(cores, ways)
    return found if found != cell and turn.safe(name, found) else cell


def _agreed(turn: WorkingPlan, name: str, cell: Cell, less: Cell) -> bool:
    """Whether Model-C expects no fall; it is not asked about the first step, nor of services that nobody predicts."""
    if name in turn.unpredicted or turn.known[name].before is None:
        return True
    change = Cell(less.cores - cell.cores, less.ways - cell.ways)
    values = downsize_value(turn.node.observation, name, turn.models, change)
    return values is None or values[0] >= values[1] - FALL


def _halfway(cell: Cell, less: Cell) -> Cell:
    """Half of the way, and all of it where a unit is left.

    The models see the neighbours as they are. BE jobs that get these CPUs, or have nobody before them there any more,
    make clock, hyperthreads and memory traffic worse for all; half of the way down that shows, and the next prediction
    knows it. So does it after the first step, where less is left that a wrong prediction could cost.
    """
    return Cell(cell.cores - (cell.cores - less.cores + 1) // 2, cell.ways - (cell.ways - less.ways + 1) // 2)


def _plain(turn: WorkingPlan, name: str, cell: Cell) -> Cell:
    """Of a service that nothing is predicted for: a tenth of its cores, where it has slack and uses half of the rest.

    Cores only: how much a cache can shrink shows in nothing that is measured.
    """
    service, known = turn.services[name], turn.known[name]
    used = service.counters.cpu_usage_cores
    if used is None or (service.slack or 0.0) < ROOM or known.settled < LATER or known.missed_balance:
        return cell
    found = turn.node.bounded(name, cell.cores - max(1, round(LITTLE * cell.cores)), cell.ways)
    enough = used <= HALF * found.cores * turn.quantum
    return found if enough and found.cores < cell.cores and not turn.banned(name, found) else cell


def _tried(turn: WorkingPlan, name: str, cell: Cell) -> Cell:
    """Without predictions: what Model-C would take, once the cell has settled."""
    action = downsize(turn.node.observation, name, turn.models, cell)
    if action is None or turn.known[name].settled <= SETTLE:
        return cell
    found = turn.node.bounded(name, cell.cores + action.cores, cell.ways + action.ways)
    if turn.banned(name, found):
        return cell
    turn.actions[name] = action
    return found
