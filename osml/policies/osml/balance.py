"""Rules for services of which one misses its target while others have room that no prediction tells of.

Needs are predicted with bounds, so on a full node nobody seems to have anything to spare. Latencies tell more: a unit
at a time moves from whoever has most room, as in PARTIES (section 3.4), and not into a cell that was too small for it.
"""

from __future__ import annotations

import math

from osml.allocation.staffing import used_cpus
from osml.domain import Resource
from osml.policies.osml.facts import Facts
from osml.policies.osml.guard import least_for_use
from osml.policies.osml.memory.state import CELLS, SHARED
from osml.policies.osml.node import Cell
from osml.policies.osml.rule import Proposal, changes


def go_back(facts: Facts) -> Proposal | None:
    """The cells in which all met their targets at these loads, where somebody misses its own in other cells.

    Not where all who miss theirs have as much of everything now.
    """
    cells = {name: Cell(*cell) for name, cell in facts.before.good.items()}
    tried = facts.changed or facts.before.returned >= facts.settings.returns
    if tried or cells.keys() != facts.services.keys():
        return None
    helps = any(name not in facts.cells or facts.cells[name].below(cells[name]) for name in facts.alarmed)
    return Proposal(cells, changes(facts, cells), past_cliff=True) if helps else None


def after_return(facts: Facts) -> tuple[dict[str, tuple[int, int]], int]:
    """The cells to return to after this interval, and how often all have returned to them.

    None at other loads, and none after all, where somebody is far above its target in them, or misses it for long.
    """
    good, returned = facts.before.good, facts.before.returned
    if facts.changed:
        return {}, 0
    if facts.observation.partition is None or facts.way != CELLS:
        return good, returned
    cells = {name: (cell.cores, cell.ways) for name, cell in facts.cells.items()}
    if not facts.missed and all(_holds(facts, name) for name in cells):
        return cells, 0
    if cells != good:
        return good, returned
    if any(_fails(facts, name) for name in facts.alarmed):
        return {}, 0
    arrived = any(track.settled == 0 for track in facts.tracks.values())
    return good, returned + arrived


def _holds(facts: Facts, name: str) -> bool:
    """Whether a service has met its target in its cell for a while, as far as noise lets one tell."""
    track, measured = facts.tracks[name], facts.services[name].slack is not None
    return measured and track.settled >= facts.settings.later and track.level is not None and track.level <= 1.0


def _fails(facts: Facts, name: str) -> bool:
    """Whether a service has missed its target in its cell for so long, or by so much, that the cell is too small."""
    track, settings = facts.tracks[name], facts.settings
    is_far = facts.far(name) and track.settled >= settings.settle
    return is_far or min(track.missed, track.settled) >= settings.patience


def move_a_unit(facts: Facts) -> Proposal | None:
    """A unit of what it lacks most for the service furthest above its target, from the one with most room.

    Where all have a cell, and sharing everything was not much better. Not where all had better share, because somebody
    is far above its target, no job is there, and sharing is untried or the best.
    """
    scores = facts.scores
    good = scores.get(CELLS, 0.0) <= scores.get(SHARED, 1.0) + facts.settings.worse
    if facts.way != CELLS or not facts.alarmed or not good:
        return None
    if _had_better_share(facts):
        return None
    level, taker = max((facts.tracks[name].level or 0.0, name) for name in facts.alarmed)
    others = [name for name in facts.cells if name not in facts.missed and facts.meets(name)]
    with_room = sorted(others, key=lambda name: (_level(facts, name), name))
    for resource in _lacking(facts, taker):
        got = _changed(facts.cells[taker], resource, 1)
        for giver in with_room:
            left = _changed(facts.cells[giver], resource, -1)
            room = min(level, 1.0) - _level(facts, giver)
            if room < facts.settings.room or not _may_give(facts, giver, left):
                continue
            if got == facts.node.bounded(taker, *got):
                cells = facts.cells | {giver: left, taker: got}
                return Proposal(cells, changes(facts, cells), facts.set_aside, past_cliff=True)
    return None


def _had_better_share(facts: Facts) -> bool:
    """Whether a queue grows faster than units move, and sharing everything may drain it."""
    scores, possible = facts.scores, facts.node.may_share and not facts.node.be
    best = SHARED not in scores or scores[SHARED] <= min(scores.values())
    return possible and best and any(facts.far(name) for name in facts.alarmed)


def _level(facts: Facts, name: str) -> float:
    """Mean latency over target; that of a service at its target where nothing was measured."""
    level = facts.tracks[name].level
    return 1.0 if level is None else level


def _lacking(facts: Facts, name: str) -> list[Resource]:
    """The resources of which a service has less than the bound of its OAA, first that with the smaller part of it."""
    cell, (cpus, ways) = facts.cells[name], facts.tracks[name].oaa_upper
    parts: dict[Resource, float] = {"cores": cell.cores * facts.quantum / max(cpus, 1.0)}
    if facts.node.has_ways:
        parts["ways"] = cell.ways / max(ways, 1.0)
    return sorted((resource for resource, part in parts.items() if part < 1.0), key=lambda resource: parts[resource])


def _changed(cell: Cell, resource: Resource, units: int) -> Cell:
    return Cell(cell.cores + units, cell.ways) if resource == "cores" else Cell(cell.cores, cell.ways + units)


def _may_give(facts: Facts, name: str, cell: Cell) -> bool:
    """Whether a cell is legal, enough for the CPU time in use, and more than the one in which the target was missed."""
    if cell != facts.node.bounded(name, *cell):
        return False
    if cell.cores < min(least_for_use(facts, name), facts.cells[name].cores):
        return False
    expected = level_with(facts, name, cell.cores)
    if expected is not None and expected > facts.settings.near:
        return False
    small = facts.tracks[name].missed_with
    return small is None or cell.cores > small[0] or cell.ways > small[1]


def level_with(facts: Facts, name: str, cores: int) -> float | None:
    """Mean latency over target that a service would have with fewer cores; None where its CPU time was not measured.

    The wait behind a queue goes with 1 / (1 - utilisation); what is not wait does not grow, so this is an upper bound.
    """
    used, level, quantum = used_cpus(facts.services[name]), facts.tracks[name].level, facts.quantum
    if used is None or level is None:
        return None
    idle, left = facts.cells[name].cores * quantum - used, cores * quantum - used
    if left <= 0.0:
        return math.inf
    return level * max(1.0, (idle / (facts.cells[name].cores * quantum)) / (left / (cores * quantum)))
