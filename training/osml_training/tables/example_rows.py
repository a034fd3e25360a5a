"""One row group of traces and the labels of its runs as arrays for a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.datasets.description import Fingerprint
from osml.datasets.schema import PERCENTILES
from osml.frontier import b_points
from osml_training.tables.features import CONTEXT, INPUTS, OUTPUTS, PLATFORM, Model
from osml_training.tables.runs import RunKey, run_number

Floats32 = NDArray[np.float32]
Ints = NDArray[np.int64]

DEPRIVED = 4
"""B': at most so many cores and ways are taken away (the window of the published data set)."""


def _value(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def descriptors(platform: Fingerprint) -> Floats32:
    """A machine as the numbers of PLATFORM; NaN where its description doesn't say."""
    smt = None if platform.smt is None else float(platform.smt)
    values = (
        platform.logical_cpus,
        platform.llc_ways,
        platform.way_mib,
        platform.bandwidth_gbps,
        platform.base_ghz,
        platform.turbo_ghz,
        smt,
    )
    return np.array([_value(v) for v in values], np.float32)


_SIZES = tuple(name for name in OUTPUTS["a"] if name.endswith(("_cores", "_ways")))


class RunLabels:
    """The labels of one run, ready for its rows. `total` are the core units and ways of its platform."""

    def __init__(self, key: RunKey, row: dict[str, Any], latency_ms: NDArray[np.float32], total: tuple[int, int]):
        for name in _SIZES:
            if row[name] is not None and not (math.isfinite(row[name]) and row[name] > 0):
                raise InputError(
                    f"labels of run {key.run}: '{name}' is {row[name]:g}, expected a number above 0 or null; run "
                    "`osml learn data label` again"
                )
        self.key, self.total = key, total
        self.cliff = np.array([_value(row[name]) for name in OUTPUTS["a"]], np.float32)
        self.unit = float(row["core_unit"])
        self.target_ms = _value(row["target_ms"])
        shape = (int(row["grid_cores"]), int(row["grid_ways"]))
        if len(latency_ms) != shape[0] * shape[1]:
            raise InputError(
                f"labels of run {key.run}: {len(latency_ms)} latencies, expected {shape[0]} x {shape[1]}; run "
                "`osml learn data label` again"
            )
        self.latency_ms = latency_ms.astype(np.float64).reshape(shape)
        self.slowdowns = tuple(float(s) for s in row["slowdowns"])
        oaa_cores, oaa_ways = row["oaa_cores"], row["oaa_ways"]
        self.oaa = None if oaa_cores is None else (round(oaa_cores / self.unit), oaa_ways or 1)
        self.number = run_number(key.run)

    def b_points(self, starts: Ints, slowdowns: Sequence[float]) -> Ints:
        """What can be taken from each of these cells (starts, 2), as the labels say it of the OAA.

        Core units and ways, (starts, slowdowns, directions, 2).
        """
        surface = np.broadcast_to(self.latency_ms, (len(starts), *self.latency_ms.shape))
        return b_points(surface, starts, slowdowns, self.total)

    def start_cells(self, window: int) -> NDArray[np.bool_]:
        """Cells within `window` of the OAA that meet the target: where B and B' are asked. (cores, ways)."""
        shape = self.latency_ms.shape
        if self.oaa is None:
            return np.zeros(shape, np.bool_)
        cores, ways = np.ogrid[1 : shape[0] + 1, 1 : shape[1] + 1]
        near = (abs(cores - self.oaa[0]) <= window) & (abs(ways - self.oaa[1]) <= window)
        return near & (self.latency_ms <= self.target_ms)


class TraceColumns:
    """Columns of a table as float32 arrays; null is NaN."""

    def __init__(self, table: Any):
        self._table = table

    def __call__(self, name: str) -> Floats32:
        """One column."""
        values: Floats32 = self._table.column(name).to_numpy(zero_copy_only=False).astype(np.float32)
        return values

    def latency(self) -> Floats32:
        """At the percentile of the target, row by row; p99 where none is named."""
        kinds = self._table.column("percentile").combine_chunks().dictionary_encode()
        codes = kinds.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        out = self("p99_ms").copy()
        for code, kind in enumerate(kinds.dictionary.to_pylist()):
            if kind in PERCENTILES and kind != "p99":
                out[codes == code] = self(PERCENTILES[kind])[codes == code]
        return out


def _context(columns: TraceColumns, machine: Floats32) -> Floats32:
    latency, target = columns.latency(), columns("target_ms")
    special = {"latency_ms": latency, "latency_over_target": latency / target}
    special |= dict(zip(PLATFORM, machine, strict=True))
    out = np.empty((len(latency), len(CONTEXT)), np.float32)
    for k, name in enumerate(CONTEXT):
        out[:, k] = special[name] if name in special else columns(name)
    return out


class ExampleRows(NamedTuple):
    """Rows for a model: inputs (rows, inputs), context (rows, context), outputs (rows, outputs), run number, load."""

    x: Floats32
    context: Floats32
    y: Floats32
    run: Ints
    load: Floats32


def rows_of(
    model: Model, table: Any, labels: dict[str, RunLabels], machine: Floats32, window: int, rng: np.random.Generator
) -> ExampleRows | None:
    """The examples of a row group; None where it has none."""
    runs = table.column("run").combine_chunks().dictionary_encode()
    codes: Ints = runs.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    chosen = [labels.get(run) for run in runs.dictionary.to_pylist()]
    if not any(chosen):
        return None
    columns = TraceColumns(table)
    names = [name for name in INPUTS[model] if name not in ("slowdown", "expected_cores", "expected_cache_mib")]
    x = np.stack([columns(name) for name in names], axis=1)  # (rows, inputs)
    context = _context(columns, machine)
    cores, ways = columns("cores"), np.nan_to_num(columns("ways"), nan=1.0).astype(np.int64)
    parts: list[ExampleRows] = []
    for code, found in enumerate(chosen):
        if found is None:
            continue
        at = np.nonzero(codes == code)[0]
        cell = np.stack([np.rint(cores[at] / found.unit).astype(np.int64), ways[at]], axis=1)
        if model in ("a", "a2"):
            rows, more, y = at, None, np.tile(found.cliff, (len(at), 1))
        elif model == "b":
            rows, more, y = _deprivations(found, at, cell, window)
        else:
            rows, more, y = _slowdowns(found, at, cell, window, _way_mib(context, at), rng)
        inputs = x[rows] if more is None else np.concatenate([x[rows], more], axis=1)
        run, load = np.full(len(rows), found.number), np.full(len(rows), _value(found.key.load), np.float32)
        parts.append(ExampleRows(inputs, context[rows], y, run, load))
    if not sum(len(part.x) for part in parts):
        return None
    return ExampleRows(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _way_mib(context: Floats32, at: Ints) -> float:
    return float(context[at[0], CONTEXT.index("way_mib")]) if len(at) else float("nan")


def _inside(found: RunLabels, cell: Ints, window: int) -> NDArray[np.bool_]:
    """Rows in cells where B and B' are asked."""
    allowed = found.start_cells(window)
    fits = (cell >= 1).all(1) & (cell <= np.array(allowed.shape)).all(1)
    out = np.zeros(len(cell), np.bool_)
    out[fits] = allowed[cell[fits, 0] - 1, cell[fits, 1] - 1]
    return out


def _deprivations(found: RunLabels, at: Ints, cell: Ints, window: int) -> tuple[Ints, Floats32, Floats32]:
    """B: every row once for each slowdown; the label is what can be taken from the cell where the service is.

    At the OAA that is the paper's B-point; beside it the same question is asked of where the service is.
    """
    inside = _inside(found, cell, window)
    at, cell = at[inside], cell[inside]
    if not len(at):
        return at, np.empty((0, 1), np.float32), np.empty((0, len(OUTPUTS["b"])), np.float32)
    starts, which = np.unique(cell, axis=0, return_inverse=True)
    points = found.b_points(starts, found.slowdowns)
    count = len(found.slowdowns)
    y = points.reshape(len(starts), count, -1).astype(np.float32)
    y[:, :, 0::2] *= found.unit  # core units to CPUs
    y = y[which.reshape(-1)].reshape(-1, y.shape[2])  # (rows x slowdowns, outputs)
    slowdown = np.tile(np.array(found.slowdowns, np.float32), len(at))[:, None]
    return np.repeat(at, count), slowdown, y


def _slowdowns(
    found: RunLabels, at: Ints, cell: Ints, window: int, way_mib: float, rng: np.random.Generator
) -> tuple[Ints, Floats32, Floats32]:
    """B': every row with one deprivation drawn at random; the label is by how much its latency suffers."""
    inside = _inside(found, cell, window)
    at, cell = at[inside], cell[inside]
    taken = rng.integers(0, DEPRIVED + 1, cell.shape)
    left = np.maximum(cell - taken, 1)
    moved = (left != cell).any(1)
    at, cell, left = at[moved], cell[moved], left[moved]
    before = found.latency_ms[cell[:, 0] - 1, cell[:, 1] - 1]
    after = found.latency_ms[left[:, 0] - 1, left[:, 1] - 1]
    known = ~np.isnan(after)
    at, left, before, after = at[known], left[known], before[known], after[known]
    with np.errstate(divide="ignore"):
        y = 100.0 * (1.0 - before / after)
    more = np.stack([left[:, 0] * found.unit, left[:, 1] * way_mib], axis=1).astype(np.float32)
    return at, more, y.astype(np.float32)[:, None]
