"""Measured surfaces of a data set by run: where a predicted allocation would have ended up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.datasets.description import Fingerprint, described
from osml.datasets.store import labels_file, open_parquet, trace_files
from osml.datasets.surfaces import grid_of
from osml_training.collect.variants import is_variant
from osml_training.tables.example_rows import RunLabels
from osml_training.tables.runs import RunKey

Floats32 = NDArray[np.float32]


class Grid(NamedTuple):
    """Latency in ms by (core units, ways), index 0 is one of each; NaN where not measured."""

    latency_ms: NDArray[np.float64]
    target_ms: float
    core_unit: float
    way_mib: float


def read_labels(
    dataset: Path, platforms: tuple[str, ...] | None = None, labels: str = "labels"
) -> Iterator[tuple[RunLabels, Fingerprint]]:
    """All labelled runs with their machine, but those of variants: nobody is tested on them."""
    for traces in trace_files(dataset, platforms):
        if is_variant(traces.parent.name):
            continue
        file = labels_file(dataset, traces, labels)
        if not file.exists():
            raise InputError(f"{traces}: no labels in '{labels}/'; run `osml learn data label {dataset}` first")
        parquet = open_parquet(file)
        machine = described(parquet.schema_arrow.metadata, str(file)).platform
        for row in parquet.read().to_pylist():
            key = RunKey(row["platform"], row["service"], row["run"], row["load"], row["threads"], row["neighbours"])
            total = grid_of(machine, row["core_unit"])
            yield RunLabels(key, row, np.array(row["latency_ms"], np.float32), total), machine


def read_grids(dataset: Path, platforms: tuple[str, ...] | None = None, labels: str = "labels") -> dict[int, Grid]:
    """Their surfaces by the number that `Examples.run` has."""
    return {
        found.number: Grid(found.latency_ms, found.target_ms, found.unit, machine.way_mib or float("nan"))
        for found, machine in read_labels(dataset, platforms, labels)
    }


def missed(grids: dict[int, Grid], run: NDArray[np.int64], cores: Floats32, ways: Floats32) -> NDArray[np.bool_]:
    """Whether the allocation, rounded and kept within the run's grid, misses the target there. Unmeasured: missed.

    Where a machine divides no cache, `ways` are NaN and the grid has one column.
    """
    out = np.zeros(len(run), np.bool_)
    for number in np.unique(run):
        grid = grids[int(number)]
        at = np.nonzero(run == number)[0]
        rows = np.clip(np.rint(np.nan_to_num(cores[at] / grid.core_unit)), 1, grid.latency_ms.shape[0])
        columns = np.clip(np.rint(np.nan_to_num(ways[at], nan=1.0)), 1, grid.latency_ms.shape[1])
        latency = grid.latency_ms[rows.astype(np.int64) - 1, columns.astype(np.int64) - 1]
        out[at] = ~(latency <= grid.target_ms) | np.isnan(cores[at])
    return out
