"""Labels out of traces: means of cells, the rules of osml.frontier, and traces that contradict their machine."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osml.base.failure import InputError
from osml.frontier import label, reference

labelling = pytest.importorskip("osml.datasets.label")
description = pytest.importorskip("osml.datasets.description")
schema = pytest.importorskip("osml.datasets.schema")
surfaces = pytest.importorskip("osml.datasets.surfaces")
store = pytest.importorskip("osml.datasets.store")

Change = Callable[[dict[str, Any]], None]
CORES, WAYS = 8, 6


def write(file: Path, latency: np.ndarray[Any, Any], platform: Any = None, **constants: Any) -> Path:
    """Traces of one run with these latencies (cores, ways, samples); NaN cells are left out."""
    known = platform or description.Fingerprint("box", logical_cpus=CORES, llc_ways=WAYS, way_mib=1.0)
    provenance = description.Provenance("real", "test")
    about = description.metadata(schema.TRACES_SCHEMA, provenance, known)
    base = {
        "run": "r1", "platform": "box", "service": "svc", "interval_s": 1.0, "offered_per_s": 100.0, "target_ms": 10.0,
        "percentile": "p99", "neighbours": 0, "bandwidth_gbps": 2.5,
    } | constants  # fmt: skip
    rows = [
        base | {"cores": i + 1, "ways": j + 1, "sample": k, "p99_ms": None if math.isnan(v) else float(v)}
        for (i, j, k), v in np.ndenumerate(latency)
        if not (math.isnan(v) and not constants.get("keep_empty"))
    ]
    for row in rows:
        row.pop("keep_empty", None)
        if "ways_null" in row:
            row["ways"] = None
            row.pop("ways_null")
    target = file / "traces" / "platform=box" / "service=svc" / "part-0.parquet"
    target.parent.mkdir(parents=True)
    columns = schema.arrow_schema(schema.TRACE_COLUMNS, about)
    pq.write_table(pa.Table.from_pylist(rows, schema=columns), target, row_group_size=70)
    return target


def labelled(file: Path, rule: str = "frontier") -> dict[str, Any]:
    dataset = file.parents[3]
    labelling.label_file(dataset, file, rule)
    return pq.ParquetFile(store.labels_file(dataset, file)).read().to_pylist()[0]


def cliff(samples: int = 2) -> np.ndarray[Any, Any]:
    """100 ms below 4 cores or 3 ways, else 5 ms."""
    surface = np.where((np.arange(1, CORES + 1)[:, None] >= 4) & (np.arange(1, WAYS + 1) >= 3), 5.0, 100.0)
    return np.repeat(surface[:, :, None], samples, axis=2)


def test_a_known_cliff_is_found(tmp_path: Path) -> None:
    row = labelled(write(tmp_path, cliff()))
    assert (row["rcliff_cores"], row["rcliff_ways"]) == (4, 3)
    assert (row["oaa_cores"], row["oaa_ways"]) == (5, 4)
    assert row["cliff_kind"] == "both"
    assert row["outcome"] == "labelled"
    assert row["oaa_bandwidth_gbps"] == 2.5
    assert (row["cells"], row["samples"]) == (CORES * WAYS, 2 * CORES * WAYS)
    points = np.array(row["b_points"]).reshape(len(row["slowdowns"]), 3, 2)
    assert points[0].tolist() == [[1, 1], [1, 1], [1, 1]]  # down to the cliff and not a step further


def test_labels_are_those_of_the_mean_over_samples(made: Path) -> None:
    file = sorted((made / "traces").rglob("*.parquet"))[0]
    cells: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for row in pq.ParquetFile(file).read().to_pylist():
        cells[row["run"], int(row["cores"]), row["ways"]].append(row[f"{row['percentile']}_ms"])
    for row in pq.ParquetFile(store.labels_file(made, file)).read().to_pylist():
        surface = np.full((row["grid_cores"], row["grid_ways"]), np.nan)
        for (run, cores, ways), values in cells.items():
            if run == row["run"]:
                surface[cores - 1, ways - 1] = sum(values) / len(values)
        np.testing.assert_allclose(np.array(row["latency_ms"]).reshape(surface.shape), surface, rtol=1e-5)
        wanted = label(surface, row["target_ms"], row["slowdowns"], (10, 20))
        assert (row["rcliff_cores"] or 0, row["rcliff_ways"] or 0) == tuple(wanted.rcliff)
        assert (row["oaa_cores"] or 0, row["oaa_ways"] or 0) == tuple(wanted.oaa)
        assert row["b_points"] == wanted.b_points.reshape(-1).tolist()


def test_reference_labelling_is_the_published_rule(tmp_path: Path) -> None:
    file = write(tmp_path, cliff())
    row = labelled(file, "reference")
    rcliff, oaa = reference(cliff().mean(2), 10.0)
    assert (row["rcliff_cores"], row["rcliff_ways"]) == tuple(rcliff)
    assert (row["oaa_cores"], row["oaa_ways"]) == tuple(oaa) == (6, 5)
    assert row["labelling"] == "reference"


def test_b_trains_on_the_b_points_of_the_labels(tmp_path: Path) -> None:
    """Two cores and a way, or a core and two ways: a way is a small share of 40, not of the 4 in the grid."""
    examples = pytest.importorskip("osml_training.tables.examples")
    latency = np.full((4, 4, 2), 100.0)
    latency[1:, 1:] = 11.0
    latency[1, 1] = 100.0
    latency[2:, 2:] = 9.5
    row = labelled(write(tmp_path, latency, description.Fingerprint("box", logical_cpus=4, llc_ways=40, way_mib=1.0)))
    assert (row["oaa_cores"], row["oaa_ways"]) == (4, 4)
    label_points = np.array(row["b_points"]).reshape(len(row["slowdowns"]), -1)
    assert label_points[-1, :2].tolist() == [1, 2]
    source = examples.ExampleSource(tmp_path, "b", neighbours="any", window=0)
    found = source.table()
    slowdowns = found.x[:, source.inputs.index("slowdown")]
    for slowdown, points in zip(row["slowdowns"], label_points, strict=True):
        mine = found.y[np.isclose(slowdowns, slowdown)]
        assert len(mine) == 2
        assert (mine == points).all()


def test_the_fingerprint_of_a_training_is_that_of_its_labels_too(tmp_path: Path) -> None:
    file = write(tmp_path, cliff())
    traces = store.dataset_fingerprint(tmp_path)
    labelled(file)
    first = store.dataset_fingerprint(tmp_path, "labels")
    labelled(file, "reference")
    other = store.dataset_fingerprint(tmp_path, "labels")
    labelled(file)
    assert len({traces, first, other}) == 3
    assert store.dataset_fingerprint(tmp_path, "labels") == first
    assert store.dataset_fingerprint(tmp_path) == traces


def test_samples_without_a_latency_are_left_out_of_the_mean(tmp_path: Path) -> None:
    latency = cliff(3)
    latency[:, :, 1] = np.nan
    row = labelled(write(tmp_path, latency, keep_empty=True))
    assert (row["rcliff_cores"], row["rcliff_ways"]) == (4, 3)
    assert row["samples"] == 2 * CORES * WAYS


def test_a_cell_that_answers_nothing_is_infinitely_slow_not_unknown(tmp_path: Path) -> None:
    latency = cliff()
    latency[:3] = np.nan
    row = labelled(write(tmp_path, latency, keep_empty=True))
    found = np.array(row["latency_ms"]).reshape(CORES, WAYS)
    assert np.isinf(found[:3]).all()
    assert row["rcliff_cores"] == 4


def test_cells_that_were_not_measured_are_unknown(tmp_path: Path) -> None:
    latency = cliff()
    latency[::2] = np.nan
    row = labelled(write(tmp_path, latency))
    assert np.isnan(np.array(row["latency_ms"]).reshape(CORES, WAYS)[::2]).all()
    assert row["cells"] == CORES // 2 * WAYS


@pytest.mark.parametrize(
    ("latency", "constants", "outcome"),
    [
        (np.full((CORES, WAYS, 1), 50.0), {}, "never_met"),
        (np.full((CORES, WAYS, 1), 5.0), {}, "always_met"),
        (cliff(), {"target_ms": None}, "no_target"),
        (cliff(), {"offered_per_s": None}, "no_load"),
        (np.full((3, 1, 1), 5.0), {}, "too_few_cells"),
        (np.where(np.arange(1, CORES + 1)[:, None, None] >= CORES, 5.0, 50.0) * np.ones((1, WAYS, 1)), {}, "no_oaa"),
    ],
)
def test_what_cannot_be_labelled_says_why(
    tmp_path: Path, latency: np.ndarray[Any, Any], constants: dict[str, Any], outcome: str
) -> None:
    row = labelled(write(tmp_path, latency, **constants))
    assert row["outcome"] == outcome
    assert (row["oaa_cores"] is None) == (outcome != "always_met")


def test_machine_without_cache_partitioning_has_labels_in_cores_only(tmp_path: Path) -> None:
    platform = description.Fingerprint("box", logical_cpus=CORES)
    row = labelled(write(tmp_path, cliff()[:, 5:6], platform, ways_null=True))
    assert (row["rcliff_cores"], row["rcliff_ways"], row["oaa_cores"], row["oaa_ways"]) == (4, None, 5, None)


@pytest.mark.parametrize(
    ("platform", "said"),
    [
        ({"logical_cpus": 4, "llc_ways": WAYS}, "column 'cores': 1 to 6, but platform 'box' has 4 CPUs"),
        ({"logical_cpus": CORES, "llc_ways": 2}, "column 'ways': 1 to 6, but platform 'box' has 2 ways"),
        ({"llc_ways": WAYS}, "'logical_cpus' is missing"),
    ],
)
def test_platform_that_contradicts_the_traces_is_refused(tmp_path: Path, platform: dict[str, int], said: str) -> None:
    file = write(tmp_path, cliff(), description.Fingerprint("box", **platform))
    with pytest.raises(InputError) as caught:
        labelled(file)
    assert said in str(caught.value)


def test_truncated_file_is_named(traces: Path) -> None:
    traces.write_bytes(traces.read_bytes()[:-200])
    with pytest.raises(InputError, match="not readable as Parquet, possibly truncated"):
        labelling.label_file(traces.parents[3], traces)


def test_damaged_row_group_is_named(traces: Path) -> None:
    content = bytearray(traces.read_bytes())
    start = pq.ParquetFile(traces).metadata.row_group(1).column(0).data_page_offset
    content[start - 40 : start + 400] = b"\xff" * 440
    traces.write_bytes(bytes(content))
    with pytest.raises(InputError, match="row group 1"):
        labelling.label_file(traces.parents[3], traces)


def test_row_group_beyond_memory_is_refused_unread(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_GROUP_BYTES", 1000)
    with pytest.raises(InputError, match=r"row group 0 has .* GiB, expected at most .*: write smaller row groups"):
        labelling.label_file(traces.parents[3], traces)


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ("MAX_GROUP_BYTES", "row group 0 has 0.003814697 GiB unpacked, expected at most"),
        ("MAX_GROUP_ROWS", "row group 0 has 2048 rows, expected at most 100"),
        ("MAX_GROUP_VALUES", "row group 0 has 2048 values in a column, expected at most 100"),
    ],
)
def test_a_small_file_of_large_content_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, text: str
) -> None:
    file = tmp_path / "bomb.parquet"
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2048, np.int32)), pa.array(["x" * 2000]))
    pq.write_table(pa.table({"names": names}), file, compression="zstd", store_schema=False)
    parquet = store.open_parquet(file)
    assert store.read_group(parquet, file, 0).column("names").type == pa.string()
    monkeypatch.setattr(store, limit, 2**20 if limit == "MAX_GROUP_BYTES" else 100)
    assert parquet.metadata.row_group(0).total_byte_size < 2**14
    with pytest.raises(InputError, match=re.escape(text)):
        store.read_group(parquet, file, 0)


def test_texts_within_lists_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"names": [["x"]]}), file)
    with pytest.raises(InputError, match="has texts within lists or records, expected plain texts"):
        store.read_group(store.open_parquet(file), file, 0)


@pytest.mark.parametrize("value", [-1.0, math.inf])
def test_impossible_latency_is_located(traces: Path, rewrite: Callable[..., None], value: float) -> None:
    def spoil(columns: dict[str, Any]) -> None:
        columns["p95_ms"][3] = columns["p99_ms"][3] = value

    rewrite(traces, spoil)
    with pytest.raises(InputError, match="row group 0, column 'p9"):
        labelling.label_file(traces.parents[3], traces)


def test_labels_of_broken_traces_are_not_written(traces: Path, rewrite: Callable[..., None]) -> None:
    target = store.labels_file(traces.parents[3], traces)
    target.unlink()
    rewrite(traces, lambda columns: columns["cores"].__setitem__(0, 99.0))
    with pytest.raises(InputError):
        labelling.label_file(traces.parents[3], traces)
    assert not list(target.parent.glob("*"))


def test_slowdowns_are_checked() -> None:
    assert labelling.checked_slowdowns([0.2, 0.05, 0.05]) == (0.05, 0.2)
    with pytest.raises(InputError, match="expected shares above 0"):
        labelling.checked_slowdowns([0.05, -1])
