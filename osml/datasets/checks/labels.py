"""Labels against their schema and against the traces that they were made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from osml.base.failure import InputError
from osml.datasets.checks.columns import check_ranges, check_schema, has_columns
from osml.datasets.checks.finding import Finding, Place
from osml.datasets.checks.personal import check_document, check_metadata
from osml.datasets.description import FileDescription, described
from osml.datasets.label import Labelling, checked_slowdowns, label_row
from osml.datasets.schema import LABEL_COLUMNS, LABELS_SCHEMA
from osml.datasets.store import open_parquet, read_group
from osml.datasets.surfaces import Surface, core_unit, grid_of

_COMPARED = tuple(column.name for column in LABEL_COLUMNS)
_MOST_SLOWDOWNS = 100


def _rows(file: Path, place: Place, findings: list[Finding], ordinary: frozenset[str]) -> list[dict[str, Any]]:
    parquet = open_parquet(file)
    about = described(parquet.schema_arrow.metadata, place.file)
    if about.schema != LABELS_SCHEMA:
        findings.append(place.error(None, f"osml.schema is '{about.schema}', expected '{LABELS_SCHEMA}'"))
    findings.extend(check_document(about, place, ordinary))
    findings.extend(check_metadata(parquet.schema_arrow, place, ordinary))
    findings.extend(check_schema(parquet.schema_arrow, LABEL_COLUMNS, place))
    rows: list[dict[str, Any]] = []
    if not has_columns(parquet.schema_arrow, LABEL_COLUMNS):
        return rows
    for group in range(parquet.metadata.num_row_groups):
        table = read_group(parquet, file, group)
        findings.extend(check_ranges(table, LABEL_COLUMNS, Place(place.file, group)))
        rows += table.to_pylist()
    return rows


def _same(given: Any, wanted: Any) -> bool:
    if isinstance(given, list):
        numbers, expected = np.array(given, np.float64), np.array(wanted, np.float64)
        return numbers.shape == expected.shape and np.allclose(numbers, expected, rtol=1e-5, equal_nan=True)
    if isinstance(given, float) and isinstance(wanted, float):
        # Files have single precision. The spread is a small difference of large numbers, so its last digits are noise.
        return bool(np.isclose(given, wanted, rtol=1e-5, atol=1e-6))
    return bool(given == wanted)


def _against(given: Any, wanted: Any) -> str:
    """Both values in a sentence; of lists the first pair that differs."""
    if not isinstance(given, list):
        return f"{_short(given)}, but the traces give {_short(wanted)}"
    found, expected = cast(list[Any], given), list[Any](wanted)
    if len(found) != len(expected):
        return f"{len(found)} numbers, but the traces give {len(expected)}"
    at = next(k for k in range(len(found)) if not _same([found[k]], [expected[k]]))
    return f"number {at} is {_short(found[at])}, but the traces give {_short(expected[at])}"


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)[:80]


def _rule(row: dict[str, Any], place: Place) -> Finding | None:
    """What keeps a row from being derived once more: an unknown rule, or slowdowns that are none."""
    if row["labelling"] not in get_args(Labelling):
        expected = ", ".join(get_args(Labelling))
        return place.error(
            "labelling", f"run {row['run']}: labelling is '{_short(row['labelling'])}', expected one of {expected}"
        )
    if len(row["slowdowns"]) > _MOST_SLOWDOWNS:
        return place.error(
            "slowdowns", f"run {row['run']}: {len(row['slowdowns'])} slowdowns, expected at most {_MOST_SLOWDOWNS}"
        )
    try:
        checked_slowdowns([np.nan if share is None else share for share in row["slowdowns"]])
    except InputError as error:
        return place.error("slowdowns", f"run {row['run']}: {error}")
    return None


def check_labels(
    file: Path, place: Place, surfaces: Sequence[Surface] | None, about: FileDescription, ordinary: frozenset[str]
) -> Iterator[Finding]:
    """Schema, ranges, personal data, runs, and the labels derived once more; all but the last two without surfaces.

    There are no surfaces of wrong traces. `ordinary`: words that are not the name of this machine.
    """
    findings: list[Finding] = []
    try:
        rows = _rows(file, place, findings, ordinary)
        unit = core_unit(about.provenance.settings)
        total = grid_of(about.platform, unit)
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
    for row in rows:
        surface = by_run.pop(row["run"], None)
        if surface is None:
            yield place.error("run", f"run {row['run']} is not in the traces, or has a label already")
            continue
        fault = _rule(row, place)
        if fault is not None:
            yield fault
            continue
        again = label_row(surface, total, unit, row["labelling"], row["slowdowns"])
        off = [name for name in _COMPARED if not _same(row[name], again[name])]
        if off:
            what = _against(row[off[0]], again[off[0]])
            yield place.error(off[0], f"run {row['run']}: {what}: run `osml learn data label` again")
    if by_run:
        yield place.warning("run", f"{len(by_run)} runs have no label, such as {next(iter(by_run))}")
