"""Reads files of measurements: CSV with named columns, every value checked, unknown columns ignored."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from osml.base.failure import InputError

Row = dict[str, Any]
"""One line of a file: text, or float, or None where a column that may be empty is."""

MOST_BYTES = 32 * 2**20
"""A larger file is refused: its rows would fill the memory of a small machine."""

_LEAST, _MOST = 1e-9, 1e12  # of what is above 0, of all numbers: no quantity of these files is outside
_MOST_WHOLE = 4096  # CPUs, threads
_LATER = ("scheduler", "siblings", "tick_ms", "split", "flag")


class Columns(NamedTuple):
    """Columns of one file. All but `optional` must be there, and all numbers but those must be filled.

    `whole` are positive integers. Every file may also say what its machines are (`scheduler`, `siblings`, `tick_ms`),
    which rows nobody has looked at (`split`) and which are doubtful (`flag`).
    """

    positive: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def read_table(path: Path, columns: Columns) -> list[Row]:
    """All rows of a file. Raises InputError with one sentence for a missing column or the first wrong value."""
    text = read_text(path)
    try:
        lines = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        names = list(lines.fieldnames or [])
        for name in (*columns.positive, *columns.whole, *columns.numbers, *columns.texts):
            if name not in names:
                raise InputError(
                    f"{path}: column '{name}' is missing, expected the columns of docs/reference/measured.md"
                )
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"{path}: two columns are called '{name}', expected unique names")
        return [_row(path, lines.line_num, line, columns, len(names)) for line in lines]
    except csv.Error as error:
        raise InputError(f"{path}: not a CSV file ({error})") from None


def read_text(path: Path) -> str:
    """The text of a file of measurements; InputError where it is too large, not UTF-8 or no file."""
    try:
        if not path.is_file():
            raise InputError(f"{path}: not a file, expected a file of measurements")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InputError(f"{path}: {size} bytes, expected at most {MOST_BYTES}; split the file")
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8, expected text in UTF-8") from None


def _row(path: Path, line: int, given: dict[str, Any], columns: Columns, n_columns: int) -> Row:
    if len(given) > n_columns:
        raise InputError(f"{path}: line {line} has more cells than the header")
    row: Row = {name: (given[name] or "").strip() for name in columns.texts}
    for name in columns.positive:
        row[name] = _number(path, line, name, given[name])
        if row[name] < _LEAST:
            raise InputError(f"{path}: line {line}: '{name}' is {given[name]!r}, expected a number above 0")
    for name in columns.whole:
        row[name] = _number(path, line, name, given[name])
        if row[name] not in range(1, _MOST_WHOLE + 1):
            raise InputError(f"{path}: line {line}: '{name}' is {given[name]!r}, expected 1 to {_MOST_WHOLE}")
    for name in columns.numbers:
        row[name] = _number(path, line, name, given[name])
    for name in columns.optional:
        row[name] = _number(path, line, name, given[name]) if given.get(name) else None
        if (row[name] or 0.0) < 0.0:
            raise InputError(f"{path}: line {line}: '{name}' is {given[name]!r}, expected nothing or at least 0")
    for name in _LATER:
        row[name] = (given.get(name) or "").strip()
    return row


def _number(path: Path, line: int, name: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not abs(value) <= _MOST:
        raise InputError(f"{path}: line {line}: '{name}' is {text!r}, expected a number")
    return value


def completed(rows: Sequence[Row], known: Sequence[Row], group: Sequence[str], cell: Sequence[str]) -> list[Row]:
    """The rows and all known rows of the same groups that are no cell of theirs, which are only `context`.

    What a test reads from other rows of a group may then come from the shipped facts, but never the cell itself.
    """

    def key(row: Row, names: Sequence[str]) -> tuple[object, ...]:
        return tuple(row[name] for name in names)

    groups = {key(row, group) for row in rows}
    cells = {key(row, (*group, *cell)) for row in rows}
    more = [row for row in known if key(row, group) in groups and key(row, (*group, *cell)) not in cells]
    return [*rows, *(row | {"context": True} for row in more)]


def is_context(row: Row) -> bool:
    """Whether a row is only there to be read, not to be compared."""
    return bool(row.get("context"))
