"""What a model says of itself: `metadata.json` beside `model.onnx`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from osml.base.failure import InputError
from osml.base.json_file import read_json
from osml.predictors.actions import ACTION_NAMES

METADATA_SCHEMA = "osml/model/v1"
METADATA, ONNX, CARD = "metadata.json", "model.onnx", "card.md"
KINDS = ("a", "a2", "b", "b2", "c", "c2")
"""OSML's A, A' (a2), B, B' (b2) and C; C' (c2) is ours."""

ANY_PLATFORM = "any"
"""The platform of a model that learned from many machines: it answers for those that have no model of their own."""

PART = "@"
"""`ID@8x11` is a part of platform ID: 8 CPUs and 11 ways of it."""


def platform_for(learned_from: Sequence[str]) -> str:
    """What a model answers for: the machine that it learned from, whole or in parts; ANY_PLATFORM where it saw many."""
    machines = {name.partition(PART)[0] for name in learned_from}
    return learned_from[0] if len(machines) == 1 else ANY_PLATFORM


class FeatureSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One input in its place, in `unit`.

    `low` to `high` is what it was trained on: from the 1st to the 99th percentile, of what describes the machine all.
    """

    name: str
    unit: str | None
    low: float
    high: float
    may_be_missing: bool = True


class OutputSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One output in its place, in `unit`."""

    name: str
    unit: str | None


class Margin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Split-conformal factors of the spread, one an output.

    At the coverage that is the key, the truth lies within point +- `two_sided` x spread, and at most at point +
    `upper` x spread.
    """

    two_sided: list[float]
    upper: list[float]


class ModelMetadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Features, outputs, margins and origin of a model. `simulated`: its traces come from the virtual node.

    `command` makes the model anew, `training` is its config; `parent` is the model that it was transferred from;
    `metrics` are those of its evaluation on runs that were held out. Margins have the coverage ("0.9") as key:
    `margins` for the `services` of the training, `margins_unseen` for others (empty: not known). Model-C has none.
    """

    name: str
    version: str
    kind: Literal["a", "a2", "b", "b2", "c", "c2"]
    variant: str
    platforms: list[str]
    services: list[str]
    features: list[FeatureSpec]
    outputs: list[OutputSpec]
    margins: dict[str, Margin]
    simulated: bool
    dataset_fingerprint: str
    commit: str
    seed: int
    command: str
    licence: str
    margins_unseen: dict[str, Margin] = {}
    parent: str | None = None
    training: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    schema: Literal["osml/model/v1"] = METADATA_SCHEMA

    @property
    def platform(self) -> str:
        """The machine that it answers for."""
        return platform_for(self.platforms)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    @property
    def answers(self) -> tuple[str, ...]:
        """Names of the outputs, in order."""
        return tuple(output.name for output in self.outputs)


def read_metadata(folder: Path) -> ModelMetadata:
    """`metadata.json` of a model's folder; InputError where it is missing, wrong, or contradicts itself."""
    file = folder / METADATA
    found = read_json(file, ModelMetadata, "the folder of a model")
    if found.kind == "c" and found.answers != ACTION_NAMES:
        raise InputError(f"{file}: outputs are not the {len(ACTION_NAMES)} actions of Model-C in their order")
    for coverage, margin in (*found.margins.items(), *found.margins_unseen.items()):
        for side in (margin.two_sided, margin.upper):
            if len(side) != len(found.outputs):
                raise InputError(
                    f"{file}: margins.{coverage} has {len(side)} factors, expected {len(found.outputs)}, one an output"
                )
    return found
