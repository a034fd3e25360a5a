"""The OAA of the runs of transitions, out of the labels of their data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.datasets.store import labels_file, read_whole, trace_files
from osml_training.dqn.transitions import Transitions


def label_files(datasets: Sequence[Path], platform: str, labels: str = "labels") -> list[Path]:
    """The labels of a platform in data sets. Raises InputError where a data set was not labelled."""
    found: list[Path] = []
    for folder in datasets:
        for traces in trace_files(folder, (platform,)):
            file = labels_file(folder, traces, labels)
            if not file.exists():
                raise InputError(f"{traces}: no labels in '{labels}/'; run `osml learn data label {folder}` first")
            found.append(file)
    return found


def optimal_areas(datasets: Sequence[Path], found: Transitions, labels: str = "labels") -> NDArray[np.float64]:
    """(rows, 2) cores and ways of the OAA of the run of each status, NaN where it has none.

    Raises InputError where a data set was not labelled.
    """
    known: dict[str, tuple[float, float]] = {}
    for file in label_files(datasets, found.runs[0].platform, labels):
        for row in read_whole(file).select(["run", "oaa_cores", "oaa_ways"]).to_pylist():
            if row["oaa_cores"] is not None and row["oaa_ways"] is not None:
                known[row["run"]] = (float(row["oaa_cores"]), float(row["oaa_ways"]))
    nothing = (float("nan"), float("nan"))
    return np.array([known.get(key.run, nothing) for key in found.runs])[found.run]
