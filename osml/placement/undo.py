"""A move that the node did not take is undone: else every further decision may be refused, too."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from osml.domain import NOT_DONE, Observation, Reason
from osml.placement.state import PlacementState

_SAID = {"refused": "refused by the agent", "rolled_back": "rolled back"}


def after_outcome(observation: Observation, state: PlacementState[Any]) -> tuple[PlacementState[Any], list[Reason]]:
    """The state as before a move whose decision was not taken. That service then stays for a while."""
    trial, outcome = state.trial, observation.outcome
    state = replace(state, trial=None)
    if trial is None or outcome is None or outcome.seq != trial.seq or outcome.status not in NOT_DONE:
        return state, []
    move = trial.move
    if move.service not in state.homes:
        return state, []
    undone = [replace(one, undone=True) if one.service == move.service else one for one in state.moves]
    untouched = {domain: inner for domain, inner in state.inner.items() if domain != state.homes[move.service]}
    homes = state.homes | {move.service: move.left}
    state = replace(state, homes=homes, inner=untouched | trial.inner, moves=undone)
    text = f"{move.service} stays in cache domain {move.left}: the move was {_SAID.get(outcome.status, 'not applied')}"
    return state, [Reason(text=text, service=move.service)]
