"""The rules of the policy `osml`, in order: the first that has a proposal which passes the guard decides."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from osml.policies.osml import ahead, balance, overcommit, place, reclaim, relieve
from osml.policies.osml.facts import Facts
from osml.policies.osml.guard import objection
from osml.policies.osml.rule import Proposal, Rule

_GUARD = ("round_bound", "full")
"""Of the cliff shield, which some rules ask themselves."""

_MORE = ("step", "far", "far_step", "withdraw", "retry_s", "retry_times", "retry_most_s")
_SCARCE = ("scarce_ways", "round_bound")

RULES = (
    Rule("queues-drain", place.shared_queues_drain, place.wait_for_queues, "ours", ("settle", "patience", "drain")),
    Rule("sharing-is-enough", place.shared_is_enough, place.stay_shared, "ours", ("to_save", "to_save_each")),
    Rule("place", place.unplaced, place.cells_for_all, "OSML, algorithm 1, lines 1 to 6", _SCARCE),
    Rule("more", relieve.missed_in_cells, relieve.more_for_missed, "OSML, algorithm 2", (*_MORE, *_GUARD)),
    Rule("more-ahead", ahead.foreseen, ahead.more_ahead, "ours (Model-C')", ("ahead", "ahead_to", "helps", "reach")),
    Rule("balance", balance.unbalanced, balance.move_a_unit, "PARTIES, section 3.4", ("room", "worse", "near", "full")),
    Rule("share", overcommit.sharing_untried, overcommit.share_everything, "ours", _MORE),
    Rule("one-apart", overcommit.pool_untried, overcommit.one_apart, "ours", ("apart", "full")),
    Rule(
        "cells-at-rcliff",
        overcommit.rcliff_untried,
        overcommit.cells_at_rcliff,
        "OSML, algorithm 1, line 18",
        _SCARCE,
    ),
    Rule(
        "set-aside",
        overcommit.setting_aside_may_be_better,
        overcommit.set_some_aside,
        "ours",
        ("better", *_SCARCE, *_MORE),
    ),
    Rule("share-again", overcommit.sharing_was_best, overcommit.share_everything, "ours", _MORE),
    Rule(
        "take-surplus",
        reclaim.calm,
        reclaim.take_surplus,
        "OSML, algorithm 3",
        ("calm", "close", "settle", "later", "little", "ahead", *_GUARD),
    ),
    Rule("less-ahead", ahead.foreseen, ahead.less_ahead, "ours (Model-C')", ("safe", "safe_after", "reach")),
    Rule("probe", reclaim.calm, reclaim.probe_below, "ours", ("calm", "later", "probe", "ahead", *_GUARD)),
)
"""After them comes `hold`, and where that is not legal any more `squeeze`, which always is."""


class Chosen(NamedTuple):
    """A proposal that passed the guard, and the name of its rule."""

    rule: str
    proposal: Proposal


def chosen(facts: Facts, without: Collection[str] = ()) -> Chosen:
    """What the first rule that has an answer proposes; rules `without` are left out, to see what they are worth."""
    for rule in RULES:
        if rule.name not in without and rule.when(facts):
            proposal = rule.propose(facts)
            if proposal is not None and objection(facts, proposal) is None:
                return Chosen(rule.name, proposal)
    held = reclaim.hold(facts)
    if facts.alarmed:
        held = held._replace(shortage=overcommit.lack(facts))
    if objection(facts, held) is None:
        return Chosen("hold", held)
    return Chosen("squeeze", overcommit.squeezed(facts))
