"""Opens the models of a canary: all must pass their checks, before they decide for anybody."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from osml.base.failure import Failure
from osml_serving.decider import Decider, installed_decider
from osml_serving.log import Level, Log
from osml_serving.models.shelf import ModelShelf


def decider_with_models(like: Decider, folder: Path, log: Log) -> Decider:
    """A decider with the policies of `like` and the models of a folder. Blocks.

    Raises Failure where the folder has no models, or one that is refused.
    """

    def tell(level: str, message: str) -> None:
        log.event(cast(Level, level), "canary", f"{folder}: {message}")

    shelf = ModelShelf(folder, tell)
    shelf.reload()
    if shelf.refused:
        raise Failure(
            f"models of {folder}: {'; '.join(f'{one.name} is refused, {one.reason}' for one in shelf.refused)}"
        )
    if not shelf.in_use():
        raise Failure(f"models of {folder}: there are none, expected a model folder with a manifest")
    decider = installed_decider(like.default_policy, like.seed, shelf, like.policies)
    decider.discarded = like.discarded
    return decider
