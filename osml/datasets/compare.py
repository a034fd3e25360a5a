"""Two labellings of the same runs side by side: how far they are from each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.datasets.store import LABELS, read_whole

COMPARED = ("rcliff_cores", "rcliff_ways", "oaa_cores", "oaa_ways")


class Agreement(NamedTuple):
    """`mean` and `worst` absolute difference over runs that have both, `same` the share of equal ones."""

    label: str
    runs: int
    mean: float
    worst: float
    same: float


def _labels(dataset: Path, folder: str) -> dict[str, dict[str, Any]]:
    files = sorted((dataset / folder).rglob("*.parquet"))
    if not files:
        raise InputError(f"'{dataset / folder}' has no labels; run `osml learn data label` first")
    columns = ["run", "outcome", *COMPARED]
    return {row["run"]: row for file in files for row in read_whole(file).select(columns).to_pylist()}


def compare(dataset: Path, folder: str, other: Path, other_folder: str = LABELS) -> list[Agreement]:
    """Labels in `dataset`/`folder` against those of the same runs in another place. InputError without common runs."""
    ours, theirs = _labels(dataset, folder), _labels(other, other_folder)
    common = sorted(set(ours) & set(theirs))
    if not common:
        raise InputError(f"'{other}' has no run of '{dataset}', expected collections of the same sweep and seed")
    found: list[Agreement] = []
    for name in COMPARED:
        pairs = [(ours[run][name], theirs[run][name]) for run in common]
        both: NDArray[np.float64] = np.array([pair for pair in pairs if None not in pair], np.float64).reshape(-1, 2)
        off = np.abs(both[:, 0] - both[:, 1])
        if len(off):
            found.append(Agreement(name, len(off), float(off.mean()), float(off.max()), float((off == 0).mean())))
    equal = [ours[run]["outcome"] == theirs[run]["outcome"] for run in common]
    found.append(
        Agreement("outcome", len(common), 1.0 - float(np.mean(equal)), float(not all(equal)), float(np.mean(equal)))
    )
    return found
