"""Examples for the models: the right label beside the right row, every row once, held out by run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from osml.base.failure import InputError
from osml.frontier import b_points

examples = pytest.importorskip("osml_training.tables.examples")
features = pytest.importorskip("osml_training.tables.features")
runs = pytest.importorskip("osml_training.tables.runs")
ExampleSource, fold_of = examples.ExampleSource, runs.fold_of


def labels(dataset: Path) -> dict[str, dict[str, Any]]:
    rows = [row for file in (dataset / "labels").rglob("*.parquet") for row in pq.ParquetFile(file).read().to_pylist()]
    return {row["run"]: row for row in rows}


def traces(dataset: Path) -> list[dict[str, Any]]:
    return [
        row
        for file in sorted((dataset / "traces").rglob("*.parquet"))
        for row in pq.ParquetFile(file).read().to_pylist()
    ]


@pytest.mark.parametrize("model", features.MODELS)
def test_shapes_are_the_papers(made: Path, model: str) -> None:
    found = ExampleSource(made, model).table()
    inputs, outputs = {"a": (9, 5), "a2": (12, 5), "b": (13, 6), "b2": (14, 1)}[model]
    assert found.x.shape[1] == inputs == len(features.INPUTS[model])
    assert found.y.shape == (len(found.x), outputs)
    assert found.context.shape == (len(found.x), len(features.CONTEXT))
    assert found.x.dtype == found.y.dtype == found.context.dtype == np.float32
    assert len(found.x) == len(found.run) == len(found.platform) == len(found.service) == len(found.load) > 0


@pytest.mark.parametrize(("model", "alone"), [("a", True), ("a2", False)])
def test_every_row_of_a_labelled_run_is_there_once_with_its_label(made: Path, model: str, alone: bool) -> None:
    known = labels(made)
    wanted = [
        row
        for row in traces(made)
        if (row["neighbours"] == 0) == alone and known[row["run"]]["rcliff_cores"] is not None
    ]
    source = ExampleSource(made, model)
    found = source.table()
    assert len(found.x) == len(wanted) > 0
    for k, name in enumerate(source.inputs):
        np.testing.assert_allclose(found.x[:, k], [row[name] for row in wanted], rtol=1e-6, err_msg=name)
    for k, name in enumerate(source.outputs):
        values = [known[row["run"]][name] for row in wanted]
        np.testing.assert_allclose(found.y[:, k], [np.nan if v is None else v for v in values], rtol=1e-6)
    assert [source.services[s] for s in found.service] == [row["service"] for row in wanted]
    over = found.context[:, source.context.index("latency_over_target")]
    np.testing.assert_allclose(over, [row[f"{row['percentile']}_ms"] / row["target_ms"] for row in wanted], rtol=1e-5)


def test_shuffling_keeps_every_row_and_its_label(made: Path) -> None:
    source = ExampleSource(made, "a2", seed=3)
    plain = source.table()
    mixed = list(source.batches(64, buffer_rows=500))
    x, y = np.concatenate([b.x for b in mixed]), np.concatenate([b.y for b in mixed])
    assert all(len(b.x) == 64 for b in mixed[:-1])
    assert x.shape == plain.x.shape
    assert not np.array_equal(x, plain.x)

    def ordered(a: Any, b: Any) -> Any:
        whole = np.nan_to_num(np.concatenate([a, b], axis=1), nan=-1.0)
        return whole[np.lexsort(whole.T)]

    np.testing.assert_array_equal(ordered(x, y), ordered(plain.x, plain.y))


def test_order_is_the_seeds_and_another_in_each_epoch(made: Path) -> None:
    def first(seed: int, epoch: int) -> Any:
        return next(ExampleSource(made, "b2", seed=seed).batches(50, epoch=epoch))

    np.testing.assert_array_equal(first(1, 0).x, first(1, 0).x)
    assert not np.array_equal(first(1, 0).x, first(1, 1).x)
    assert not np.array_equal(first(1, 0).x, first(2, 0).x)


def test_b_asks_what_can_be_taken_from_where_the_service_is(made: Path) -> None:
    known = labels(made)
    source = ExampleSource(made, "b", window=1)
    found = source.table()
    checked = at_oaa = 0
    names = source.inputs
    for run in [key.run for key in source.runs()]:
        row = known[run]
        if row["oaa_cores"] is None:
            continue
        surface = np.array(row["latency_ms"]).reshape(row["grid_cores"], row["grid_ways"])
        mine = found.run == runs.run_number(run)
        assert mine.any()
        for x, y in zip(found.x[mine][::7], found.y[mine][::7], strict=True):
            cell = np.array([round(x[names.index("cores")]), round(x[names.index("cache_mib")] / 1.25)])
            assert abs(cell - [row["oaa_cores"], row["oaa_ways"]]).max() <= 1
            assert surface[cell[0] - 1, cell[1] - 1] <= row["target_ms"]
            slowdown = float(x[names.index("slowdown")])
            wanted = b_points(surface, cell, [slowdown], (10, 20))[0]  # shares of the platform, not of the grid
            np.testing.assert_array_equal(y, wanted.reshape(-1))
            checked += 1
            if cell.tolist() == [row["oaa_cores"], row["oaa_ways"]]:
                label = np.array(row["b_points"]).reshape(len(row["slowdowns"]), -1)
                np.testing.assert_array_equal(y, label[np.abs(np.array(row["slowdowns"]) - slowdown).argmin()])
                at_oaa += 1
    assert checked > 20
    assert at_oaa > 0


def test_b2_is_how_much_the_latency_suffers(made: Path) -> None:
    known = labels(made)
    source = ExampleSource(made, "b2")
    found, names = source.table(), source.inputs
    by_number = {runs.run_number(key.run): key.run for key in source.runs()}
    for x, y, run in list(zip(found.x, found.y, found.run, strict=True))[::11]:
        row = known[by_number[int(run)]]
        surface = np.array(row["latency_ms"]).reshape(row["grid_cores"], row["grid_ways"])
        value = dict(zip(names, x, strict=True))
        now = surface[round(value["cores"]) - 1, round(value["cache_mib"] / 1.25) - 1]
        then = surface[round(value["expected_cores"]) - 1, round(value["expected_cache_mib"] / 1.25) - 1]
        assert y[0] == pytest.approx(100 * (1 - now / then), abs=1e-3)
        assert value["expected_cores"] <= value["cores"]
        assert (value["cores"], value["cache_mib"]) != (value["expected_cores"], value["expected_cache_mib"])
    assert found.y.max() <= 100


def test_held_out_runs_services_and_platforms_share_no_row(made: Path) -> None:
    train = ExampleSource(made, "a2", select=lambda key: fold_of(key.run, 2) == 0)
    test = ExampleSource(made, "a2", select=lambda key: fold_of(key.run, 2) == 1)
    everything = ExampleSource(made, "a2")
    assert {k.run for k in train.runs()} | {k.run for k in test.runs()} == {k.run for k in everything.runs()}
    assert not set(train.table().run) & set(test.table().run)
    moses = ExampleSource(made, "a", services=("moses",))
    assert moses.services == ("moses",)
    assert {key.service for key in moses.runs()} == {"moses"}


def test_fold_of_a_run_never_changes() -> None:
    assert [fold_of(run, 5) for run in ("a", "b", "c", "d")] == [fold_of(run, 5) for run in ("a", "b", "c", "d")]
    assert {fold_of(str(run), 5) for run in range(100)} == set(range(5))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"model": "c"}, "model is 'c', expected one of a, a2, b, b2"),
        ({"model": "a", "services": ("word",)}, "has no traces for word, expected"),
        ({"model": "a", "labels": "nowhere"}, "no labels in 'nowhere/'; run `osml learn data label"),
    ],
)
def test_wrong_sources_are_refused_with_a_sentence(made: Path, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        ExampleSource(made, **arguments).table()
    assert said in str(caught.value)


def test_a_column_that_is_not_there_is_named(dataset: Path, rewrite: Any) -> None:
    for file in (dataset / "traces").rglob("*.parquet"):
        rewrite(file, lambda columns: columns.pop("cpu_usage_cores"))
    with pytest.raises(InputError, match="column 'cpu_usage_cores' is missing"):
        ExampleSource(dataset, "a").table()


def test_missing_counters_are_nan(dataset: Path, rewrite: Any) -> None:
    for file in (dataset / "traces").rglob("*.parquet"):
        rewrite(file, lambda columns: columns.__setitem__("ipc", [None] * len(columns["ipc"])))
    source = ExampleSource(dataset, "a2")
    found = source.table()
    assert np.isnan(found.x[:, source.inputs.index("ipc")]).all()
    assert np.isfinite(found.x[:, source.inputs.index("cores")]).all()


def test_broken_labels_are_refused_with_a_sentence(dataset: Path, rewrite: Any) -> None:
    file = next((dataset / "labels").rglob("*.parquet"))
    content = file.read_bytes()
    rewrite(file, lambda columns: columns.__setitem__("grid_ways", [n + 1 for n in columns["grid_ways"]]))
    with pytest.raises(InputError, match="171 latencies, expected 9 x 20; run `osml learn data label` again"):
        ExampleSource(dataset, "a2").table()
    damaged = bytearray(content)
    start = pq.ParquetFile(file).metadata.row_group(0).column(0).data_page_offset
    damaged[start - 30 : start + 200] = b"\xff" * 230
    file.write_bytes(bytes(damaged))
    with pytest.raises(InputError, match="can't be read"):
        ExampleSource(dataset, "a2").table()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0])
def test_a_label_that_is_no_size_is_refused_with_its_place(dataset: Path, rewrite: Any, value: float) -> None:
    file = next((dataset / "labels").rglob("*.parquet"))
    rewrite(file, lambda columns: columns.__setitem__("oaa_cores", [value] * len(columns["run"])))
    with pytest.raises(InputError, match=rf"labels of run \w+: 'oaa_cores' is {value:g}, expected a number above 0"):
        ExampleSource(dataset, "a2").table()


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ({"llc_ways": 8}, r"column 'ways': up to \d+, but the platform has 8 \(ways of the platform\)"),
        (
            {"bandwidth_gbps": 0.01},
            r"column 'bandwidth_gbps': up to .*, but the platform has 0\.0105 \(platform's bandwidth",
        ),
        ({"turbo_ghz": 1.0}, r"column 'frequency_ghz': up to .*, but the platform has 1\.05 \(platform's turbo"),
        ({"memory_gib": 0.001}, r"column 'rss_mib': up to .* \(memory of the platform\)"),
    ],
)
def test_traces_of_another_machine_than_the_one_described_are_not_learned(
    dataset: Path, rewrite: Any, description: dict[str, float], said: str
) -> None:
    file = next((dataset / "traces").rglob("*.parquet"))
    platform = json.loads(pq.read_schema(file).metadata[b"osml.platform"])
    rewrite(file, osml_platform=json.dumps(platform | description))
    with pytest.raises(InputError, match=said):
        ExampleSource(dataset, "a2").table()


@pytest.mark.parametrize(
    ("column", "factor", "said"),
    [
        ("rss_mib", 2.0**20, r"column 'rss_mib': .*contradict each other; `osml learn data"),
        ("frequency_ghz", 1000.0, r"column 'frequency_ghz': .*, expected 0\.1 to 7; is the unit MHz\?"),
        ("llc_misses_per_s", 1e9, r"column 'llc_misses_per_s': .*, expected 0 to 2e\+10"),
    ],
)
def test_traces_in_another_unit_are_not_learned(
    dataset: Path, rewrite: Any, column: str, factor: float, said: str
) -> None:
    file = next((dataset / "traces").rglob("*.parquet"))
    rewrite(file, lambda columns: columns.__setitem__(column, [value * factor for value in columns[column]]))
    with pytest.raises(InputError, match=said):
        ExampleSource(dataset, "a2").table()


def test_a_sensor_that_erred_once_keeps_nobody_from_learning(dataset: Path, rewrite: Any) -> None:
    file = next((dataset / "traces").rglob("*.parquet"))
    whole = len(ExampleSource(dataset, "a2").table().x)
    rewrite(file, lambda columns: columns["bandwidth_gbps"].__setitem__(0, 1e6))
    rewrite(file, lambda columns: columns["ipc"].__setitem__(1, float("nan")))
    assert len(ExampleSource(dataset, "a2").table().x) == whole
    rewrite(file, lambda columns: columns["cores"].__setitem__(0, 4000.0))
    with pytest.raises(InputError, match=r"column 'cores': up to 4000, but the platform has 10 \(CPUs of"):
        ExampleSource(dataset, "a2").table()
