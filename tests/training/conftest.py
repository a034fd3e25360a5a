"""Small data sets, made once. Everything here is skipped where osml-training isn't installed."""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("osml_training") is None or importlib.util.find_spec("pyarrow") is None:
    collect_ignore_glob = ["test_data_*.py"]  # `uv sync --inexact --package osml-training` installs both


def _rewrite(file: Path, change: Callable[[dict[str, Any]], None] | None = None, **metadata: str) -> None:
    """Let `change` alter the columns (name -> numpy array or list), or replace keys of the metadata; `_` is `.`."""
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    table = pq.read_table(file, partitioning=None)
    keys = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    keys |= {name.replace("_", "."): value for name, value in metadata.items()}
    columns: dict[str, Any] = {name: table.column(name).to_pylist() for name in table.column_names}
    if change is not None:
        change(columns)
    arrays = []
    for name, values in columns.items():
        known = name in table.column_names
        arrays.append(pa.array(values, table.schema.field(name).type if known else None))
    fields = [
        pa.field(name, array.type, metadata=table.schema.field(name).metadata if name in table.column_names else None)
        for name, array in zip(columns, arrays, strict=True)
    ]
    pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields, metadata=keys)), file, row_group_size=2000)


def _small_sweep(**changes: Any) -> Any:
    from osml_training.collect.sweep import Sweep

    settings: dict[str, Any] = {
        "platforms": ("e5-2630v4",), "services": ("moses", "xapian"), "neighbours": ("moses", "xapian", "img-dnn"),
        "rows": 2500, "samples": 2, "loads": (0.3, 0.6), "threads": (1.0,), "colocated": 1,
    }  # fmt: skip
    return Sweep(**(settings | changes))


@pytest.fixture(scope="session")
def small_sweep() -> Callable[..., Any]:
    """Makes a sweep of seconds; keywords change it."""
    return _small_sweep


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A labelled data set of two services. Not to be changed: see `dataset`."""
    from osml_training.collect.collect import collect_labelled

    return collect_labelled(tmp_path_factory.mktemp("data") / "set", _small_sweep())


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A labelled data set of three services at many loads, one of them unseen, alone and beside others; read only."""
    from osml_training.collect.collect import collect_labelled

    loads = tuple(round(0.1 + 0.05 * k, 2) for k in range(17))
    services = ("img-dnn", "moses", "silo")
    wanted = _small_sweep(services=services, neighbours=services, loads=loads, rows=30_000, samples=1)
    return collect_labelled(tmp_path_factory.mktemp("three") / "set", wanted)


@pytest.fixture
def dataset(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(made, tmp_path / "set"))


@pytest.fixture
def traces(dataset: Path) -> Path:
    """One traces file of it."""
    return sorted((dataset / "traces").rglob("*.parquet"))[0]


@pytest.fixture(scope="session")
def rewrite() -> Callable[..., None]:
    """Changes a Parquet file as somebody with a bad collector would."""
    return _rewrite


@pytest.fixture
def impatient_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracking server that is gone is given up at once."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
