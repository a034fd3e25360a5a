"""Rules for a node on which not all needs fit (OSML, algorithm 1, and beyond it)."""

from __future__ import annotations

from osml.domain import Infeasible, Reason
from osml.entropy import combine
from osml.policies.osml.divide import cut_down, fits, missing, spread_out
from osml.policies.osml.facts import Facts, jobs_entropy
from osml.policies.osml.memory.state import CELLS, SHARED, SOME
from osml.policies.osml.node import Cell, amount
from osml.policies.osml.place import share, unmeasured
from osml.policies.osml.relieve import corrected
from osml.policies.osml.rule import Proposal, changes


def short(facts: Facts) -> bool:
    """Whether somebody needs more than could be found for it: no rule before this one had an answer.

    Where all share and meet their targets nobody does, whatever is predicted.
    """
    return bool(facts.alarmed or facts.new) or (facts.way == SHARED and bool(facts.missed))


def untried(facts: Facts, way: str) -> bool:
    """Whether somebody is short, sharing everything did not do, and this way is untried at these loads."""
    return (
        short(facts)
        and way not in facts.scores
        and way != facts.way
        and (SHARED in facts.scores or not facts.node.may_share)
    )


def cells_at_rcliff(facts: Facts) -> Proposal | None:
    """Cells between the needs and RCliff's bound, else RCliff, where those fit and are untried."""
    if not untried(facts, CELLS):
        return None
    for least in (facts.tight, facts.cliff):
        wants = {name: unmeasured(facts, name, want) for name, want in facts.wants.items()}
        cells = cut_down(facts.node, wants, {name: unmeasured(facts, name, least(name)) for name in facts.services})
        if cells is not None:
            cells = spread_out(facts.node, cells, list(cells), list(cells))
            text = "the OAAs do not fit together: cells have the size of RCliff's bound"
            return Proposal(cells, [Reason(text=text), *changes(facts, cells)], shortage=lack(facts), past_cliff=True)
    return None


def share_first(facts: Facts) -> Proposal | None:
    """All share where somebody is short and that is untried: queues drain fastest there, and it needs no prediction."""
    is_untried = short(facts) and facts.node.may_share and SHARED not in facts.scores
    return share_everything(facts) if is_untried else None


def share_again(facts: Facts) -> Proposal | None:
    """All share where targets are missed, and that had the lowest E_S of all that was tried."""
    scores = facts.scores
    starved = any(facts.services[name].slack is None for name in facts.set_aside)
    lacking = short(facts) or (facts.way in scores and (bool(facts.missed) or starved))
    is_best = lacking and SHARED in scores and scores[SHARED] <= min(scores.values())
    return share_everything(facts) if is_best else None


def share_everything(facts: Facts) -> Proposal:
    """All share."""
    found = share("the needs of all services do not fit in cells")
    return found._replace(reasons=[*found.reasons, *changes(facts, {})], shortage=lack(facts), tracks=corrected(facts))


def set_some_aside(facts: Facts) -> Proposal | None:
    """As many as possible in their cells, the others in what is left.

    Where not all can meet their target, and all that was tried has a higher E_S than missing those of some completely.
    """
    if not facts.missed or not untried(facts, SOME):
        return None
    node, served = facts.node, _served(facts)
    aside = [name for name in _by_price(facts) if name not in served]
    expected = combine(len(aside) / len(facts.services), jobs_entropy(facts.observation)) if aside else None
    if expected is None or not min(facts.scores.values(), default=1.0) > facts.settings.better * expected:
        return None
    cells = {name: node.leasts[name] for name in aside} | served
    # All that is left for one of them: its need may be less than predicted.
    cells = spread_out(node, cells, aside[:1], list(cells))
    cells = {name: cells[name] for name in facts.services}
    text = f"services that use what the others leave: {', '.join(aside)}; {lack(facts).message}"
    told = Infeasible(aside, lack(facts).message)
    reasons = [Reason(text=text), *changes(facts, cells)]
    return Proposal(cells, reasons, aside, corrected(facts), told, past_cliff=True)


def squeezed(facts: Facts) -> Proposal:
    """Cells for all between the need and the least that is legal: where services came, or limits changed."""
    if facts.node.may_share:
        return share_everything(facts)
    cells = cut_down(facts.node, facts.wants, facts.node.leasts) or {}
    text = "cells are smaller than the needs: services came, or limits changed"
    return Proposal(cells, [Reason(text=text), *changes(facts, cells)], shortage=lack(facts), past_cliff=True)


def lack(facts: Facts) -> Infeasible:
    """What the scheduler above is told."""
    more = missing(facts.node, facts.wants)
    names = facts.missed or list(facts.services)
    if any(more):
        lacking = amount(*more, facts.node.has_ways)
        return Infeasible(names, f"the needs of all services are {lacking} more than there are")
    return Infeasible(names, "targets are missed, and no service can give resources")


def _served(facts: Facts) -> dict[str, Cell]:
    """As many as possible in their cells, whoever needs least first: with the OAA, then with RCliff."""
    order = _by_price(facts)
    cells = {name: unmeasured(facts, name, facts.node.leasts[name]) for name in order}
    served: dict[str, Cell] = {}
    wants = {name: unmeasured(facts, name, facts.wants[name]) for name in order}
    tights = {name: unmeasured(facts, name, facts.tight(name)) for name in order}
    for need in (wants, tights):
        for name in order:
            trial = {**cells, name: need[name]}
            if name not in served and fits(facts.node, trial):
                cells, served[name] = trial, need[name]
    return served


def _by_price(facts: Facts) -> list[str]:
    total = facts.node.total

    def price(name: str) -> tuple[float, str]:
        want = facts.wants[name]
        return want.cores / total.cores + (want.ways / total.ways if total.ways else 0.0), name

    return sorted(facts.services, key=price)
