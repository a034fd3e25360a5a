"""Labels against their schema and against the traces that they were made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from osml.base.failure import InputError
from osml.datasets.checks.columns import check_ranges, check_schema
from osml.datasets.checks.finding import Finding, Place
from osml.datasets.description import FileDescription, described
from osml.datasets.label import label_row
from osml.datasets.schema import LABEL_COLUMNS, LABELS_SCHEMA
from osml.datasets.store import open_parquet, read_group
from osml.datasets.surfaces import Surface, core_unit, grid_of

_COMPARED = ("service", "platform", "outcome", "rcliff_cores", "rcliff_ways", "oaa_cores", "oaa_ways", "b_points")


def _rows(file: Path, place: Place, findings: list[Finding]) -> list[dict[str, Any]]:
    parquet = open_parquet(file)
    about = described(parquet.schema_arrow.metadata, place.file)
    if about.schema != LABELS_SCHEMA:
        findings.append(place.error(None, f"osml.schema is '{about.schema}', expected '{LABELS_SCHEMA}'"))
    findings.extend(check_schema(parquet.schema_arrow, LABEL_COLUMNS, place))
    rows: list[dict[str, Any]] = []
    for group in range(parquet.metadata.num_row_groups):
        table = read_group(parquet, file, group)
        findings.extend(check_ranges(table, LABEL_COLUMNS, Place(place.file, group)))
        rows += table.to_pylist()
    return rows


def _same(given: Any, wanted: Any) -> bool:
    if isinstance(given, float) and isinstance(wanted, float):
        return bool(np.isclose(given, wanted, rtol=1e-5))
    return bool(given == wanted)


def check_labels(
    file: Path, place: Place, surfaces: Sequence[Surface] | None, about: FileDescription
) -> Iterator[Finding]:
    """Schema, ranges, runs, and the labels derived once more; the first two without surfaces (wrong traces)."""
    findings: list[Finding] = []
    try:
        rows = _rows(file, place, findings)
    except InputError as error:
        yield place.error(None, str(error).removeprefix(f"{file}: "))
        return
    yield from findings
    if any(finding.severity == "error" for finding in findings):
        return
    if surfaces is None:
        yield place.note(None, "labels not compared with the traces, because the traces have errors")
        return
    by_run = {surface.run: surface for surface in surfaces}
    unit = core_unit(about.provenance.settings)
    for row in rows:
        surface = by_run.pop(row["run"], None)
        if surface is None:
            yield place.error("run", f"run {row['run']} is not in the traces")
            continue
        again = label_row(surface, grid_of(about.platform, unit), unit, row["labelling"], row["slowdowns"])
        off = [name for name in _COMPARED if not _same(row[name], again[name])]
        if off:
            given, wanted = row[off[0]], again[off[0]]
            yield place.error(
                off[0], f"run {row['run']}: {given}, but the traces give {wanted}: run `osml learn data label` again"
            )
    if by_run:
        yield place.warning("run", f"{len(by_run)} runs have no label, such as {next(iter(by_run))}")
