"""The published descriptions are what is written."""

from __future__ import annotations

import json
import math
from pathlib import Path

import jsonschema
import pyarrow.parquet as pq
import pytest

schema = pytest.importorskip("osml.datasets.schema")

DATA = Path(__file__).resolve().parents[3] / "data"


@pytest.mark.parametrize("file", schema.FILES)
def test_published_description_is_the_one_in_use(file: str) -> None:
    assert json.loads((DATA / file).read_text("utf-8")) == schema.document(*schema.FILES[file])


def test_rows_meet_the_published_description(made: Path) -> None:
    for folder, file in (("traces", "cases.schema.json"), ("labels", "labels.schema.json")):
        validator = jsonschema.Draft202012Validator(json.loads((DATA / file).read_text("utf-8")))
        for path in (made / folder).rglob("*.parquet"):
            rows = pq.ParquetFile(path).read().slice(0, 10).to_pylist()
            for row in rows:
                row["latency_ms"] = [v for v in row.get("latency_ms", []) if math.isfinite(v)][:20]
                if folder == "traces":
                    del row["latency_ms"]
                validator.validate(row)


def test_every_float_has_a_plausible_range() -> None:
    for column in (*schema.TRACE_COLUMNS, *schema.LABEL_COLUMNS):
        if column.type != "string":
            assert column.low is not None, column.name
            assert column.high is not None and column.high > column.low, column.name


def test_columns_carry_their_units_in_the_file(made: Path) -> None:
    found = pq.read_schema(next((made / "traces").rglob("*.parquet")))
    assert found.field("bandwidth_gbps").metadata == {b"unit": b"GB/s"}
    assert found.field("run").metadata is None
