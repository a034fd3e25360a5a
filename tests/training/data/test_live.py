"""Live nodes: records of the agent and traces of `osml run live` become cases; what was not measured is null."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from osml.base.failure import InputError
from osml.datasets.label import label_file
from osml.datasets.store import labels_file
from osml.datasets.validate import validate
from osml.domain import (
    Assignment,
    CacheDomain,
    Counters,
    Decision,
    Latency,
    Observation,
    Partition,
    Platform,
    Region,
    Service,
)
from osml.lab.trials.live.phases import GeneratorCost, LivePhase
from osml.lab.trials.live.traces import write_traces
from osml.lab.trials.records import Record
from osml.predictors import FEATURES, feature_row

live = pytest.importorskip("osml_training.collect.live")
data = pytest.importorskip("osml_training.cli.data.app")
collecting = pytest.importorskip("osml_training.collect.collect")
machine = pytest.importorskip("osml_training.collect.machine")
description = pytest.importorskip("osml.datasets.description")


def observation(seq: int, quota: float, platform: Platform, mask: str | None = None) -> Observation:
    services = [
        Service(
            "redis", "lc", target_ms=6.0, latency=Latency(p50_ms=1.0, p99_ms=3.0, samples=900 + seq,
            requests_per_s=450.0 + seq / 2),
            counters=Counters(cpu_usage_cores=0.5, rss_mib=20.0, threads=4, llc_misses=2e6, bandwidth_gbps=1.0),
        ),
        Service("nginx", "lc", target_ms=9.0, counters=Counters(bandwidth_gbps=0.5)),
        Service("stress", "be", counters=Counters(work_rate=1.0, bandwidth_gbps=2.0)),
    ]  # fmt: skip
    assignments = [
        Assignment("redis", cpu_quota=quota, way_mask=mask),
        Assignment("nginx", cpus="0-1", cpu_quota=1.5),
    ]
    return Observation("n1", seq, float(seq), 2.0, platform, services, assignments=assignments)


PLAIN = Platform(id="vm", cores=40, cpus="0-3", core_quantum=0.1)
RDT = Platform(id="xeon", cores=4, cpus="0-3", ways=11, way_mib=2.0)


def record(path: Path, platform: Platform, quotas: list[float], mask: str | None = None) -> Path:
    lines = [
        msgspec.json.encode({"observation": observation(k, quota, platform, mask), "decision": None})
        for k, quota in enumerate(quotas)
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def rows_of(folder: Path, service: str) -> list[dict[str, Any]]:
    return [
        row for file in folder.rglob(f"service={service}/*.parquet") for row in pq.ParquetFile(file).read().to_pylist()
    ]


def test_agents_record_becomes_cases_with_nulls_for_what_a_vm_hides(tmp_path: Path) -> None:
    taken = live.take_over(tmp_path / "set", [record(tmp_path / "r", PLAIN, [1.0, 1.0, 2.0])])
    assert taken.rows == 6
    assert taken.platforms[0].logical_cpus == 4
    redis = rows_of(tmp_path / "set", "redis")
    assert [(row["cores"], row["sample"]) for row in redis] == [(1.0, 0), (1.0, 1), (2.0, 0)]
    first = redis[0]
    assert first["ways"] is None
    assert first["cache_mib"] is None
    assert first["ipc"] is None
    assert first["load"] is None
    assert (first["p99_ms"], first["requests"], first["requests_per_s"], first["threads"]) == (3.0, 900, 450.0, 4)
    assert first["llc_misses_per_s"] == 1e6  # 2e6 in two seconds
    assert (first["neighbours"], first["neighbour_names"]) == (2, "be:stress,nginx")
    assert first["neighbour_cores"] == 4.0  # nginx has a quota, stress may use all
    assert first["neighbour_bandwidth_gbps"] == 2.5
    assert first["neighbour_ways"] is None
    nginx = rows_of(tmp_path / "set", "nginx")
    assert all(row["p99_ms"] is None for row in nginx)
    assert len({row["run"] for row in redis}) == 1


def test_a_machine_has_the_hyperthreads_that_the_policies_see(tmp_path: Path) -> None:
    for siblings in ([], [[0, 2], [1, 3]], [[0], [1], [2], [3]]):
        platform = msgspec.structs.replace(PLAIN, siblings=siblings)
        file = record(tmp_path / "r", platform, [1.0])
        told = live.read_live(file).platform.smt
        seen = feature_row(observation(0, 1.0, platform), "redis", ["smt"])[0]
        assert np.array_equal(np.float32(np.nan if told is None else told), seen, equal_nan=True)


def test_ways_are_counted_where_the_cache_is_partitioned(tmp_path: Path) -> None:
    live.take_over(tmp_path / "set", [record(tmp_path / "r", RDT, [2.0], mask="7")])
    row = rows_of(tmp_path / "set", "redis")[0]
    assert (row["cores"], row["ways"], row["cache_mib"]) == (2.0, 3, 6.0)
    assert (row["neighbour_ways"], row["neighbour_cache_mib"]) == (11, 22.0)  # both may use all


LARGE = Platform(id="large", cores=36, cpus="0-35", ways=20, way_mib=2.25)
TENTHS = msgspec.structs.replace(LARGE, cores=360, core_quantum=0.1)
SHARED = {
    "read back": (
        LARGE,
        {
            "assignments": [
                Assignment("redis", cpus="0-7", way_mask="f"),
                Assignment("nginx", cpus="8-35", way_mask="ff0"),
                Assignment("stress", cpus="8-35", way_mask="ff0"),
            ]
        },
    ),
    "partition": (LARGE, {"partition": Partition([Region(["redis"], 8, 4), Region(["nginx", "stress"], 28, 8)])}),
    "quotas": (TENTHS, {"partition": Partition([Region(["redis"], 80, 4), Region(["nginx", "stress"], 280, 8)])}),
}


@pytest.mark.parametrize("how", SHARED)
def test_a_row_has_what_a_policy_sees_of_the_interval_and_shared_cpus_once(tmp_path: Path, how: str) -> None:
    platform, known = SHARED[how]
    seen = msgspec.structs.replace(observation(0, 8.0, platform), **known)
    (tmp_path / "r").write_bytes(msgspec.json.encode({"observation": seen, "decision": None}) + b"\n")
    live.take_over(tmp_path / "set", [tmp_path / "r"])
    [row] = rows_of(tmp_path / "set", "redis")
    names = sorted(row.keys() & set(FEATURES))
    found = np.array([row[name] for name in names], np.float32)  # None becomes NaN
    np.testing.assert_array_equal(found, feature_row(seen, "redis", names))
    assert (row["cores"], row["ways"], row["neighbour_cores"], row["neighbour_ways"]) == (8, 4, 28, 8)


def test_intervals_of_services_on_cache_domains_are_left_out_and_counted(tmp_path: Path) -> None:
    """The policy saw the domain of each as a node of its own; the sums of a record are those of the whole node."""
    node = msgspec.structs.replace(RDT, domains=[CacheDomain(0, "0-1"), CacheDomain(1, "2-3")], regions_in_domains=True)
    whole = [Region(["redis"], 2, 5), Region(["nginx", "stress"], 2, 6)]
    placed = [Region(["redis"], 2, 5, domain=0), Region(["nginx", "stress"], 2, 6, domain=1)]
    seen = [
        msgspec.structs.replace(observation(k, 1.0, node), partition=Partition(placed if k < 2 else whole))
        for k in range(5)
    ]
    file = tmp_path / "r.jsonl"
    file.write_bytes(b"".join(msgspec.json.encode({"observation": one, "decision": None}) + b"\n" for one in seen))
    found = CliRunner().invoke(data.app, ["collect", str(tmp_path / "set"), "--live", str(file), "--settle", "0"])
    assert found.exit_code == 0, found.output
    assert "2 with services on cache domains" in found.stdout
    assert "warning: the agent used 2 cache domains, but a row has the ways of one; set cpu.cpus" in found.stderr
    assert len(rows_of(tmp_path / "set", "redis")) == 3


def test_a_part_that_a_record_does_not_give_any_more_is_removed_with_its_labels(tmp_path: Path) -> None:
    """An older version collected intervals that are left out now: their rows would stay in labels and training."""
    file, folder = record(tmp_path / "r", PLAIN, [1.0, 2.0]), tmp_path / "set"
    live.take_over(folder, [file])
    [kept] = (folder / "traces").glob("platform=*/service=redis/*.parquet")
    old = kept.parents[1] / "service=gone" / kept.name
    old.parent.mkdir()
    old.write_bytes(kept.read_bytes())
    other = old.with_name("part-other.parquet")  # of another file
    other.write_bytes(kept.read_bytes())
    labels = labels_file(folder, old)
    labels.parent.mkdir(parents=True)
    labels.write_bytes(b"")
    (folder / "labels.tar").write_bytes(b"somebody's own copy")
    live.take_over(folder, [file])
    assert kept.exists() and other.exists()
    assert not old.exists() and not labels.exists()


def test_a_service_without_measured_neighbours_has_no_sum(tmp_path: Path) -> None:
    file = record(tmp_path / "r", PLAIN, [1.0])
    file.write_bytes(file.read_bytes().replace(b'"bandwidth_gbps":2.0', b'"bandwidth_gbps":null'))
    live.take_over(tmp_path / "set", [file])
    assert rows_of(tmp_path / "set", "redis")[0]["neighbour_bandwidth_gbps"] is None


@pytest.mark.parametrize("shared", [False, True])
def test_traces_of_osml_live_become_the_same_cases(tmp_path: Path, shared: bool) -> None:
    """Also where nginx and the job share a region: each has the quota of the whole region."""
    seen = [observation(k, quota, PLAIN) for k, quota in enumerate([1.0, 1.0, 2.0])]
    if shared:
        partition = Partition([Region(["redis"], 10), Region(["nginx", "stress"], 30)])
        given = [Assignment("redis", cpu_quota=1.0), *(Assignment(name, cpu_quota=3.0) for name in ("nginx", "stress"))]
        seen = [msgspec.structs.replace(one, partition=partition, assignments=given) for one in seen]
    decision = Decision("n1", 0, "arq", Partition([Region(["redis", "nginx", "stress"], 40)]), [])
    phase = LivePhase("managed", "arq", [Record(o, decision) for o in seen], 0, {}, GeneratorCost(1.0, "fifo"), None)
    summary = {"baseline": {"work_rate_unit": "x"}, "policy": "arq", "seed": 0, "mechanisms": [], "missing": []}
    (tmp_path / "telemetry").mkdir()
    write_traces(tmp_path / "traces.parquet", [phase], tmp_path / "telemetry", summary)
    live.take_over(tmp_path / "a", [tmp_path / "traces.parquet"])
    lines = [msgspec.json.encode({"observation": one, "decision": None}) for one in seen]
    (tmp_path / "r").write_bytes(b"\n".join(lines) + b"\n")
    live.take_over(tmp_path / "b", [tmp_path / "r"])
    one, other = rows_of(tmp_path / "a", "redis"), rows_of(tmp_path / "b", "redis")
    for row in (*one, *other):
        row.pop("run")
    assert one == other
    assert not shared or {row["neighbour_cores"] for row in one} == {3.0}


def test_what_was_simulated_says_so(tmp_path: Path) -> None:
    for simulated, kind in ((False, "real"), (True, "virtual")):
        live.take_over(tmp_path / kind, [record(tmp_path / "r", PLAIN, [1.0])], simulated=simulated)
        for file in (tmp_path / kind).rglob("*.parquet"):
            about = description.described(pq.read_schema(file).metadata, "f")
            assert about.provenance.kind == kind


def test_wrong_files_are_refused_with_a_sentence(tmp_path: Path, made: Path) -> None:
    (tmp_path / "x").write_text('{"no": "record"}\n')
    with pytest.raises(InputError, match="line 1 is not a record"):
        live.take_over(tmp_path / "set", [tmp_path / "x"])
    (tmp_path / "empty").write_text("")
    with pytest.raises(InputError, match="contains no observation, expected a record of `osml-agent run --record`"):
        live.take_over(tmp_path / "set", [tmp_path / "empty"])
    with pytest.raises(InputError, match=r"osml\.schema is"):
        live.take_over(tmp_path / "set", [next((made / "traces").rglob("*.parquet"))])
    with pytest.raises(InputError, match="can't be read"):
        live.take_over(tmp_path / "set", [tmp_path / "nowhere"])


def test_a_record_of_a_dry_run_is_no_data(tmp_path: Path) -> None:
    file = record(tmp_path / "r", PLAIN, [1.0])
    file.write_bytes(file.read_bytes().replace(b'"missing":{}', b'"missing":{"dry_run":"nothing is applied"}'))
    with pytest.raises(InputError, match="line 1 is of a dry run, whose allocations were never in force"):
        live.take_over(tmp_path / "set", [file])


def test_a_record_that_is_still_written_counts_up_to_its_last_whole_line(tmp_path: Path) -> None:
    file = record(tmp_path / "r", PLAIN, [1.0, 1.0, 2.0])
    file.write_bytes(file.read_bytes()[:-40])
    assert live.take_over(tmp_path / "set", [file, file])[0] == 4  # two services; a file given twice counts once
    file.write_bytes(b"{}\n")
    with pytest.raises(InputError, match="line 1 is not a record"):
        live.take_over(tmp_path / "other", [file])


def _labelled(folder: Path) -> list[Path]:
    """The files of two folders of labels."""
    for traces in (folder / "traces").rglob("*.parquet"):
        for labels in ("labels", "labels-reference"):
            label_file(folder, traces, labels=labels)
    return sorted(folder.glob("labels*/*/*/*.parquet"))


def test_a_record_that_grew_replaces_what_was_taken_over_of_it(tmp_path: Path) -> None:
    quotas = [1.0, 1.0, 2.0, 3.0, 1.0, 2.0]
    noon, evening = record(tmp_path / "noon", PLAIN, quotas[:3]), record(tmp_path / "evening", PLAIN, quotas)
    live.take_over(tmp_path / "set", [noon])
    live.take_over(tmp_path / "set", [evening])
    assert len(rows_of(tmp_path / "set", "redis")) == len(quotas)
    labelled = _labelled(tmp_path / "set")
    live.take_over(tmp_path / "set", [evening])  # the same again: its labels are still right
    assert all(file.exists() for file in labelled)
    evening.write_bytes(record(tmp_path / "night", PLAIN, [*quotas, 3.0]).read_bytes())
    live.take_over(tmp_path / "set", [evening])
    assert not any(file.exists() for file in labelled)
    with pytest.raises(InputError, match="begin with the same interval: give the longer one alone"):
        live.take_over(tmp_path / "other", [noon, evening])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (msgspec.structs.replace(RDT, core_quantum=1.0), "line 3 has platform xeon, the lines before have vm"),
        (msgspec.structs.replace(PLAIN, core_quantum=1.0), "line 3 has core_quantum 1.0, the lines before have 0.1"),
        (msgspec.structs.replace(PLAIN, cores=20), "line 3 has cores 20, the lines before have 40"),
        ("n2", "line 3 has node n2, the lines before have n1"),
    ],
)
def test_two_machines_in_one_record_are_refused(tmp_path: Path, change: Platform | str, text: str) -> None:
    file = record(tmp_path / "r", PLAIN, [1.0, 1.0])
    other = observation(2, 1.0, PLAIN if isinstance(change, str) else change)
    other = msgspec.structs.replace(other, node=change) if isinstance(change, str) else other
    line = msgspec.json.encode({"observation": other, "decision": None})
    file.write_bytes(file.read_bytes() + line + b"\n")
    with pytest.raises(InputError, match=f"{text}: split the file, each part is of one machine"):
        live.take_over(tmp_path / "set", [file])


def test_a_sweep_that_is_still_written_counts_up_to_its_last_whole_line(tmp_path: Path) -> None:
    cell = {"cell": [1, 1], "offered_per_s": 5.0, "intervals": [observation(0, 1.0, PLAIN)]}
    lines = [msgspec.json.encode(one) for one in ({"sweep": {"service": "redis"}, "id": "abc"}, cell, cell)]
    (tmp_path / "sweep.jsonl").write_bytes(b"\n".join([*lines[:2], lines[2][:-20]]))
    assert live.take_over(tmp_path / "set", [tmp_path / "sweep.jsonl"]).rows == 1


@pytest.mark.parametrize("name", ["../../evil", "/evil", ".hidden", "a/b", ""])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    file = record(tmp_path / "r", PLAIN, [1.0])
    file.write_bytes(file.read_bytes().replace(b'"id":"vm"', b'"id":' + json.dumps(name).encode()))
    with pytest.raises(InputError, match=r"platform is '.*', expected 1 to 63 letters"):
        live.take_over(tmp_path / "set", [file])
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_a_folder_holds_is_not_forgotten(tmp_path: Path, dataset: Path) -> None:
    one = record(tmp_path / "one", PLAIN, [1.0])
    two = record(tmp_path / "two", msgspec.structs.replace(PLAIN, id="other"), [1.0])
    for file in (one, two):
        live.describe_live(tmp_path / "mine", live.take_over(tmp_path / "mine", [file])[1])
    assert [platform.id for platform in collecting.read_description(tmp_path / "mine").platforms] == ["vm", "other"]
    before = (dataset / "dataset.json").read_bytes()
    with pytest.raises(
        InputError, match=r"contains another collection \(kind: virtual, now real\): use another folder"
    ):
        live.take_over(dataset, [one])
    assert (dataset / "dataset.json").read_bytes() == before
    assert not list(dataset.rglob("service=redis"))


def test_two_nodes_with_one_cpu_model_are_one_data_set(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    first = {"kernel": "6.1.0", "governor": "performance"}
    for name, memory_gib, told in (("a", 64.0, first), ("b", 128.0, first | {"kernel": "6.8.0"}), ("c", 64.0, first)):
        platform = msgspec.structs.replace(PLAIN, memory_gib=memory_gib)
        file = record(tmp_path / name, platform, [1.0 + len(rows_of(folder, "redis"))])
        taken = live.take_over(folder, [file], description.Fingerprint("here", logical_cpus=4, **told))
        live.describe_live(folder, taken.platforms)
    (found,) = collecting.read_description(folder).platforms
    assert (found.memory_gib, found.kernel, found.governor) == (None, None, "performance")
    report = validate(folder)
    assert report.accepted, report.first_error


def test_a_record_whose_neighbours_were_never_confined_has_nothing_to_label_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    live.describe_live(folder, live.take_over(folder, [record(tmp_path / "r", PLAIN, [1.0, 2.0])])[1])
    found = CliRunner().invoke(data.app, ["label", str(folder)], catch_exceptions=False)
    assert "no labels: in no row do the service and all its neighbours have their own cores" in found.stdout


def test_another_machine_than_the_traces_speak_of_is_refused(tmp_path: Path) -> None:
    here = description.Fingerprint("here", logical_cpus=2, cpu_model="small")
    with pytest.raises(InputError, match=r"the traces have 4 \(logical_cpus\), this machine has 2; use --here"):
        live.take_over(tmp_path / "set", [record(tmp_path / "r", PLAIN, [1.0])], here)


def test_an_agent_with_a_part_of_the_cpus_leaves_data_that_are_accepted(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    large = description.Fingerprint("here", logical_cpus=32, physical_cores=16, smt=True, cpu_model="large")
    taken = live.take_over(folder, [record(tmp_path / "r", PLAIN, [1.0, 1.0, 2.0])], large)
    live.describe_live(folder, taken.platforms)
    assert (taken.platforms[0].logical_cpus, taken.platforms[0].physical_cores) == (4, None)
    report = validate(folder)
    assert report.accepted, report.first_error


def test_a_machine_with_two_last_level_caches_has_no_size_of_one(tmp_path: Path) -> None:
    for cpu, shared in enumerate(("0-1", "0-1", "2-3", "2-3")):
        cache = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/cache/index3"
        cache.mkdir(parents=True)
        (cache / "size").write_text("36864K\n")
        (cache / "shared_cpu_list").write_text(f"{shared}\n")
    (tmp_path / "resctrl/info/L3").mkdir(parents=True)
    (tmp_path / "resctrl/info/L3/cbm_mask").write_text("fff\n")
    found = machine.this_machine("x", tmp_path / "no", tmp_path / "sys", tmp_path / "resctrl")
    assert (found.llc_mib, found.llc_ways, found.way_mib) == (None, 12, 3.0)  # occupancy is a sum over both


def test_half_lines_and_a_dry_run_before_are_left_out_and_counted(tmp_path: Path) -> None:
    file = record(tmp_path / "r", PLAIN, [1.0, 1.0, 2.0, 2.0])
    first, second, *rest = file.read_bytes().splitlines()
    watched = first.replace(b'"missing":{}', b'"missing":{"dry_run":"nothing is applied"}')
    file.write_bytes(b"\n".join([watched, second, second[:40], *rest, b""]))
    taken = live.take_over(tmp_path / "set", [file])
    assert len(rows_of(tmp_path / "set", "redis")) == 3
    assert (taken.left.only_watched, taken.left.damaged) == (1, 1)


@pytest.mark.parametrize(
    ("cpus", "driver", "expected"),
    [
        ((1800000, 2400000), "cpufreq-dt", (None, 2.4)),  # big.LITTLE: cpu0 is a small one
        ((2800000, 2800000), "acpi-cpufreq", (2.8, None)),  # its limit is without the boost of 3.7 GHz
        ((3700000, 3700000), "amd-pstate", (3.7, 3.7)),
    ],
)
def test_the_fastest_cpu_says_the_turbo_where_its_driver_knows_it(
    tmp_path: Path, cpus: tuple[int, int], driver: str, expected: tuple[float | None, float | None]
) -> None:
    cpu = tmp_path / "sys/devices/system/cpu"
    (cpu / "cpufreq").mkdir(parents=True)
    (cpu / "cpufreq/boost").write_text("1\n")
    for number, khz in enumerate(cpus):
        cpufreq = cpu / f"cpu{number}/cpufreq"
        cpufreq.mkdir(parents=True)
        (cpufreq / "scaling_driver").write_text(f"{driver}\n")
        for name in ("base_frequency", "cpuinfo_max_freq"):
            (cpufreq / name).write_text(f"{khz}\n")
    found = machine.this_machine("x", tmp_path / "no", tmp_path / "sys", tmp_path / "no")
    assert (found.base_ghz, found.turbo_ghz) == pytest.approx(expected)


def test_machine_is_described_from_proc_and_sys_without_its_name(tmp_path: Path) -> None:
    cpuinfo = (
        "processor\t: 0\nmodel name\t: Xeon Test\nstepping\t: 1\nmicrocode\t: 0xb000\nsiblings\t: 4\ncpu cores\t: 2\n"
        "flags\t\t: fpu hypervisor\n\n"
    )
    files = {
        "proc/cpuinfo": cpuinfo + "processor\t: 1\n\nprocessor\t: 2\n\nprocessor\t: 3\n\n",
        "proc/sys/kernel/osrelease": "6.1.0\n",
        "sys/devices/system/cpu/cpu0/cache/index3/size": "46080K\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/cpu0/cpufreq/base_frequency": "2300000\n",
        "resctrl/info/L3/cbm_mask": "fffff\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = machine.this_machine("x", tmp_path / "proc", tmp_path / "sys", tmp_path / "resctrl")
    assert (found.cpu_model, found.stepping, found.microcode, found.kernel) == ("Xeon Test", 1, "0xb000", "6.1.0")
    assert (found.logical_cpus, found.physical_cores, found.smt) == (4, 2, True)
    assert (found.llc_mib, found.llc_ways, found.way_mib) == (45.0, 20, 2.25)
    assert (found.governor, found.base_ghz, found.hypervisor) == ("performance", 2.3, "yes")
    empty = machine.this_machine("y", tmp_path / "no", tmp_path / "no", tmp_path / "no")
    assert empty.logical_cpus is None
    assert empty.llc_ways is None
