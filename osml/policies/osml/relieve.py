"""The rule for services that miss their target (OSML, algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from osml.policies.osml.answers.correct import Action, upsize
from osml.policies.osml.divide import cut_down, spread_out
from osml.policies.osml.facts import Facts
from osml.policies.osml.guard import least_for_use, may_have
from osml.policies.osml.memory.state import Correction, Track
from osml.policies.osml.node import Cell
from osml.policies.osml.rule import Proposal, changes


def corrected(facts: Facts) -> dict[str, Track]:
    """The tracks, with what a miss in a cell says of the prediction: where no more could be found for it, either."""
    missed = [name for name in facts.alarmed if name in facts.cells]
    return {**facts.tracks, **{name: _step_up(facts, name, {})[1] for name in missed}}


def more_for_missed(facts: Facts) -> Proposal | None:
    """More for those who miss their target in a cell, out of what is idle, else of what others don't need."""
    names = [name for name in facts.alarmed if name in facts.cells]
    if not names:
        return None
    tracks, actions, steps = dict(facts.tracks), dict[str, Action](), dict[str, Cell]()
    for name in names:
        steps[name], tracks[name] = _step_up(facts, name, actions)
    # More of both, or of the one that others can spare: cores and ways stand for each other (PARTIES, 3.4.3).
    # Cache alone helps nobody who uses nearly all of its CPUs.
    busy = [name for name in names if least_for_use(facts, name) > facts.cells[name].cores]
    ways_only = {n: facts.node.bounded(n, facts.cells[n].cores, step.ways) for n, step in steps.items()}
    ways_only |= {name: facts.cells[name] for name in busy}
    cores_only = {n: facts.node.bounded(n, step.cores, facts.cells[n].ways) for n, step in steps.items()}
    for more in (steps, cores_only, ways_only):
        cells = _given(facts, more)
        if cells is not None and any(facts.cells[name].below(cells[name]) for name in names):
            cells = _lent(facts, names, cells)
            tracks |= {name: facts.tracks[name] for name in busy if more is ways_only}
            return Proposal(cells, changes(facts, cells, actions), facts.set_aside, tracks, actions=actions)
    return None


def _step_up(facts: Facts, name: str, actions: dict[str, Action]) -> tuple[Cell, Track]:
    """What is tried next for a service that misses its target, and what that says of its prediction.

    Its need where that is more; at least one step beyond its cell, or the cell before its last step down.
    """
    track, cell, want, settings = facts.tracks[name], facts.cells[name], facts.wants[name], facts.settings
    tried = _correction(facts, name, cell, actions)
    if track.before is not None and track.settled <= settings.withdraw:
        tried = Cell(*track.before)
    found = facts.node.bounded(name, max(want.cores, tried.cores, cell.cores), max(want.ways, tried.ways, cell.ways))
    old = track.correction
    times = min(old.times + 1, 64)
    length_s = min(settings.retry_s * settings.retry_times ** (times - 1), settings.retry_most_s)
    correction = Correction(
        old.cores + max(0, found.cores - want.cores),
        old.ways + max(0, found.ways - want.ways),
        facts.observation.time_s + length_s,
        times,
    )
    return found, replace(track, correction=correction, before=None)


def _correction(facts: Facts, name: str, cell: Cell, actions: dict[str, Action]) -> Cell:
    """A step in proportion to the cell, of cores, a way, or both: as Model-C says; both without it, or far behind."""
    settings, way = facts.settings, int(facts.node.has_ways)
    if facts.far(name):
        return Cell(cell.cores + max(2, round(settings.far_step * cell.cores)), cell.ways + way)
    step, total = max(1, round(settings.step * cell.cores)), facts.node.total
    most = Cell(min(step, total.cores - cell.cores), min(way, total.ways - cell.ways))
    action = upsize(facts.observation, name, facts.models, cell, most)
    if action is None:
        return Cell(cell.cores + step, cell.ways + way)
    actions[name] = action
    return Cell(cell.cores + action.cores, cell.ways + action.ways)


def _given(facts: Facts, more: dict[str, Cell]) -> dict[str, Cell] | None:
    """Cells with more for some: idle units first, else what others don't need; None where that is too little."""
    least = {name: cell if name in more else _spared(facts, name, cell) for name, cell in (facts.cells | more).items()}
    return cut_down(facts.node, facts.cells | more, least)


def _spared(facts: Facts, name: str, cell: Cell) -> Cell:
    """What a neighbour keeps at least: its need of both, or what it has; all where the guard calls that unsafe."""
    if name in facts.set_aside:
        return facts.node.leasts[name]
    want = facts.wants[name]
    least = Cell(min(want.cores, cell.cores), min(want.ways, cell.ways))
    return least if may_have(facts, name, least) else cell


def _lent(facts: Facts, names: Sequence[str], cells: dict[str, Cell]) -> dict[str, Cell]:
    """The cells, with all that is idle for those who are far behind: a queue drains the faster the more it has."""
    behind = [name for name in names if facts.far(name)]
    idle = not facts.node.be and len(cells) == len(facts.services)  # what no cell has is in use by those without
    return spread_out(facts.node, cells, behind) if behind and idle else cells
