"""Latencies and request logs of the user's own: Parquet, CSV, or text with a number a line. Everything is checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from osml.base.extras import how_to_install
from osml.base.failure import InputError, MachineError
from osml.lab.theory.experiments.disciplines import RequestLog
from osml.lab.theory.inversions import FloatArray, IntArray
from osml.lab.theory.tlt import counted_within

MAX_BYTES = 2 * 1024**3
_EXACT = 2.0**53
"""Up to here each whole number is a float64."""

TIMES = ("arrival_ms", "start_ms", "finish_ms")


def _table(path: Path) -> Any:
    """The pyarrow table of a Parquet or CSV file."""
    try:
        import pyarrow  # noqa: PLC0415 - slow to import, and in the extra `bench`
        from pyarrow import csv, parquet  # noqa: PLC0415
    except ImportError:
        raise MachineError(f"Parquet and CSV files need pyarrow: {how_to_install('lab')}") from None
    wrong: type[Exception] = cast(Any, pyarrow).ArrowException
    try:
        read = cast(Any, parquet).read_table if path.suffix.lower() == ".parquet" else cast(Any, csv).read_csv
        table = read(path)
        _ = table.column_names  # decodes them
        return table
    except UnicodeDecodeError:
        raise InputError(f"{path} has names of columns that are not UTF-8, expected a table in UTF-8") from None
    except wrong as error:
        raise InputError(f"{path} can't be read as a table ({' '.join(str(error).split())[:200]})") from None
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror or error})") from None


def _check_size(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror})") from None
    if not path.is_file() or size > MAX_BYTES:
        raise InputError(f"{path} is not a file of at most {MAX_BYTES >> 30} GiB")


def _numbers(path: Path, table: Any, name: str) -> FloatArray:
    """A column as float64; InputError where it is missing, not of numbers, or has gaps."""
    if name not in table.column_names:
        listed = ", ".join(table.column_names[:20]) or "none"
        raise InputError(f"{path}: column '{name}' is missing, the columns are {listed}; choose one of them or add it")
    _check_once(path, table, name)
    wrong = InputError(f"{path}: column '{name}' is of type {table.column(name).type}, expected numbers")
    found = table.column(name).to_numpy(zero_copy_only=False)
    if found.dtype.kind not in "iufO":  # numpy takes truth values and dates as numbers
        raise wrong
    try:
        values = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError):
        raise wrong from None
    if np.isnan(values).any():
        at = int(np.argmax(np.isnan(values)))
        raise InputError(f"{path}: row {at + 1} has no '{name}', remove requests without a measurement")
    return values


def _check_once(path: Path, table: Any, name: str) -> None:
    if (times := table.column_names.count(name)) > 1:
        raise InputError(f"{path}: column '{name}' is there {times} times, expected once: rename or remove the others")


def _text_numbers(path: Path) -> FloatArray:
    """A number a line; empty lines and lines that begin with # are skipped."""
    found: list[float] = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                text = line.strip()
                if not text or text.startswith("#"):
                    continue
                try:
                    found.append(float(text))
                except ValueError:
                    raise InputError(f"{path}: line {number} is '{text[:40]}', expected one number") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read as text ({error})") from None
    return np.array(found)


def read_latencies(path: Path, column: str | None = None) -> tuple[FloatArray, float | None, float | None]:
    """(latencies in ms, responses/s, mean outstanding requests); the last two where the file has points of time.

    Tables: `column` (default latency_ms), or arrival_ms and finish_ms. From these all three are counted between the
    first and the last arrival: what comes after is no sample of a service at work. Anything else that is readable: a
    number a line.
    """
    _check_size(path)
    if path.suffix.lower() not in (".parquet", ".csv"):
        if column is not None:
            raise InputError(f"--column is '{column}', but {path} is not a .parquet or .csv file")
        return _text_numbers(path), None, None
    table = _table(path)
    timed = {"arrival_ms", "finish_ms"} <= set(table.column_names)
    if column is not None or not timed or "latency_ms" in table.column_names:
        return _numbers(path, table, column or "latency_ms"), None, None
    arrival, finish = (_numbers(path, table, name) for name in ("arrival_ms", "finish_ms"))
    if not arrival.size:
        raise InputError(f"{path} has no requests, expected at least two")
    try:
        return counted_within(arrival, finish, float(arrival.min()), float(arrival.max()))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def read_log(path: Path, order: Sequence[str], servers: int) -> RequestLog:
    """A log of requests: columns service, arrival_ms, start_ms, finish_ms, and service_ms where they are interrupted.

    The rank of a request is the place of its service in `order`, or without one the column `rank` (0 = most critical).
    """
    _check_size(path)
    table = _table(path)
    arrival, start, finish = (_numbers(path, table, name) for name in TIMES)
    service = _numbers(path, table, "service_ms") if "service_ms" in table.column_names else finish - start
    if "service" not in table.column_names:
        raise InputError(f"{path}: column 'service' is missing, expected the name of each request's service")
    _check_once(path, table, "service")
    labels = [str(name) for name in table.column("service").to_pylist()]
    names = tuple(dict.fromkeys(labels))
    stream = np.array([names.index(label) for label in labels], np.int64)
    return RequestLog(
        names, stream, _ranks(path, table, names, stream, order), arrival, start, finish, service, servers
    )


def _ranks(path: Path, table: Any, names: Sequence[str], stream: IntArray, order: Sequence[str]) -> IntArray:
    if order:
        if set(order) != set(names):
            raise InputError(f"--order is {', '.join(order)}, expected each service of {path} once: {', '.join(names)}")
        return np.array([list(order).index(name) for name in names], np.int64)[stream]
    if "rank" not in table.column_names:
        raise InputError(f"{path} has no column 'rank': use --order to list the most critical service first")
    rank = _numbers(path, table, "rank")
    wrong = ~((np.abs(rank) <= _EXACT) & (rank == np.floor(rank)))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"{path}: row {at + 1} has rank {rank[at]:g}, expected whole numbers, 0 the most critical")
    return rank.astype(np.int64)
