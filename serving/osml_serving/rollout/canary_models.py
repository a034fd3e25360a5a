"""Opens the models of a canary: all must pass their checks, before they decide for anybody."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

from osml.base.failure import Failure
from osml_serving.decider import Decider, installed_decider
from osml_serving.log import Level, Log
from osml_serving.models.shelf import ModelShelf


class CanaryModels(NamedTuple):
    """Models of a canary, and the policies with them."""

    decider: Decider
    shelf: ModelShelf


def open_canary_models(like: Decider, folder: Path, log: Log) -> CanaryModels:
    """The policies of `like` with the models of a folder. Blocks.

    Raises Failure where the folder has no models, or one that is refused.
    """

    def tell(level: str, message: str) -> None:
        log.event(cast(Level, level), "canary", f"{folder}: {message}")

    shelf = ModelShelf(folder, tell)
    shelf.reload()
    if shelf.refused:
        refused = "; ".join(f"{one.name} is refused, {one.reason}" for one in shelf.refused)
        raise Failure(f"models of {folder}: {refused}")
    if not shelf.in_use():
        raise Failure(f"models of {folder}: there are none, expected a model folder with a manifest")
    decider = installed_decider(like.default_policy, like.seed, shelf, like.policies)
    decider.unavailable.update(like.unavailable)  # with the true reasons
    decider.discarded = like.discarded
    return CanaryModels(decider, shelf)
