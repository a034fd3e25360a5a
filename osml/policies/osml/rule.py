"""What a rule of the policy `osml` is, and what it proposes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from osml.allocation.policy import latency_text
from osml.domain import Infeasible, Partition, Reason
from osml.policies.osml.answers.correct import Action
from osml.policies.osml.facts import Facts
from osml.policies.osml.memory.state import Track
from osml.policies.osml.node import Cell, amount, changed

_NO_TRACKS: Mapping[str, Track] = MappingProxyType({})
_NO_ACTIONS: Mapping[str, Action] = MappingProxyType({})


class Proposal(NamedTuple):
    """How to divide the node for the next interval.

    `cells`: who gets a cell; all others share what is left. `set_aside`: services whose cell is known to be too small.
    `tracks`: memory that the rule changed. `shortage`: what the scheduler above is told. `actions`: Model-C's.
    `partition`: in place of cells, exactly this one. `past_cliff`: needs do not fit, so cells below RCliff pass the
    guard; so do cells below what is predicted that measurements or Model-C' allow.
    """

    cells: dict[str, Cell]
    reasons: Sequence[Reason] = ()
    set_aside: Sequence[str] = ()
    tracks: Mapping[str, Track] = _NO_TRACKS
    shortage: Infeasible | None = None
    actions: Mapping[str, Action] = _NO_ACTIONS
    partition: Partition | None = None
    past_cliff: bool = False


class Rule(NamedTuple):
    """One rule: the first in the list that proposes something which passes the guard decides.

    `propose` gives None where the rule does not hold. `source`: where it is from (paper and section, or "ours").
    """

    name: str
    propose: Callable[[Facts], Proposal | None]
    source: str


def changes(facts: Facts, cells: Mapping[str, Cell], actions: Mapping[str, Action] = _NO_ACTIONS) -> list[Reason]:
    """The reason of each cell that is new, changed or given up, with Model-C's action where it was its."""
    found: list[Reason] = []
    for name, service in facts.services.items():
        old, cell = facts.cells.get(name), cells.get(name)
        if cell == old:
            continue
        by = f"; {actions[name]}" if name in actions else ""
        divided = facts.node.has_ways
        oaa = amount(*facts.tracks[name].oaa, divided, ".1f", ", ")
        why = f"{latency_text(service)}; OAA {oaa}{by}"
        if cell is not None and old is not None:
            found.append(changed(name, old, cell, why))
        elif cell is not None:
            want = facts.wants[name]
            needs = f"{want.cores} and {want.ways}" if divided else f"{want.cores}"
            text = f"{name} gets {amount(*cell, divided)}, it needs {needs}: {why}"
            found.append(Reason(text=text, service=name, resource="cores", change=cell.cores))
        elif old is not None:
            text = f"{name} gives its {amount(*old, divided)} to all: {why}"
            found.append(Reason(text=text, service=name, resource="cores", change=-old.cores))
    return found
