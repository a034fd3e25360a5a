"""Rules that follow Model-C': more before a target is missed, less where a smaller cell is known to be enough.

A tail of few requests is noise; CPU time is not. The model has learned on many nodes what both together say.
"""

from __future__ import annotations

import math

from msgspec.structs import replace

from osml.allocation.policy import latency_text
from osml.domain import Reason
from osml.policies.osml.facts import Facts
from osml.policies.osml.node import Cell, changed, total
from osml.policies.osml.rule import Proposal
from osml.policies.osml.settings import Settings


def more_ahead(facts: Facts) -> Proposal | None:
    """More out of what is idle or the jobs', for services that Model-C' expects to miss their target."""
    cells, reasons = dict(facts.cells), list[Reason]()
    free = facts.node.for_lc.less(total(cells.values())).cores
    late = {name: now for name, now in facts.expected.items() if free > 0 and now > facts.settings.ahead}
    larger = {name: facts.larger(name) for name in late}
    for name, found in facts.outlook(larger).items():
        cell, now = facts.cells[name], late[name]
        more = min(_worth(larger[name], found, now, facts.settings) - cell.cores, free)
        if more <= 0:
            continue
        cells[name], free = Cell(cell.cores + more, cell.ways), free - more
        reasons.append(_reason(facts, name, cells[name], now))
    return Proposal(cells, reasons, facts.set_aside) if reasons else None


def less_ahead(facts: Facts) -> Proposal | None:
    """The smallest cell that Model-C' is sure of, for services that have met their target in the present one."""
    cells, tracks, reasons = dict(facts.cells), dict(facts.tracks), list[Reason]()
    smaller = {name: facts.smaller(name) for name in facts.expected if _may_shrink(facts, name)}
    for name, found in facts.outlook(smaller).items():
        cell, track = facts.cells[name], facts.tracks[name]
        safe, level = cell, math.nan
        for one, sure in zip(smaller[name], found, strict=True):
            if sure > facts.settings.safe:
                break
            safe, level = one, sure
        if safe != cell:
            cells[name], tracks[name] = safe, replace(track, before=cell)
            reasons.append(_reason(facts, name, safe, level))
    return Proposal(cells, reasons, facts.set_aside, tracks, past_cliff=True) if reasons else None


def _may_shrink(facts: Facts, name: str) -> bool:
    """Whether a service has met its target for long enough, and the first step is not the formula's.

    The step to the need of the formula waits a little longer.
    """
    waits = facts.in_window(name)
    return facts.has_met(name) and not waits and not (facts.unpredicted(name) and facts.tracks[name].before is None)


def _worth(larger: list[Cell], sure: list[float], now: float, settings: Settings) -> int:
    """Cores of the first cell that is enough, or of the last in which each core still helps."""
    cores, before = 0, now
    for cell, level in zip(larger, sure, strict=True):
        if before - level < settings.helps:
            break
        cores, before = cell.cores, level
        if level <= -settings.ahead:
            break
    return cores


def _reason(facts: Facts, name: str, cell: Cell, level: float) -> Reason:
    old = facts.cells[name]
    why = (
        f"Model-C' expects at most {math.exp(level):.2f} of the target with {min(old.cores, cell.cores)} cores; "
        f"{latency_text(facts.services[name])}"
    )
    return changed(name, old, cell, why)
