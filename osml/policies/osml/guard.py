"""The one guard over every proposal: machine, operator's limits, and the cliff shield."""

from __future__ import annotations

import math

from osml.allocation.staffing import used_cpus
from osml.policies.osml.divide import fits
from osml.policies.osml.facts import Facts, units
from osml.policies.osml.memory.state import Track
from osml.policies.osml.node import Cell, total
from osml.policies.osml.rule import Proposal


def objection(facts: Facts, proposal: Proposal) -> str | None:
    """Why a proposal must not be carried out; None where it may."""
    node = facts.node
    for name, cell in proposal.cells.items():
        if cell != node.bounded(name, *cell):
            return f"{name}: {cell.cores} cores and {cell.ways} ways are outside of the operator's limits"
        if proposal.past_cliff or name in proposal.set_aside:
            continue
        now = facts.cells.get(name)
        if now is not None and cell.below(now) and not may_have(facts, name, cell, proposal.tracks.get(name)):
            return f"{name}: {cell.cores} cores and {cell.ways} ways may be below its RCliff"
    if not fits(node, proposal.cells):
        return "the cells are more than the node has"
    return _pool_objection(facts, proposal)


def _pool_objection(facts: Facts, proposal: Proposal) -> str | None:
    """Why services without a cell can't share what the cells leave."""
    node = facts.node
    sharing = [name for name in node.lc if name not in proposal.cells]
    pool = node.for_lc.less(total(proposal.cells.values()))
    outside = [name for name in sharing if node.bounded(name, *pool) != pool]
    return f"{outside[0]} can't share {pool.cores} cores and {pool.ways} ways" if outside else None


def may_have(facts: Facts, name: str, cell: Cell, track: Track | None = None) -> bool:
    """The cliff shield: whether a service that meets its target may be sent down to this cell.

    Either it has the bound of RCliff and its correction in both, or one core less than the bound of the OAA (from which
    losing a core is harmless by definition) with the OAA's ways: RCliff is one cell of a boundary on which cores and
    ways stand for each other. And it is not expected to use more than `full` of its CPUs.
    """
    if not facts.meets(name):
        return False
    settings, quantum, has_ways = facts.settings, facts.quantum, facts.node.has_ways
    track = facts.tracks[name] if track is None else track
    more = Cell(max(0, track.correction.cores), max(0, track.correction.ways))
    if cell.cores < min(least_for_use(facts, name), facts.cells[name].cores):
        return False
    least = facts.node.leasts[name]

    def reaches(cores: float, ways: float) -> bool:
        needed = units(cores, quantum, settings.round_bound) + more.cores
        enough = cell.ways >= max(units(ways, 1.0, settings.round_bound) + more.ways, least.ways)
        return cell.cores >= max(needed, least.cores) and (not has_ways or enough)

    return reaches(*track.cliff_upper) or reaches(track.oaa_upper[0] - 1.0, track.oaa[1])


def least_for_use(facts: Facts, name: str) -> int:
    """Units that a service needs for the CPU time that it was measured to use; 0 where that was not measured."""
    used = used_cpus(facts.services[name])
    return 0 if used is None else math.ceil(used / (facts.settings.full * facts.quantum))
