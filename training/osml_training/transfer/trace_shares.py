"""A share of the traces of a machine: whole runs, some of every service, always the same ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from osml_training.tables.runs import RunKey, fold_of
from osml_training.train.config import Split
from osml_training.train.splits import part_of

_FOLDS = 2**48


def share_of_runs(keys: Iterable[RunKey], share: float, split: Split) -> Callable[[RunKey], bool]:
    """Chooses a share of the runs of each service in each part, one at least; a larger share has the smaller in it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        groups.setdefault((key.service, part_of(key, split)), []).append(key.run)
    taken: set[str] = set()
    for (_, part), runs in groups.items():
        if part == "test":
            continue  # nobody trains on it
        order = sorted(runs, key=lambda run: fold_of(run, _FOLDS, 7))
        taken |= set(order[: max(1, round(share * len(order)))])
    return lambda key: key.run in taken
