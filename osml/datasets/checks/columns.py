"""Schema of a file, and plausible ranges of each of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osml.datasets.arrow import numbers
from osml.datasets.checks.finding import Finding, Place
from osml.datasets.schema import LABEL_COLUMNS, TRACE_COLUMNS, Column, arrow_schema

Floats = NDArray[np.float64]

_WRAPS = (44, 48, 64)
_FACTORS: dict[str | None, dict[str, float]] = {
    "MiB": {"KiB": 1024.0, "bytes": 2.0**20},
    "GHz": {"MHz": 1e3, "Hz": 1e9},
    "GB/s": {"MB/s": 1e3, "bytes/s": 1e9},
    "ms": {"µs": 1e3, "ns": 1e6},
    "logical CPUs": {"percent": 100.0},
    "s": {"ms": 1e3, "ns": 1e9},
}
"""Units in which people have such a number, as multiples of ours."""

_UNITS = {column.name: column.unit for column in (*TRACE_COLUMNS, *LABEL_COLUMNS)}


def check_schema(schema: Any, wanted: tuple[Column, ...], place: Place) -> Iterator[Finding]:
    """Names, types and units of all columns."""
    expected, found = arrow_schema(wanted), set(schema.names)
    for name in sorted(found - set(expected.names)):
        yield place.error(name, "unknown column, expected only columns of data/*.schema.json")
    for field in expected:
        if field.name not in found:
            yield place.error(field.name, f"column is missing, expected {field.type}")
            continue
        own = schema.field(field.name)
        if own.type != field.type:
            yield place.error(field.name, f"type is {own.type}, expected {field.type}")
        unit, given = _unit(field), _unit(own)
        if given is not None and given != unit:
            yield place.error(field.name, f"unit is '{given}', expected {'none' if unit is None else repr(unit)}")


def has_columns(schema: Any, wanted: tuple[Column, ...]) -> bool:
    """Whether all columns are there with their types: else nothing can be said of their values."""
    names = set(schema.names)
    return all(field.name in names and schema.field(field.name).type == field.type for field in arrow_schema(wanted))


def _unit(field: Any) -> str | None:
    metadata: dict[bytes, bytes] = field.metadata or {}
    unit = metadata.get(b"unit")
    return None if unit is None else unit.decode("utf-8", "replace")


def unit_hint(column: str, value: float, low: float, high: float) -> str:
    """What the number may be instead: a counter that wrapped, or other units in which it would be in range."""
    for bits in _WRAPS:
        if abs(value / 2.0**bits - 1) < 1e-3:
            return f"; close to 2^{bits}: counter overflow?"
    others = _FACTORS.get(_UNITS.get(column), {})
    fitting = [unit for unit, factor in others.items() if low <= value / factor <= high]
    return f"; is the unit {' or '.join(fitting)}?" if fitting else ""


def check_ranges(table: Any, columns: tuple[Column, ...], place: Place) -> Iterator[Finding]:
    """Nulls where none may be, NaN and infinite numbers, and what no machine does."""
    for column in columns:
        if column.name not in table.column_names:
            continue
        chunk = table.column(column.name)
        if not column.nullable and chunk.null_count:
            yield place.error(column.name, f"{chunk.null_count} rows are null, expected a value")
        if column.type.startswith("list<") or column.type == "string" or chunk.null_count == len(chunk):
            continue
        plain = numbers(table.select([column.name]), column.name)
        known = plain[chunk.is_valid().to_numpy(zero_copy_only=False)]
        odd = known[~np.isfinite(known)]
        if len(odd):
            yield place.error(column.name, f"{len(odd)} rows are {odd[0]}, expected a number, or null if not measured")
        known = known[np.isfinite(known)]
        low, high = column.low or 0.0, np.inf if column.high is None else column.high
        beyond = known[(known < low) | (known > high)]
        if len(beyond):
            worst = float(beyond[np.abs(beyond).argmax()])
            yield place.error(
                column.name,
                f"{len(beyond)} rows are outside {low:g} to {high:g} {column.unit or ''}".rstrip()
                + f", such as {worst:g}{unit_hint(column.name, worst, low, high)}",
            )
