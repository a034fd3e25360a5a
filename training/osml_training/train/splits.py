"""Which run is for what: training, validation, calibration, test of seen services, of unseen ones, of strangers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Literal

from msgspec.structs import replace

from osml.base.failure import InputError
from osml_training.collect.variants import is_variant, parent_of
from osml_training.tables.runs import RunKey, fold_of
from osml_training.train.config import UNSEEN_SERVICES, Split

Part = Literal["train", "validation", "calibration", "test", "unseen", "strangers", "none"]
_FOLDS = 10_000
_SEEDS = 10_000

RATE_BAND = 0.25
"""Width of the bands of rates in a new training, as that of the loads of a record (`collect.live_series`)."""


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
    place = fold_of(_band(key, split), _FOLDS, split.seed) / _FOLDS
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


def _band(key: RunKey, split: Split) -> str:
    """What stays together: runs of a service at nearly one load on one platform."""
    # Beside others no two runs of the virtual node are alike: each is its own band.
    band = key.run if key.neighbours or key.load is None else str(round(key.load / split.band))
    if key.load is None and key.rate:
        # On a live node nobody knows which share of the maximum load a rate is. The same record in two files is two
        # runs, so the rate counts, and not the run.
        width = split.band if split.rate_band is None else split.rate_band
        band = f"{key.neighbours} beside, rate {round(math.log(key.rate) / math.log1p(width))}"
    return f"{key.platform}/{key.service}/{band}"


def for_data(split: Split, *, real: bool) -> Split:
    """The split for data of real machines, or of the virtual node: see `Split.unseen`."""
    return replace(split, unseen=()) if real and split.unseen == UNSEEN_SERVICES else split


def for_rates(split: Split) -> Split:
    """The split of a new training: rates that were estimated from answers differ by chance, so their bands are wide.

    Two records of one load near an edge may still be apart: one pair in five of loads of 30 to 300 requests per second.
    A training that goes on from a model of the same machine keeps that model's bands, which say what was learned from.
    """
    return split if split.rate_band is not None else replace(split, rate_band=RATE_BAND)


def split_for(keys: Iterable[RunKey], split: Split) -> Split:
    """The split that these runs can be trained with: `split` itself, but where there are few runs.

    Where rates are all that is known, see `for_rates`. By chance, few runs may leave a part without any. Then the first
    seed counts that gives each part one. Services that are held out stay in where there are no others. Neither looks at
    what was measured. InputError where the runs are fewer than the parts.
    """
    runs = list(keys)
    if not runs:
        return split  # whoever reads them says what is missing
    only_rates = any(key.load is None and key.rate for key in runs)
    split = for_rates(split) if only_rates else split
    if all(key.service in split.unseen for key in runs):
        split = replace(split, unseen=())
    shares = {"validation": split.validation, "calibration": split.calibration, "test": split.test}
    needed = {"train", *(part for part, share in shares.items() if share > 0)}
    for seed in range(split.seed, split.seed + _SEEDS):
        found = replace(split, seed=seed)
        if needed <= {part_of(key, found) for key in runs}:
            return found
    apart = f", each {split.rate_band:.0%} above the one before" if only_rates and split.rate_band else ""
    loads = len({_band(key, split) for key in runs if key.service not in split.unseen})
    raise InputError(
        f"the data set has {loads} runs of other loads or neighbours that may be trained on, expected at least "
        f"{len(needed)}: one for each of {', '.join(sorted(needed))}; measure more loads{apart}"
    )


def chooses(part: Part, split: Split) -> Callable[[RunKey], bool]:
    """A selection for `ExampleSource`: the runs of one part."""
    return lambda key: part_of(key, split) == part
