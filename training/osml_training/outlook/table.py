"""Rows of Model-C' in one Parquet file: inputs, prior, level, and the node that each row is of."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from osml.base.failure import InputError
from osml.base.whole_file import whole_file
from osml.datasets.store import open_parquet
from osml.predictors.outlook import OUTLOOK_INPUTS
from osml_training.outlook.collect import Rows

pa: Any = pyarrow
pq: Any = pyarrow.parquet
SCHEMA = "osml/outlook/v1"
_SCHEMA_KEY = b"osml.schema"
_KEYS = ("seed", "condition", "platform", "beside_jobs", "step")


class Outlooks(NamedTuple):
    """All rows: `inputs` (rows, len(OUTLOOK_INPUTS)), the others (rows,). `level` and `prior` are logarithms."""

    inputs: NDArray[np.float32]
    prior: NDArray[np.float64]
    level: NDArray[np.float64]
    seed: NDArray[np.int64]
    step: NDArray[np.int64]
    condition: NDArray[np.str_]
    platforms: tuple[str, ...]


def write_outlooks(file: Path, nodes: Iterable[Rows]) -> int:
    """Write the rows of nodes to one file; returns their number. Raises InputError where there is none."""
    tables = [_table(rows) for rows in nodes if len(rows.level)]
    if not tables:
        raise InputError("no node has a row, expected more nodes (--nodes)")
    table = pa.concat_tables(tables).replace_schema_metadata({_SCHEMA_KEY: SCHEMA})
    with whole_file(file) as partial:
        pq.write_table(table, partial, compression="zstd")
    return int(table.num_rows)


def _table(rows: Rows) -> Any:
    number = len(rows.level)
    columns: dict[str, Any] = {
        "seed": np.full(number, rows.seed), "condition": [rows.condition] * number,
        "platform": [rows.platform] * number, "beside_jobs": [rows.beside_jobs] * number, "step": rows.steps,
        "prior": rows.prior, "level": rows.level,
    }  # fmt: skip
    columns |= {name: rows.inputs[:, k] for k, name in enumerate(OUTLOOK_INPUTS)}
    return pa.table(columns)


def read_outlooks(files: Sequence[Path]) -> Outlooks:
    """The rows of files of `write_outlooks`, one after the other. Raises InputError for another file."""
    parts = [_read(file) for file in files]
    platforms = tuple(sorted({name for part in parts for name in part.platforms}))
    return Outlooks(
        np.concatenate([part.inputs for part in parts]),
        np.concatenate([part.prior for part in parts]),
        np.concatenate([part.level for part in parts]),
        np.concatenate([part.seed for part in parts]),
        np.concatenate([part.step for part in parts]),
        np.concatenate([part.condition for part in parts]),
        platforms,
    )


def _read(file: Path) -> Outlooks:
    parquet = open_parquet(file)
    told = (parquet.schema_arrow.metadata or {}).get(_SCHEMA_KEY, b"").decode()
    missing = [name for name in (*_KEYS, "prior", "level", *OUTLOOK_INPUTS) if name not in parquet.schema_arrow.names]
    if told != SCHEMA or missing:
        what = f", column {missing[0]!r} is missing" if missing else ""
        raise InputError(f"{file}: schema {told!r}{what}, expected {SCHEMA!r} of `osml learn data outlooks`")
    table = parquet.read()

    def column(name: str) -> NDArray[Any]:
        return np.asarray(table.column(name).to_numpy(zero_copy_only=False))

    inputs = np.stack([column(name) for name in OUTLOOK_INPUTS], axis=1).astype(np.float32)
    platforms = tuple(sorted(set(table.column("platform").to_pylist())))
    return Outlooks(
        inputs, column("prior"), column("level"), column("seed"), column("step"),
        column("condition").astype(np.str_), platforms,
    )  # fmt: skip
