"""The layout of a data set in a folder, and how its files are read.

DIR/dataset.json                                             name, licence, provenance, platforms
DIR/traces/platform=ID/service=NAME/part-NUMBER.parquet      rows; a run lies within one file
DIR/labels/platform=ID/service=NAME/part-NUMBER.parquet      labels of the runs in the traces file of the same name
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from osml.base.failure import InputError
from osml.datasets.arrow import pa, pc, pq
from osml.datasets.schema import TRACE_NAMES

MAX_GROUP_BYTES = 2**30
"""Size of a row group, as it says and as a table; those of `osml learn data` have about 1 MiB."""

MAX_GROUP_ROWS, MAX_GROUP_VALUES = 2**20, 2**26
"""Of a row group, and of one of its columns; lists have more values than rows. Runs of equal values need no bytes."""

TRACES, LABELS, DATASET = "traces", "labels", "dataset.json"

SWEEP = "sweep.jsonl"
"""Finished cells of a sweep of a live node: what the traces were made of. The package leaves it out."""

FAR = "far beyond the target"
"""There, in the `why` of a cell that ended at once, because the service was so slow."""

KEYS = frozenset(("platform", "service"))
OUTSIDE = "platform and service are unknown, expected traces/platform=ID/service=NAME/FILE.parquet"


def keys_of(file: Path) -> dict[str, str]:
    """What the folders of a file say of it: `platform` and `service`."""
    return dict(part.split("=", 1) for part in file.parent.parts if "=" in part)


def trace_files(
    dataset: Path, platforms: tuple[str, ...] | None = None, services: tuple[str, ...] | None = None
) -> list[Path]:
    """Trace files of a data set in order, of these platforms and services (None: all).

    Raises InputError where there are none, and on files outside of the folders that say whose they are.
    """
    if not dataset.is_dir():
        raise InputError(
            f"data set '{dataset}' is not a folder, expected one of `osml learn data collect` or `import-osml`"
        )
    root = dataset / TRACES
    found: list[Path] = []
    for file in sorted(root.rglob("*.parquet")):
        keys = keys_of(file.relative_to(root))
        if not KEYS.issubset(keys):
            raise InputError(f"{file}: {OUTSIDE}")
        if (platforms is None or keys["platform"] in platforms) and (services is None or keys["service"] in services):
            found.append(file)
    if not found:
        asked = [f"{what} {', '.join(names)}" for what, names in (("of", platforms), ("for", services)) if names]
        wanted = "".join(f" {part}" for part in asked)
        raise InputError(f"data set '{dataset}' has no traces{wanted}, expected traces/platform=*/service=*/*.parquet")
    return found


def labels_file(dataset: Path, traces: Path, labels: str = LABELS) -> Path:
    """Where the labels of a trace file are. InputError where that is the trace file itself: labels would replace it."""
    if labels == TRACES:
        raise InputError(f"the folder of labels is '{labels}', expected another one than that of the traces")
    return dataset / labels / traces.relative_to(dataset / TRACES)


def forget_labels(dataset: Path, traces: Path, new: Path | None = None) -> None:
    """Remove all labels of a trace file that goes, or that `new` is about to replace with other bytes."""
    if new is not None and (not traces.exists() or sha256(traces) == sha256(new)):
        return
    for folder in dataset.glob(f"{LABELS}*"):
        if folder.is_dir():
            labels_file(dataset, traces, folder.name).unlink(missing_ok=True)


def open_parquet(file: Path) -> Any:
    """A Parquet file; InputError where it is none or was cut off."""
    try:
        return pq.ParquetFile(file, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file}: not readable as Parquet, possibly truncated ({_short(error)})") from None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def read_groups(file: Path, columns: list[str] | None = None) -> Iterator[tuple[int, Any]]:
    """Row groups of a file as (number, table), one at a time. InputError with file and row group on broken ones."""
    parquet = open_parquet(file)
    check_columns(parquet, file, columns or TRACE_NAMES)
    for group in range(parquet.metadata.num_row_groups):
        yield group, read_group(parquet, file, group, columns)


def check_columns(parquet: Any, file: Path, columns: Sequence[str]) -> None:
    """InputError where a file lacks one of the columns."""
    there = set(parquet.schema_arrow.names)  # made anew whenever it is asked for
    missing = [name for name in columns if name not in there]
    if missing:
        raise InputError(f"{file}: column '{missing[0]}' is missing, expected the columns of data/cases.schema.json")


def read_group(parquet: Any, file: Path, group: int, columns: list[str] | None = None) -> Any:
    """One row group as a table. Too large a one is refused: memory stays bounded, whoever wrote it."""
    about = parquet.metadata.row_group(group)
    fields = [parquet.schema.column(k) for k in range(about.num_columns)]
    values = [about.column(k).num_values for k in range(about.num_columns)]
    fixed = sum(n * one.length for n, one in zip(values, fields, strict=True) if one.physical_type == _FIXED)
    for what, found, most in (
        ("GiB", max(about.total_byte_size, fixed) / 2**30, MAX_GROUP_BYTES / 2**30),
        ("rows", about.num_rows, MAX_GROUP_ROWS),
        ("values in a column", max(values, default=0), MAX_GROUP_VALUES),
    ):
        _check_size(file, group, found, most, what)
    # A text that all rows share is in the file once, but would be in a plain column as often as there are rows.
    texts = [one.path for one in fields if one.physical_type == "BYTE_ARRAY"]
    nested = next((path for path in texts if "." in path), None)
    if nested is not None:
        raise InputError(f"{file}: column '{nested[:80]}' has texts within lists or records, expected plain texts")
    try:
        with pq.ParquetFile(
            file, metadata=parquet.metadata, read_dictionary=texts, page_checksum_verification=True
        ) as short:
            table = short.read_row_group(group, columns=columns)
        size = sum(_plain_bytes(column) for column in table.columns)
        _check_size(file, group, size / 2**30, MAX_GROUP_BYTES / 2**30, "GiB unpacked")
        schema = parquet.schema_arrow
        return table.cast(pa.schema([schema.field(name) for name in table.column_names], schema.metadata))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file}: row group {group} can't be read ({_short(error)})") from None


_FIXED = "FIXED_LEN_BYTE_ARRAY"


def _check_size(file: Path, group: int, found: float, most: float, what: str) -> None:
    if found > most:
        raise InputError(
            f"{file}: row group {group} has {found:.7g} {what}, expected at most {most:.7g}: write smaller row groups"
        )


def _plain_bytes(column: Any) -> int:
    """Bytes of a column once its texts are plain."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary)
        total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return int(total)


def read_whole(file: Path) -> Any:
    """A small file (labels) as one table. InputError where a part of it can't be read."""
    parquet = open_parquet(file)
    groups = [read_group(parquet, file, group) for group in range(parquet.metadata.num_row_groups)]
    return pa.concat_tables(groups) if groups else parquet.schema_arrow.empty_table()


def sha256(file: Path) -> str:
    """Checksum of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def dataset_fingerprint(dataset: Path, labels: str | None = None) -> str:
    """One checksum over all trace files and their names: changes when a byte of them does.

    With the name of their folder also over the labels: whoever learns from those learns something else from others.
    """
    total = hashlib.sha256()
    for file in trace_files(dataset):
        beside = [] if labels is None else [labels_file(dataset, file, labels)]
        for one in (file, *(found for found in beside if found.exists())):
            total.update(f"{one.relative_to(dataset).as_posix()} {sha256(one)}\n".encode())
    return total.hexdigest()
