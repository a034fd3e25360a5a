"""The rules of the policy `osml`, in order: the first that has a proposal which passes the guard decides."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from osml.policies.osml import ahead, balance, overcommit, place, reclaim, relieve
from osml.policies.osml.facts import Facts
from osml.policies.osml.guard import objection
from osml.policies.osml.rule import Proposal, Rule

RULES = (
    Rule("place", place.cells_for_all, "OSML, algorithm 1, lines 1 to 6"),
    Rule("more", relieve.more_for_missed, "OSML, algorithm 2"),
    Rule("more-ahead", ahead.more_ahead, "ours (Model-C')"),
    Rule("go-back", balance.go_back, "ours"),
    Rule("balance", balance.move_a_unit, "PARTIES, section 3.4"),
    Rule("share", overcommit.share_first, "ours"),
    Rule("cells-at-rcliff", overcommit.cells_at_rcliff, "OSML, algorithm 1, line 18"),
    Rule("set-aside", overcommit.set_some_aside, "ours"),
    Rule("share-again", overcommit.share_again, "ours"),
    Rule("take-surplus", reclaim.take_surplus, "OSML, algorithm 3"),
    Rule("less-ahead", ahead.less_ahead, "ours (Model-C')"),
    Rule("probe", reclaim.probe_below, "ours"),
)
"""After them comes `hold`, and where that is not legal any more `squeeze`, which always is."""


class Chosen(NamedTuple):
    """A proposal that passed the guard, and the name of its rule."""

    rule: str
    proposal: Proposal


def chosen(facts: Facts, without: Collection[str] = ()) -> Chosen:
    """What the first rule that has an answer proposes; rules `without` are left out, to see what they are worth."""
    for rule in RULES:
        proposal = None if rule.name in without else rule.propose(facts)
        if proposal is not None and objection(facts, proposal) is None:
            return Chosen(rule.name, proposal)
    held = reclaim.hold(facts)
    if facts.alarmed:
        held = held._replace(shortage=overcommit.lack(facts))
    if objection(facts, held) is None:
        return Chosen("hold", held)
    return Chosen("squeeze", overcommit.squeezed(facts))
