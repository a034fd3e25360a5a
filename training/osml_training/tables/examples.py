"""Labelled examples for A, A', B and B' out of a data set, streamed in batches with what is needed to hold some out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.datasets.description import Fingerprint, described
from osml.datasets.schema import PERCENTILES, TRACE_NAMES
from osml.datasets.store import check_columns, keys_of, labels_file, open_parquet, read_group, read_whole, trace_files
from osml.datasets.surfaces import grid_of
from osml_training.tables.example_rows import Floats32, RunLabels, descriptors, rows_of
from osml_training.tables.features import CONTEXT, INPUTS, OUTPUTS, Model
from osml_training.tables.plausible import check_plausible
from osml_training.tables.runs import NoExamplesError, RunKey, rates_of

_OPEN_FILES = 64
_PIECE = 16
"""Row groups of a file that follow each other in a random order: a file's labels take longer to read than they do."""

WINDOWS: dict[Model, int] = {"a": 0, "a2": 0, "b": 2, "b2": 4}
"""B and B' are asked in cells within so many cores and ways of the OAA."""


class Examples(NamedTuple):
    """A batch. Floats are float32, NaN where something was not measured or has no label.

    `x` (rows, INPUTS[model]), `context` (rows, CONTEXT), `y` (rows, OUTPUTS[model]). `platform` and `service` index
    `ExampleSource.platforms` and `.services`; `run` is the `run_number` of the surface that a row belongs
    to (hold out by it, never by rows); `load` is the share of max load, NaN where it is not known.
    """

    x: Floats32
    context: Floats32
    y: Floats32
    platform: NDArray[np.int32]
    service: NDArray[np.int32]
    run: NDArray[np.int64]
    load: Floats32


@dataclass
class _File:
    """An opened traces file with its labels."""

    parquet: Any
    path: Path
    labels: dict[str, RunLabels]
    platform: Fingerprint
    run_column: int

    def groups(self) -> list[int]:
        """Row groups that can hold rows of a run that is taken: by the statistics of their `run` column."""
        return [group for group in range(self.parquet.metadata.num_row_groups) if self._may_have(group)]

    def _may_have(self, group: int) -> bool:
        found = self.parquet.metadata.row_group(group).column(self.run_column).statistics
        if found is None or not found.has_min_max:
            return bool(self.labels)
        return any(found.min <= run <= found.max for run in self.labels)


def _opened(path: Path, labels: dict[str, RunLabels]) -> _File:
    parquet = open_parquet(path)
    check_columns(parquet, path, TRACE_NAMES)
    schema = parquet.schema_arrow  # made anew whenever it is asked for
    return _File(parquet, path, labels, described(schema.metadata, str(path)).platform, schema.get_field_index("run"))


class ExampleSource:
    """All examples of one model in a labelled data set. One row group and a shuffle buffer are in memory, no more.

    `platforms` and `services` limit what is read (None: all), `select` chooses runs. Model A takes runs alone on the
    node, the others those with neighbours, unless `neighbours` says which ("alone", "beside", "any").
    B and B' take the cells within `window` cores and ways of the OAA that meet their target. `labels` is the folder of
    the labels. Raises InputError where the data set or its labels are missing.
    """

    def __init__(
        self,
        dataset: Path,
        model: Model,
        *,
        platforms: tuple[str, ...] | None = None,
        services: tuple[str, ...] | None = None,
        select: Callable[[RunKey], bool] | None = None,
        neighbours: str | None = None,
        window: int | None = None,
        labels: str = "labels",
        seed: int = 0,
    ):
        if model not in INPUTS:
            raise InputError(f"model is '{model}', expected one of {', '.join(INPUTS)}")
        self.dataset, self.select, self.labels, self.seed = dataset, select, labels, seed
        self.model: Model = model
        self.neighbours = neighbours or ("alone" if model == "a" else "beside")
        self.window = WINDOWS[model] if window is None else window
        self.files = trace_files(dataset, platforms, services)
        keys = [keys_of(file) for file in self.files]
        self.platforms = tuple(sorted({key["platform"] for key in keys}))
        self.services = tuple(sorted({key["service"] for key in keys}))
        self._open: OrderedDict[int, _File | None] = OrderedDict()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of x."""
        return INPUTS[self.model]

    @property
    def context(self) -> tuple[str, ...]:
        """Columns of context."""
        return CONTEXT

    @property
    def outputs(self) -> tuple[str, ...]:
        """Columns of y."""
        return OUTPUTS[self.model]

    def runs(self) -> list[RunKey]:
        """All runs that are taken."""
        return [labels.key for file in self.files for labels in self._labels_of(file).values()]

    def batches(
        self, rows: int = 4096, *, shuffle: bool = True, buffer_rows: int = 262_144, epoch: int = 0
    ) -> Iterator[Examples]:
        """All examples once, in batches of `rows` (the last one smaller).

        Shuffled: pieces of a few row groups in random order through a buffer that is emptied in random order; another
        order in each `epoch`, the same for the same `seed`. Not shuffled: in the order of the files.
        """
        rng = np.random.default_rng([self.seed, epoch])
        held: list[Examples] = []
        count = 0
        order = rng if shuffle else None
        for found in self._groups(order):
            held.append(found)
            count += len(found.x)
            if count >= max(buffer_rows if shuffle else rows, rows):
                batches, left = _cut(held, rows, order)
                yield from batches
                held, count = [left], len(left.x)
        if count:
            batches, left = _cut(held, rows, order)
            yield from batches
            if len(left.x):
                yield left

    def table(self, limit: int | None = None, *, shuffle: bool = False) -> Examples:
        """All examples (or the first `limit`) in one piece. For what fits into memory."""
        parts: list[Examples] = []
        count = 0
        for batch in self.batches(65_536, shuffle=shuffle):
            parts.append(batch)
            count += len(batch.x)
            if limit is not None and count >= limit:
                break
        if not parts:
            raise NoExamplesError(
                f"data set '{self.dataset}' has no examples for model {self.model} in these files and runs"
            )
        return _take(_joined(parts), slice(0, limit))

    def _file(self, index: int) -> _File | None:
        """A file with its labels, None where none of its runs is taken; the last ones stay open."""
        if index in self._open:
            self._open.move_to_end(index)
            return self._open[index]
        path = self.files[index]
        labels = self._labels_of(path)
        found = _opened(path, labels) if labels else None
        self._open[index] = found
        if len(self._open) > _OPEN_FILES:
            self._open.popitem(last=False)
        return found

    def _labels_of(self, traces: Path) -> dict[str, RunLabels]:
        file = labels_file(self.dataset, traces, self.labels)
        if not file.exists():
            raise NoExamplesError(
                f"{traces}: no labels in '{self.labels}/'; run `osml learn data label {self.dataset}` first"
            )
        table = read_whole(file)
        platform = described(table.schema.metadata, str(file)).platform
        surfaces = table.column("latency_ms").combine_chunks()
        flat, ends = surfaces.values.to_numpy(), surfaces.offsets.to_numpy()
        labels: dict[str, RunLabels] = {}
        rates = rates_of(traces) if table.column("load").null_count else {}
        for number, row in enumerate(table.drop_columns(["latency_ms", "b_points"]).to_pylist()):
            key = RunKey(row["platform"], row["service"], row["run"], row["load"], row["threads"], row["neighbours"])
            if key.load is None:
                key = key._replace(rate=rates.get(key.run))
            wanted = self.neighbours == "any" or (self.neighbours == "alone") == (key.neighbours == 0)
            if wanted and row["rcliff_cores"] is not None and (self.select is None or self.select(key)):
                total = grid_of(platform, row["core_unit"])
                labels[key.run] = RunLabels(key, row, flat[ends[number] : ends[number + 1]], total)
        return labels

    def _plain_order(self) -> Iterator[tuple[int, int]]:
        """File and row group of all that can hold a row that is taken."""
        for i in range(len(self.files)):
            file = self._file(i)
            yield from ((i, group) for group in file.groups()) if file is not None else ()

    def _random_order(self, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
        """The same in pieces of a few groups of one file, so that it is not opened anew for each of them."""
        pieces: list[tuple[int, NDArray[np.int64]]] = []
        for i, found in groupby(self._plain_order(), key=itemgetter(0)):
            groups = rng.permutation([group for _, group in found])
            pieces += [(i, groups[at : at + _PIECE]) for at in range(0, len(groups), _PIECE)]
        for k in rng.permutation(len(pieces)):
            i, groups = pieces[int(k)]
            yield from ((i, int(group)) for group in groups)

    def _groups(self, rng: np.random.Generator | None) -> Iterator[Examples]:
        """Examples of one row group after the other."""
        for index, group in self._plain_order() if rng is None else self._random_order(rng):
            file = self._file(index)
            assert file is not None  # noqa: S101 - it has groups
            table = read_group(file.parquet, file.path, group, _COLUMNS)
            check_plausible(table, file.platform, f"{file.path}: row group {group}")
            seed = [self.seed, index, group]
            machine = descriptors(file.platform)
            found = rows_of(self.model, table, file.labels, machine, self.window, np.random.default_rng(seed))
            if found is None:
                continue
            x, context, y, run, load = found
            at = keys_of(file.path)
            yield Examples(
                x,
                context,
                y,
                np.full(len(x), self.platforms.index(at["platform"]), np.int32),
                np.full(len(x), self.services.index(at["service"]), np.int32),
                run,
                load,
            )


_COLUMNS = [
    "run", "cores", "ways", "cache_mib", "ipc", "llc_misses_per_s", "bandwidth_gbps", "cpu_usage_cores", "vms_mib",
    "rss_mib", "frequency_ghz", "llc_occupancy_mib", "requests_per_s", "threads", "target_ms", "percentile",
    "neighbours", "neighbour_cores", "neighbour_ways", "neighbour_cache_mib", "neighbour_bandwidth_gbps",
    *PERCENTILES.values(),
]  # fmt: skip


def _joined(parts: list[Examples]) -> Examples:
    if len(parts) == 1:
        return parts[0]
    return Examples(
        np.concatenate([part.x for part in parts]),
        np.concatenate([part.context for part in parts]),
        np.concatenate([part.y for part in parts]),
        np.concatenate([part.platform for part in parts]),
        np.concatenate([part.service for part in parts]),
        np.concatenate([part.run for part in parts]),
        np.concatenate([part.load for part in parts]),
    )


def _take(whole: Examples, which: slice | NDArray[np.int64]) -> Examples:
    return Examples(
        whole.x[which],
        whole.context[which],
        whole.y[which],
        whole.platform[which],
        whole.service[which],
        whole.run[which],
        whole.load[which],
    )


def _cut(held: list[Examples], rows: int, rng: np.random.Generator | None) -> tuple[list[Examples], Examples]:
    """Full batches out of what is held, in random order with `rng`, and what is left, less than a batch."""
    whole = _joined(held)
    if rng is not None:
        whole = _take(whole, rng.permutation(len(whole.x)))
    full = len(whole.x) // rows * rows
    batches = [_take(whole, slice(start, start + rows)) for start in range(0, full, rows)]
    return batches, _take(whole, slice(full, None))
