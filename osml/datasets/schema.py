"""The columns of traces and labels: name, type, unit, meaning, plausible range. `data/*.schema.json` are made of them.

Run `python -m osml.datasets.schema DIR` after a change; a test compares the files with the lists.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from osml.datasets.arrow import pa

TRACES_SCHEMA = "osml/cases/v1"
LABELS_SCHEMA = "osml/labels/v1"


class Column(NamedTuple):
    """One column. `nullable`: null means that it was not measured or does not exist there, never 0.

    `low` and `high` are what is physically plausible on any machine; a value beyond is an error of unit or of counting.
    """

    name: str
    type: str  # string | int32 | int64 | float32 | list<float32> | list<int32>
    unit: str | None
    meaning: str
    nullable: bool = True
    low: float | None = None
    high: float | None = None


# fmt: off
TRACE_COLUMNS = (
    # -- which case ------------------------------------------------------------------------------------------------
    Column("run", "string", None, "one sweep: a service under one load, threads, neighbours; within one file", False),
    Column("platform", "string", None, "id of the platform; the fingerprint is in the file's metadata", False),
    Column("service", "string", None, "name of the latency-critical service", False),
    Column("sample", "int32", None, "number of the interval within its cell of the run, from 0", False, 0, 1e9),
    Column("interval_s", "float32", "s", "length of the interval", False, 1e-3, 86400),
    Column("threads", "int32", None, "threads of the service", True, 1, 4096),
    Column("load", "float32", "1", "offered load as a share of max load", True, 0, 2),
    Column("offered_per_s", "float32", "1/s", "requests scheduled", True, 0, 1e9),
    Column("target_ms", "float32", "ms", "latency target at `percentile`", True, 1e-3, 1e6),
    Column("percentile", "string", None, "statistic of the target: p50, p95, p99, mean", True),
    # -- what it was given -----------------------------------------------------------------------------------------
    Column("cores", "float32", "logical CPUs", "allocated cores; fractions under a CPU quota", False,
           1e-3, 4096),
    Column("ways", "int32", "ways", "allocated LLC ways; null where the cache can't be partitioned", True, 1, 64),
    Column("cache_mib", "float32", "MiB", "capacity of the allocated ways", True, 1e-3, 4096),
    Column("mba_percent", "float32", "%", "memory-bandwidth throttle; null: no throttle", True, 0.1, 100),
    # -- what its counters said (OSML table 3) ---------------------------------------------------------------------
    Column("ipc", "float32", "1", "instructions per cycle", True, 0, 8),
    Column("llc_misses_per_s", "float32", "1/s", "last-level cache misses", True, 0, 2e10),
    Column("bandwidth_gbps", "float32", "GB/s", "local memory traffic", True, 0, 2000),
    Column("cpu_usage_cores", "float32", "logical CPUs", "CPU time over wall time", True, 0, 4096),
    Column("vms_mib", "float32", "MiB", "virtual memory", True, 0, 1e9),
    Column("rss_mib", "float32", "MiB", "resident memory", True, 0, 1e8),
    Column("frequency_ghz", "float32", "GHz", "mean clock of the allocated cores", True, 0.1, 7),
    Column("llc_occupancy_mib", "float32", "MiB", "last-level cache held", True, 0, 4096),
    # -- how it answered -------------------------------------------------------------------------------------------
    Column("mean_ms", "float32", "ms", "mean latency", True, 0, 1e7),
    Column("p50_ms", "float32", "ms", "median latency", True, 0, 1e7),
    Column("p95_ms", "float32", "ms", "95th percentile of latency", True, 0, 1e7),
    Column("p99_ms", "float32", "ms", "99th percentile of latency", True, 0, 1e7),
    Column("requests_per_s", "float32", "1/s", "requests answered", True, 0, 1e9),
    Column("requests", "int64", None, "latencies in the percentiles", True, 0, 1e12),
    # -- who was beside it; sums over all others -------------------------------------------------------------------
    Column("neighbours", "int32", None, "number of neighbours; null: some, number unknown", True, 0, 64),
    Column("neighbour_names", "string", None, "names: moses=0.4,be:stream (loads as shares of max load)", True),
    Column("neighbour_cores", "float32", "logical CPUs", "their allocated cores; 0 without neighbours", True, 0, 4096),
    Column("neighbour_ways", "int32", "ways", "their allocated LLC ways; 0 without neighbours", True, 0, 64),
    Column("neighbour_cache_mib", "float32", "MiB", "capacity of these ways", True, 0, 4096),
    Column("neighbour_bandwidth_gbps", "float32", "GB/s", "their memory traffic; 0 without neighbours", True, 0, 2000),
)

LABEL_COLUMNS = (
    Column("run", "string", None, "the sweep in the traces file of the same name", False),
    Column("platform", "string", None, "id of the platform", False),
    Column("service", "string", None, "name of the service", False),
    Column("threads", "int32", None, "threads of the service", True, 1, 4096),
    Column("load", "float32", "1", "offered load as a share of max load", True, 0, 2),
    Column("target_ms", "float32", "ms", "latency target at `percentile`", True, 1e-3, 1e6),
    Column("percentile", "string", None, "statistic of the target: p50, p95, p99, mean", True),
    Column("neighbours", "int32", None, "number of neighbours; null: some, number unknown", True, 0, 64),
    Column("labelling", "string", None, "rule: frontier (this project's) or reference (the published one)", False),
    Column("outcome", "string", None, "labelled; always_met (no cliff); no_oaa (RCliff may exist); all labels null: "
           "never_met, too_few_cells, no_target, no_load (offered load unknown)", False),
    Column("rcliff_cores", "float32", "logical CPUs", "cores at RCliff; null where there is none", True, 1e-3, 4096),
    Column("rcliff_ways", "int32", "ways", "ways at RCliff", True, 1, 64),
    Column("oaa_cores", "float32", "logical CPUs", "cores at OAA; null where there is none", True, 1e-3, 4096),
    Column("oaa_ways", "int32", "ways", "ways at OAA", True, 1, 64),
    Column("oaa_bandwidth_gbps", "float32", "GB/s", "mean memory traffic in the OAA cell", True, 0, 2000),
    Column("cliff_kind", "string", None, "resources with a cliff at RCliff: none, cores, ways, both", True),
    Column("slowdowns", "list<float32>", "1", "tolerated slowdowns of `b_points`", False, 0, 10),
    Column("b_points", "list<int32>", "core units, ways",
           "what can be taken from OAA: slowdowns x (balanced, core_dominated, way_dominated) x (cores, ways), "
           "row by row; 0, 0 is none", False, 0, 4096),
    Column("core_unit", "float32", "logical CPUs", "step of the grid in cores", False, 1e-3, 1),
    Column("grid_cores", "int32", "core units", "number of rows of `latency_ms` (cores)", False, 1, 65536),
    Column("grid_ways", "int32", None, "number of columns of `latency_ms` (ways)", False, 1, 64),
    Column("cells", "int32", None, "cells of the grid that were measured", False, 0, 1e6),
    Column("samples", "int64", None, "rows of the run that have a latency", False, 0, 1e12),
    Column("spread", "float32", "1", "median over cells of the standard error of `latency_ms`, relative", True, 0, 1e3),
    Column("latency_ms", "list<float32>", "ms", "mean latency at the target's percentile by cell, cores first; "
        "NaN: not measured, infinite: no request was answered", False, 0, 1e7),
)
# fmt: on

TRACE_NAMES = tuple(column.name for column in TRACE_COLUMNS)
PERCENTILES = {"mean": "mean_ms", "p50": "p50_ms", "p95": "p95_ms", "p99": "p99_ms"}
"""Column of the latency that a target of each kind speaks of."""

_DICTIONARIES = {"run", "platform", "service", "percentile", "neighbour_names", "labelling", "outcome", "cliff_kind"}


def _type(column: Column) -> Any:
    if column.type.startswith("list<"):
        return pa.list_(_plain(column.type[5:-1]))
    return _plain(column.type)


def _plain(name: str) -> Any:
    return {"string": pa.string(), "int32": pa.int32(), "int64": pa.int64(), "float32": pa.float32()}[name]


def arrow_schema(columns: tuple[Column, ...], metadata: dict[str, str] | None = None) -> Any:
    """The pyarrow schema of a list of columns; each field carries its unit."""
    fields = [pa.field(c.name, _type(c), c.nullable, metadata={"unit": c.unit} if c.unit else None) for c in columns]
    return pa.schema(fields, metadata=metadata)


def write_options(columns: tuple[Column, ...]) -> dict[str, Any]:
    """Options for Parquet: zstd, dictionaries for text only, floats split by byte (together the smallest files)."""
    floats = [column.name for column in columns if column.type == "float32"]
    return {
        "compression": "zstd",
        "use_dictionary": [column.name for column in columns if column.name in _DICTIONARIES],
        "column_encoding": dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
    }


def document(name: str, title: str, columns: tuple[Column, ...]) -> dict[str, Any]:
    """JSON Schema (2020-12) of one row."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": name,
        "title": title,
        "description": "Null is 'not measured' or 'does not exist there', never 0. `x-unit` is the unit, `x-arrow` the "
        "type in Parquet. The file's key-value metadata has `osml.schema`, `osml.provenance`, `osml.platform` (JSON).",
        "type": "object",
        "required": [column.name for column in columns],
        "additionalProperties": False,
        "properties": {column.name: _property(column) for column in columns},
    }


def _property(column: Column) -> dict[str, Any]:
    kinds = {"string": "string", "int32": "integer", "int64": "integer", "float32": "number"}
    inner = column.type.removeprefix("list<").removesuffix(">")
    limits: dict[str, Any] = {"type": kinds[inner]}
    if column.low is not None:
        limits["minimum"] = column.low
    if column.high is not None:
        limits["maximum"] = column.high
    shape = {"type": "array", "items": limits} if column.type.startswith("list<") else limits
    if column.nullable:
        shape = shape | {"type": [shape["type"], "null"]}
    return shape | {"description": column.meaning, "x-unit": column.unit, "x-arrow": column.type}


FILES = {
    "cases.schema.json": (TRACES_SCHEMA, "Allocation cases: one row for each interval of one service", TRACE_COLUMNS),
    "labels.schema.json": (
        LABELS_SCHEMA,
        "Labels: one row for each run (a surface over cores and ways)",
        LABEL_COLUMNS,
    ),
}
"""Published descriptions in data/."""


def write_documents(folder: Path) -> None:
    """Write the published descriptions."""
    for file, (name, title, columns) in FILES.items():
        text = json.dumps(document(name, title, columns), indent=1)
        (folder / file).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    write_documents(Path(sys.argv[1]))
