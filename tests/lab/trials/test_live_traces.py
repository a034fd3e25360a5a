"""Traces, summary and configuration of the live trial, from records made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from osml.datasets.live_columns import COLUMNS, document
from osml.domain import (
    Assignment,
    Counters,
    Decision,
    Entropy,
    Latency,
    Observation,
    Partition,
    Platform,
    Region,
    Service,
)
from osml.lab.trials.live.agent_config import agent_config
from osml.lab.trials.live.phases import GeneratorCost, LivePhase, generator_cost
from osml.lab.trials.live.report import summarise
from osml.lab.trials.live.settings import LcLoad, LiveSettings
from osml.lab.trials.live.traces import write_traces
from osml.lab.trials.records import Record

ROOT = Path(__file__).resolve().parents[3]
PLATFORM = Platform(id="here", cores=20, cpus="0-1", core_quantum=0.1)


def record(seq: int, p99_ms: float | None, quota: float | None, cores: int = 5, e_s: float = 0.3) -> Record:
    latency = None if p99_ms is None else Latency(p99_ms=p99_ms, p50_ms=p99_ms / 2, samples=900, requests_per_s=900)
    services = [
        Service("redis", "lc", target_ms=6.0, ideal_ms=1.0, latency=latency, counters=Counters(cpu_usage_cores=0.12)),
        Service("stress", "be", work_rate_solo=2.0, counters=Counters(work_rate=1.5)),
    ]
    assignments = [Assignment("redis", cpu_quota=quota)] if quota else []
    observation = Observation(
        "live", seq, 100.0 + seq, 1.0, PLATFORM, services, assignments=assignments, missing={"llc_ways": "no resctrl"}
    )
    partition = Partition([Region(["redis"], cores), Region(["redis", "stress"], 20 - cores)])
    decided = [Assignment("redis", cpu_quota=2.0, cpu_weight=120), Assignment("stress", cpu_quota=1.5)]
    return Record(observation, Decision("live", seq, "arq", partition, decided, entropy=Entropy(0.1, 0.5, e_s)))


def phase(label: str, records: list[Record]) -> LivePhase:
    window = {
        "redis": {
            "p99_ms": 7.5,
            "lateness_p99_ms": 0.05,
            "samples": 9000,
            "errors": 0,
            "requests_per_s": 899.5,
            "offered_per_s": 900.0,
            "unanswered": 3,
            "given_up": 1,
        }
    }
    return LivePhase(label, "arq", records, 0, window, GeneratorCost(8.5, "fifo"), None)


@pytest.fixture
def phases() -> list[LivePhase]:
    before = [record(i, 50.0, None, e_s=0.8) for i in range(12)]
    after = [record(20, 50.0, None), *(record(i, 3.0, 2.0, cores=6) for i in range(21, 40))]
    return [phase("unmanaged", before), phase("managed", after)]


BASELINE: dict[str, Any] = {"work_rate_unit": "cpu-seconds/s", "ideal_ms": {"redis": 1.0}, "work_rate_solo": 2.0}


def test_summary_has_what_the_contract_names(phases: list[LivePhase]) -> None:
    found = summarise(LiveSettings(Path("x")), "cgroup v1", phases, BASELINE)
    assert found["simulated"] is False
    assert found["mechanisms"] == ["cpu_quota", "cpu_weight"]
    assert found["missing"] == [{"mechanism": "llc_ways", "reason": "no resctrl"}]
    redis, stress = found["phases"]["managed"]["services"]
    assert (redis["p99_ms"], redis["target_ms"], redis["met"]) == (3.0, 6.0, True)
    assert found["phases"]["unmanaged"]["services"][0]["met"] is False
    assert redis["cores"] == 2.0  # logical CPUs within reach
    assert redis["ways"] is None
    assert redis["lateness_p99_ms"] == 0.05
    assert (redis["unanswered"], redis["given_up"]) == (3, 1)
    assert stress["work_ratio"] == 0.75
    assert stress["ipc_ratio"] is None
    assert stress["lateness_p99_ms"] is None
    assert found["phases"]["unmanaged"]["e_s"] == pytest.approx(0.8)
    assert found["convergence_s"] == 1.0
    json.dumps(found)


def test_targets_missed_without_the_job_are_named(phases: list[LivePhase]) -> None:
    settings = LiveSettings(Path("x"), loads=(LcLoad("redis", 900, 6.0, 3), LcLoad("nginx", 400, 10.0, 3)))
    found = summarise(settings, "cgroup v1", phases, BASELINE | {"ideal_ms": {"redis": 1.0, "nginx": 43.0}})
    assert found["baseline"]["missed_alone"] == ["nginx"]


def test_allocations_are_listed_when_they_change(phases: list[LivePhase]) -> None:
    rows = summarise(LiveSettings(Path("x")), "cgroup v1", phases, BASELINE)["allocations"]
    assert [(row["phase"], row["t_s"]) for row in rows] == [("unmanaged", 0.0), ("managed", 0.0), ("managed", 1.0)]
    assert rows[2]["services"]["redis"]["cpu_quota"] == 2.0


def test_traces_have_a_row_for_each_service_and_interval(phases: list[LivePhase], tmp_path: Path) -> None:
    telemetry = tmp_path / "telemetry"
    telemetry.mkdir()
    line = {"t": 1.0, "p99_ms": 3.0, "samples": 900, "lateness_p99_ms": 0.04, "errors": 2, "offered_per_s": 900.0}
    half = '{"t": 2.0, "p99_'
    (telemetry / "redis.jsonl").write_text(json.dumps(line | {"waiting": 1, "new": "key"}) + "\n" + half)
    summary = summarise(LiveSettings(Path("x")), "cgroup v1", phases, BASELINE)
    write_traces(tmp_path / "traces.parquet", phases, telemetry, summary)
    table = pq.read_table(tmp_path / "traces.parquet")
    assert table.num_rows == 2 * 32
    assert table.column_names == [column.name for column in COLUMNS]
    metadata = table.schema.metadata
    assert metadata[b"osml.schema"] == b"osml/traces/v1"
    assert json.loads(metadata[b"osml.provenance"])["work_rate_unit"] == "cpu-seconds/s"
    rows = table.to_pylist()
    redis = [row for row in rows if row["service"] == "redis" and row["phase"] == "managed"]
    assert redis[0]["lateness_p99_ms"] is None  # 50 ms is in no line of the generator
    assert (redis[1]["lateness_p99_ms"], redis[1]["errors"]) == (0.04, 2)
    assert (redis[0]["cpu_quota"], redis[1]["cpu_quota"]) == (None, 2.0)
    stress = [row for row in rows if row["service"] == "stress"]
    assert all(row["p99_ms"] is None and row["percentile"] is None for row in stress)
    assert pq.ParquetFile(tmp_path / "traces.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_published_schema_is_the_one_that_is_written() -> None:
    assert json.loads((ROOT / "data/observation.schema.json").read_text()) == document()


def test_columns_cover_every_measurement() -> None:
    names = {column.name for column in COLUMNS}
    for struct in (Latency, Counters):
        assert set(struct.__struct_fields__) <= names
    assert set(Assignment.__struct_fields__) <= names


def test_agent_configuration_names_what_was_measured_alone() -> None:
    loads = (LcLoad("redis", 900, 6.0, 3), LcLoad("nginx", 400, 10.0, 2))
    ideal = {"redis": 1.25, "nginx": 12.0}
    text = agent_config("arq", "http://127.0.0.1:1", Path("/s"), Path("/t"), loads, ideal, 1.98761, "0-1")
    config = yaml.safe_load(text)
    redis, nginx, stress = config["services"]
    assert redis["match"] == {"cgroup": "osml-live/redis"}
    assert redis["latency"]["file"] == "/t/redis.jsonl"
    assert redis["ideal_ms"] == 1.25
    assert redis["limits"] == {"min_cores": 3}
    assert config["cpu"]["cpus"] == "0-1"
    assert "ideal_ms" not in nginx  # slower than its target even alone: nothing ideal about it
    assert (stress["class"], stress["work_rate_solo"]) == ("be", 1.9876)


def test_generator_cost_is_a_share_of_one_cpu() -> None:
    before = {"t": 10.0, "cpu_s": 1.0, "scheduling": "fifo"}
    assert generator_cost(before, {"t": 20.0, "cpu_s": 2.5, "scheduling": "fifo"}) == GeneratorCost(15.0, "fifo")
