"""Series of intervals as machines write them: names with spaces, jitter, lines read twice, loads that nobody tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osml.datasets.validate import validate
from osml.domain import Assignment, Counters, Latency, Observation, Platform, Service
from osml.domain.cpu_names import folder_name, short_name

series = pytest.importorskip("osml_training.collect.live_series")
live = pytest.importorskip("osml_training.collect.live")
data = pytest.importorskip("osml_training.cli.data.app")
runs = pytest.importorskip("osml_training.tables.runs")
splits = pytest.importorskip("osml_training.train.splits")

CPU = "Intel(R) Xeon(R) CPU E5-2697 v4 @ 2.30GHz"
NODE = Platform(id=CPU, cores=20, cpus="0-1", core_quantum=0.1)


def interval(seq: int, quota: float, rate: float, p99_ms: float, draw: np.random.Generator) -> Observation:
    """redis under a CPU quota, the job has the rest; the agent's interval is not that of the latencies."""
    window_s = 1.0 + float(draw.uniform(-0.02, 0.02))
    samples = int(draw.poisson(rate * window_s))
    latency = Latency(0.3 * p99_ms, 0.2 * p99_ms, 0.7 * p99_ms, p99_ms, samples / window_s, samples, 0.4)
    used = min(0.13 * rate / 1000, quota)
    services = [
        Service("redis", "lc", target_ms=8.0, latency=latency, counters=Counters(cpu_usage_cores=used, threads=5)),
        Service("stress", "be", counters=Counters(work_rate=1.0)),
    ]
    given = [Assignment("redis", cpu_quota=quota), Assignment("stress", cpu_quota=round(2.0 - quota, 1))]
    late_s = 1.0 + float(draw.uniform(-0.1, 0.3))
    return Observation("n", seq, 1.0 * seq, late_s, NODE, services, assignments=given)


def record(path: Path, observations: list[Observation]) -> Path:
    path.write_bytes(
        b"".join(msgspec.json.encode({"observation": one, "decision": None}) + b"\n" for one in observations)
    )
    return path


def walk(seed: int = 0, rate: float = 1000.0) -> list[Observation]:
    """Six quotas, ten intervals of each; under 0.3 CPUs the target is missed."""
    draw = np.random.default_rng(seed)
    found: list[Observation] = []
    for quota in (0.6, 0.5, 0.4, 0.3, 0.2, 0.1):
        for _ in range(10):
            p99_ms = (2.0 if quota >= 0.3 else 60.0) * float(draw.uniform(0.9, 1.1))
            found.append(interval(len(found), quota, rate, p99_ms, draw))
    return found


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for file in folder.rglob("traces/**/*.parquet") for row in pq.ParquetFile(file).read().to_pylist()]


def test_record_of_a_real_machine_labels_and_validates_without_hand_work(tmp_path: Path) -> None:
    file, folder = record(tmp_path / "r", walk()), tmp_path / "set"
    run = CliRunner().invoke(data.app, ["collect", str(folder), "--live", str(file)], catch_exceptions=False)
    assert run.exit_code == 0, run.output
    assert "platform intel-xeon-e5-2697-v4" in run.stdout
    assert "5 just after a change" in run.stdout
    run = CliRunner().invoke(data.app, ["label", str(folder), "--json"], catch_exceptions=False)
    assert '"outcomes":{"labelled":1}' in run.stdout
    report = validate(folder)
    assert report.accepted, report.findings
    labels = [row for part in folder.rglob("labels/**/*.parquet") for row in pq.ParquetFile(part).read().to_pylist()]
    assert [(round(row["rcliff_cores"], 3), round(row["oaa_cores"], 3)) for row in labels] == [(0.3, 0.4)]


def test_every_row_says_that_its_load_was_estimated(tmp_path: Path) -> None:
    taken = live.take_over(tmp_path / "set", [record(tmp_path / "r", walk())])
    assert taken.left == series.Left(0, 0)
    loads = {row["offered_per_s"] for row in rows_of(tmp_path / "set")}
    assert len(loads) == 1
    assert 950 < loads.pop() < 1050
    file = next((tmp_path / "set").rglob("*.parquet"))
    assert b"is estimated from the answered requests" in pq.read_schema(file).metadata[b"osml.provenance"]


def part_in(split: Any, folder: Path, names: set[str]) -> list[str]:
    """The parts of the runs of these records: `names` of their files."""
    found = sorted(file for file in folder.rglob("*.parquet") if file.stem in names)
    keys = [
        runs.RunKey("p", "redis", run, None, 5, 1, rate) for file in found for run, rate in runs.rates_of(file).items()
    ]
    return [splits.part_of(key, split) for key in keys]


def test_the_part_of_a_record_does_not_depend_on_the_records_beside_it(tmp_path: Path) -> None:
    """A model that is tested later must not find in the test what it learned from."""
    first = record(tmp_path / "a", walk(0, 1003.0))
    folder = tmp_path / "set"
    live.take_over(folder, [first])
    names = {file.stem for file in folder.rglob("*.parquet")}
    many = [splits.Split(unseen=(), seed=seed, rate_band=width) for seed in range(50) for width in (None, 0.25)]
    before = [part_in(split, folder, names) for split in many]
    live.take_over(folder, [first, record(tmp_path / "b", walk(1, 1031.0)), record(tmp_path / "c", walk(2, 810.0))])
    assert len(list(folder.rglob("*.parquet"))) == 3
    assert [part_in(split, folder, names) for split in many] == before


def test_most_records_of_one_load_are_in_one_part() -> None:
    """Arrivals of one load make 103/s of one record and 97/s of another; few pairs are cut by the edge of a band."""
    draw = np.random.default_rng(7)
    together = {None: 0, 0.25: 0}
    pairs = 300
    for _ in range(pairs):
        rate = float(np.exp(draw.uniform(np.log(30), np.log(300))))
        both = [
            series.estimated_loads(rows([float(one) for one in draw.poisson(rate, 20)]), [1.0] * 20)[0]
            for _ in range(2)
        ]
        keys = [runs.RunKey("p", "redis", str(k), None, 5, 1, found) for k, found in enumerate(both)]
        for width in together:
            bands = {splits._band(key, splits.Split(rate_band=width)) for key in keys}
            together[width] += len(bands) == 1
    assert together[0.25] > 0.7 * pairs
    assert together[None] < 0.4 * pairs


def test_lines_that_were_read_twice_count_once(tmp_path: Path) -> None:
    seen = walk()[:10]
    again = msgspec.structs.replace(seen[-1], seq=11)
    taken = live.take_over(tmp_path / "set", [record(tmp_path / "r", [*seen, again, again])])
    assert (taken.rows, taken.left.repeated) == (10, 2)


def test_the_length_of_a_row_is_that_of_its_latencies(tmp_path: Path) -> None:
    live.take_over(tmp_path / "set", [record(tmp_path / "r", walk())])
    for row in rows_of(tmp_path / "set"):
        assert row["requests"] / row["interval_s"] == pytest.approx(row["requests_per_s"], rel=1e-6)


def rows(rates: list[float | None], used: float = 0.1) -> list[dict[str, Any]]:
    return [{"requests_per_s": rate, "cpu_usage_cores": used} for rate in rates]


def test_loads_within_a_quarter_are_one_and_others_are_apart() -> None:
    found = series.estimated_loads(rows([100.0] * 20 + [110.0] * 20 + [300.0] * 20), [1.0] * 60)
    assert len(set(found)) == 2
    assert found[0] == found[30]
    assert found[59] == 300.0


def test_a_service_without_cpu_time_left_has_the_load_from_before() -> None:
    series_of = rows([1000.0] * 10) + rows([400.0] * 10, used=0.2)
    found = series.estimated_loads(series_of, [1.0] * 10 + [0.2] * 10)
    assert set(found) == {1000.0}
    assert series.estimated_loads(rows([400.0], used=0.2), [0.2]) == [None]
    assert series.estimated_loads(rows([None, 0.0]), [1.0, 1.0]) == [None, None]


def test_intervals_after_a_change_are_settling() -> None:
    assert series.settling(["a", "a", "b", "b", "b"], 2) == [False, False, True, True, False]
    assert series.settling(["a", "b"], 0) == [False, False]


@pytest.mark.parametrize(
    ("cpu", "folder"),
    [
        (CPU, "intel-xeon-e5-2697-v4"),
        ("AMD EPYC 7763 64-Core Processor", "amd-epyc-7763"),
        ("AMD EPYC", "amd-epyc"),
        ("e5-2697v4@8x11", "e5-2697v4@8x11"),
        ("a b/../c", "a b/../c"),
    ],
)
def test_names_of_cpus_become_names_of_folders(cpu: str, folder: str) -> None:
    assert folder_name(cpu) == folder
    assert short_name(folder_name(cpu)) == short_name(cpu)
