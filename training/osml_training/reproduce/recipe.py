"""The recipe: steps with their commands, read and checked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from osml.base.failure import InputError

RECIPE = Path(__file__).with_name("recipe.yaml")
_LEAST_ROWS = 1000
_SCALED = re.compile(r"\{scale:(\d+)\}")


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step: `run` are the arguments of `osml` (or of `module`), one command after the other.

    `needs` are earlier steps whose output it reads. `ray`: its commands take `--ray`, but for labels.
    """

    name: str
    does: str
    run: list[str]
    needs: list[str] = []
    ray: bool = False
    module: str = "osml"


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Steps in order, and words that their commands contain."""

    words: dict[str, str]
    steps: list[Step]


class Scale(msgspec.Struct, frozen=True):
    """What the commands of a run are filled in with: rows are multiplied by `rows`; folders; a Ray cluster or None."""

    rows: float
    data: str
    models: str
    ray: str | None = None


def read_recipe(path: Path = RECIPE) -> Recipe:
    """The recipe of a file. InputError where it is no recipe, or a step needs one that does not come before it."""
    try:
        recipe = msgspec.convert(yaml.safe_load(path.read_text("utf-8")), Recipe)
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise InputError(f"the recipe {path} can't be read: {error}") from None
    before: set[str] = set()
    for step in recipe.steps:
        missing = sorted(set(step.needs) - before)
        if missing or step.name in before:
            fault = f"needs '{missing[0]}', expected steps before it" if missing else "occurs twice"
            raise InputError(f"recipe: step '{step.name}' {fault}")
        before.add(step.name)
    return recipe


def commands(recipe: Recipe, step: Step, scale: Scale) -> list[list[str]]:
    """The arguments of each command of a step. InputError for a word that the recipe does not have."""
    words = {**recipe.words, "data": scale.data, "models": scale.models}
    found = [shlex.split(_filled(text, words, scale.rows, step.name)) for text in step.run]
    if step.ray and scale.ray is not None:
        found = [one if one[:3] == ["learn", "data", "label"] else [*one, "--ray", scale.ray] for one in found]
    return found


def _filled(text: str, words: Mapping[str, Any], rows: float, step: str) -> str:
    text = _SCALED.sub(lambda match: str(max(_LEAST_ROWS, round(int(match[1]) * rows))), text)
    try:
        while "{" in text:  # words may contain words
            text = text.format_map(words)
    except (KeyError, ValueError) as error:
        raise InputError(f"recipe: step '{step}' has the unknown word {error}") from None
    return text
