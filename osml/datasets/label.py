"""Labels of all runs of a traces file: RCliff, OAA, its bandwidth and B-points, by `osml.frontier`, no person asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from osml.base.failure import InputError
from osml.base.whole_file import whole_file
from osml.datasets.arrow import pa, pq
from osml.datasets.description import Fingerprint, described, metadata
from osml.datasets.schema import LABEL_COLUMNS, LABELS_SCHEMA, arrow_schema, write_options
from osml.datasets.store import labels_file, open_parquet
from osml.datasets.surfaces import Floats, Ints, Surface, core_unit, grid_of, surfaces_of
from osml.frontier import DIRECTIONS, KINDS, SLOWDOWNS, b_points, label, reference

Labelling = Literal["frontier", "reference"]

FEWEST_CELLS = 4


class _Labels(NamedTuple):
    """RCliff and OAA as (cores, ways) with 0 for none, the kind of the cliff (index of KINDS), and the B-points."""

    rcliff: Ints
    oaa: Ints
    kind: int
    points: Ints


def _reference(surface: Floats, target_ms: float, slowdowns: Sequence[float], total: tuple[int, int]) -> _Labels:
    """The published rule on what was measured of a grid; OAA beyond the grid has no B-points."""
    known = np.where(np.isnan(surface), np.inf, surface)
    rcliff, oaa = reference(known, target_ms)
    if not (known < target_ms).any():
        rcliff, oaa = np.zeros(2, np.int64), np.zeros(2, np.int64)
    inside = bool((oaa <= np.array(surface.shape)).all())
    points = b_points(surface, oaa if inside else np.zeros(2, np.int64), slowdowns, total)
    return _Labels(rcliff, oaa, 0, points)


def _outcome(surface: Floats, target_ms: float | None, has_load: bool, oaa: Ints) -> str:
    known = ~np.isnan(surface)
    if target_ms is None or not (np.isfinite(target_ms) and target_ms > 0):
        return "no_target"
    if not has_load:
        return "no_load"  # cells of different loads are no surface
    if known.sum() < FEWEST_CELLS:
        return "too_few_cells"
    if not (surface[known] <= target_ms).any():
        return "never_met"
    if oaa[0] == 0:
        return "no_oaa"
    return "always_met" if bool((surface[known] <= target_ms).all()) else "labelled"


def label_row(
    found: Surface, total: tuple[int, int], unit: float, labelling: Labelling, slowdowns: Sequence[float] = SLOWDOWNS
) -> dict[str, Any]:
    """The row of one run. `total` are the core units and ways of the platform, whose shares are the cost of a cell."""
    measured = found.seen > 0
    corner: Ints = np.argwhere(measured).max(axis=0) + 1
    rows, columns = int(corner[0]), int(corner[1])
    surface = found.latency_ms[:rows, :columns]
    target = found.facts["target_ms"]
    rcliff, oaa, kind = np.zeros(2, np.int64), np.zeros(2, np.int64), 0
    points = np.zeros((len(slowdowns), len(DIRECTIONS), 2), np.int64)
    has_load = bool(found.expected.sum() > 0)
    if _outcome(surface, target, has_load, oaa) not in ("no_target", "no_load", "too_few_cells"):
        if labelling == "reference":
            rcliff, oaa, kind, points = _reference(surface, target, slowdowns, total)
        else:
            labels = label(surface, target, slowdowns, total)
            rcliff, oaa, kind, points = labels.rcliff, labels.oaa, int(labels.kind), labels.b_points
    outcome = _outcome(surface, target, has_load, oaa)
    has_rcliff, has_oaa = bool(rcliff[0] > 0), bool(oaa[0] > 0)
    inside = has_oaa and oaa[0] <= rows and oaa[1] <= columns
    bandwidth = found.bandwidth_gbps[oaa[0] - 1, oaa[1] - 1] if inside else np.nan
    return found.facts | {
        "run": found.run,
        "labelling": labelling,
        "outcome": outcome,
        "rcliff_cores": float(rcliff[0] * unit) if has_rcliff else None,
        "rcliff_ways": int(rcliff[1]) if has_rcliff and found.has_ways else None,
        "oaa_cores": float(oaa[0] * unit) if has_oaa else None,
        "oaa_ways": int(oaa[1]) if has_oaa and found.has_ways else None,
        "oaa_bandwidth_gbps": None if np.isnan(bandwidth) else float(bandwidth),
        "cliff_kind": KINDS[kind] if has_rcliff and labelling == "frontier" else None,
        "slowdowns": list(slowdowns),
        "b_points": points.reshape(-1).tolist(),
        "core_unit": unit,
        "grid_cores": rows,
        "grid_ways": columns,
        "cells": int(measured.sum()),
        "samples": int(found.answered.sum()),
        "spread": found.spread,
        "latency_ms": surface.astype(np.float32).reshape(-1),
    }


def label_table(
    surfaces: Iterable[Surface],
    platform: Fingerprint,
    unit: float,
    labelling: Labelling,
    slowdowns: Sequence[float],
    keys: dict[str, str],
) -> Any:
    """Labels of many runs as a table of LABEL_COLUMNS with the metadata `keys`."""
    total = grid_of(platform, unit)
    rows = [label_row(surface, total, unit, labelling, slowdowns) for surface in surfaces]
    return pa.Table.from_pylist(rows, schema=arrow_schema(LABEL_COLUMNS, keys))


def checked_slowdowns(slowdowns: Sequence[float]) -> tuple[float, ...]:
    """Slowdowns in rising order; InputError for impossible ones."""
    if not slowdowns or not all(np.isfinite(s) and 0 < s <= 10 for s in slowdowns):
        raise InputError(f"slowdowns are {list(slowdowns)}, expected shares above 0, such as 0.05")
    return tuple(sorted(set(slowdowns)))


def label_file(
    dataset: Path,
    traces: Path,
    labelling: Labelling = "frontier",
    slowdowns: Sequence[float] = SLOWDOWNS,
    labels: str = "labels",
) -> dict[str, int]:
    """Label the runs of one traces file; returns how many runs had which outcome. Streams: row group by row group."""
    about = described(open_parquet(traces).schema_arrow.metadata, str(traces))
    unit = core_unit(about.provenance.settings)
    keys = metadata(LABELS_SCHEMA, about.provenance, about.platform, about.licence)
    table = label_table(surfaces_of(traces), about.platform, unit, labelling, slowdowns, keys)
    with whole_file(labels_file(dataset, traces, labels)) as partial:
        pq.write_table(table, partial, **write_options(LABEL_COLUMNS))
    outcomes: list[str] = table.column("outcome").to_pylist()
    return {outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))}
