"""Which run is for what: training, validation, calibration, test of seen services, of unseen ones, of strangers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from osml_training.collect.variants import is_variant, parent_of
from osml_training.tables.runs import RunKey, fold_of
from osml_training.train.config import Split

Part = Literal["train", "validation", "calibration", "test", "unseen", "strangers", "none"]
_FOLDS = 10_000


def part_of(key: RunKey, split: Split) -> Part:
    """The part that a run belongs to; the same for all runs of a service in one band of load on one platform.

    Variants are for training; those of an unseen service are `strangers`: programs that nobody has met and that are
    many, to ask whether margins for unknown services hold. Errors are of programs and machines of the catalogs.
    """
    if is_variant(key.service) or is_variant(key.platform):
        if parent_of(key.service) not in split.unseen:
            return "train"
        return "none" if is_variant(key.platform) else "strangers"
    if key.service in split.unseen:
        return "unseen"
    band = "?" if key.load is None else str(round(key.load / split.band))
    if key.neighbours:  # beside others no two runs are alike: each is its own band
        band = key.run
    place = fold_of(f"{key.platform}/{key.service}/{band}", _FOLDS, split.seed) / _FOLDS
    held: tuple[tuple[Part, float], ...] = (
        ("test", split.test),
        ("calibration", split.calibration),
        ("validation", split.validation),
    )
    for name, share in held:
        if place < share:
            return name
        place -= share
    return "train"


def chooses(part: Part, split: Split) -> Callable[[RunKey], bool]:
    """A selection for `ExampleSource`: the runs of one part."""
    return lambda key: part_of(key, split) == part
