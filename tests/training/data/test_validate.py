"""Bad data sets: every fault is found, with the place where it is; good ones have none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osml.base.failure import InputError

store = pytest.importorskip("osml.datasets.store")
validating = pytest.importorskip("osml.datasets.validate")
collecting = pytest.importorskip("osml_training.collect.collect")
columns = pytest.importorskip("osml.datasets.checks.columns")
contribute = pytest.importorskip("osml.datasets.contribute")
finding = pytest.importorskip("osml.datasets.checks.finding")
duplicates = pytest.importorskip("osml.datasets.checks.duplicates")
surfaces = pytest.importorskip("osml.datasets.surfaces")
personal = pytest.importorskip("osml.datasets.checks.personal")

Rewrite = Callable[..., None]


@dataclass
class Spoiled:
    """What the report says of a data set with one fault."""

    report: Any

    def one(self, severity: str, column: str | None, text: str) -> Any:
        """The finding with this text; an assertion that names all others where it is missing."""
        for found in self.report.findings:
            if (found.severity, found.column) == (severity, column) and text in found.message:
                return found
        raise AssertionError([(f.severity, f.column, f.message) for f in self.report.findings])


def check(path: Path) -> Spoiled:
    return Spoiled(validating.validate(path))


def test_good_data_set_has_no_finding(made: Path) -> None:
    report = validating.validate(made)
    assert report.findings == []
    assert report.accepted
    assert report.rows == pq.read_table(made / "traces", partitioning=None).num_rows
    assert report.runs > 0


def test_one_file_can_be_checked_alone(made: Path) -> None:
    file = next((made / "traces").rglob("*.parquet"))
    report = validating.validate(file)
    assert report.accepted
    assert report.rows == pq.read_metadata(file).num_rows


SCALED = [
    ("rss_mib", 2.0**20, "is the unit bytes?"),
    ("rss_mib", 1024.0, "is the unit KiB?"),
    ("frequency_ghz", 1000.0, "is the unit MHz?"),
    ("cpu_usage_cores", 100.0, "is the unit percent?"),
    ("bandwidth_gbps", 1e9, "is the unit bytes/s?"),
    ("cache_mib", 2.0**20, "is the unit bytes?"),
]


@pytest.mark.parametrize(("column", "factor", "hint"), SCALED)
def test_wrong_units_are_found_and_guessed(
    dataset: Path, traces: Path, rewrite: Rewrite, column: str, factor: float, hint: str
) -> None:
    rewrite(traces, lambda columns: columns.__setitem__(column, [v * factor for v in columns[column]]))
    found = check(dataset)
    assert not found.report.accepted
    place = found.one("error", column, hint)
    assert place.file == traces.relative_to(dataset).as_posix()
    assert place.row_group == 0


def test_all_units_that_a_number_may_be_in_are_named() -> None:
    assert columns.unit_hint("rss_mib", 3e9, 0.0, 3e7) == "; is the unit KiB or bytes?"
    assert columns.unit_hint("rss_mib", 6e12, 0.0, 3e7) == "; is the unit bytes?"
    assert columns.unit_hint("rss_mib", 1e15, 0.0, 3e7) == ""


def test_wrong_unit_in_the_metadata_is_found(dataset: Path, traces: Path) -> None:
    table = pq.ParquetFile(traces).read()
    at = table.column_names.index("rss_mib")
    field = table.schema.field(at).with_metadata({"unit": "KiB"})
    pq.write_table(table.cast(table.schema.set(at, field)), traces)
    check(dataset).one("error", "rss_mib", "unit is 'KiB', expected 'MiB'")


def test_truncated_file_is_one_finding_and_the_rest_is_checked(dataset: Path, traces: Path) -> None:
    rows = validating.validate(dataset).rows - pq.read_metadata(traces).num_rows
    traces.write_bytes(traces.read_bytes()[:-300])
    found = check(dataset)
    place = found.one("error", None, "not readable as Parquet, possibly truncated")
    assert place.file == traces.relative_to(dataset).as_posix()
    assert found.report.rows == rows


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "rows are 0, expected null"), (1.7, "rows are 1.7 for all allocations: constant sensor")]
)
def test_column_of_constants_is_found(dataset: Path, traces: Path, rewrite: Rewrite, value: float, text: str) -> None:
    rewrite(traces, lambda columns: columns.__setitem__("ipc", [value] * len(columns["ipc"])))
    check(dataset).one("error", "ipc", text)


def test_constant_latencies_that_no_target_speaks_of_are_a_warning(
    dataset: Path, traces: Path, rewrite: Rewrite
) -> None:
    rewrite(traces, lambda columns: columns.__setitem__("p50_ms", [min(columns["p50_ms"])] * len(columns["run"])))
    found = check(dataset)
    found.one("warning", "p50_ms", "for all allocations: is the histogram too coarse?")
    assert found.report.accepted


def test_column_that_was_never_measured_is_fine(dataset: Path, rewrite: Rewrite) -> None:
    for file in (dataset / "traces").rglob("*.parquet"):
        for name in ("ipc", "llc_misses_per_s", "bandwidth_gbps", "neighbour_bandwidth_gbps"):
            rewrite(file, lambda columns, name=name: columns.__setitem__(name, [None] * len(columns[name])))
    for file in (dataset / "labels").rglob("*.parquet"):
        rewrite(file, lambda columns: columns.__setitem__("oaa_bandwidth_gbps", [None] * len(columns["run"])))
    assert validating.validate(dataset).accepted


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_found(dataset: Path, traces: Path, rewrite: Rewrite, value: float) -> None:
    rewrite(traces, lambda columns: columns["p99_ms"].__setitem__(450, value))
    assert check(dataset).one("error", "p99_ms", "expected a number, or null").row_group == 0


def test_nan_labels_are_found(dataset: Path, rewrite: Rewrite) -> None:
    file = next((dataset / "labels").rglob("*.parquet"))
    rewrite(file, lambda columns: columns["oaa_cores"].__setitem__(0, float("nan")))
    place = check(dataset).one("error", "oaa_cores", "1 rows are nan")
    assert place.file == file.relative_to(dataset).as_posix()


def test_labels_that_their_traces_do_not_give_are_found(dataset: Path, rewrite: Rewrite) -> None:
    file = next((dataset / "labels").rglob("*.parquet"))

    def shift(columns: dict[str, Any]) -> None:
        columns["oaa_cores"] = [None if v is None else v + 1 for v in columns["oaa_cores"]]

    rewrite(file, shift)
    check(dataset).one("error", "oaa_cores", "run `osml learn data label` again")


def _scaled(value: Any) -> Any:
    if isinstance(value, list):
        return [100 * one for one in value]
    return value if value is None else value * 0.5


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("latency_ms", _scaled),
        ("latency_ms", lambda value: value[:-1]),
        ("oaa_bandwidth_gbps", _scaled),
        ("target_ms", _scaled),
        ("load", _scaled),
        ("core_unit", _scaled),
        ("spread", _scaled),
        ("threads", lambda value: value + 1),
        ("neighbours", lambda value: value + 1),
        ("grid_cores", lambda value: value + 1),
        ("percentile", lambda _: "mean"),
        ("cliff_kind", lambda _: "x" * 1000),
        ("slowdowns", lambda value: value[:-1]),
    ],
)
def test_no_column_of_the_labels_may_differ_from_what_the_traces_give(
    dataset: Path, rewrite: Rewrite, column: str, change: Callable[[Any], Any]
) -> None:
    file = next((dataset / "labels").rglob("*.parquet"))
    rewrite(file, lambda columns: columns.__setitem__(column, [change(v) for v in columns[column]]))
    found = check(dataset)
    named = "b_points" if column == "slowdowns" else column  # fewer slowdowns are a choice, their points must fit
    assert len(found.one("error", named, "run `osml learn data label` again").message) < 300


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("labelling", "whatever", "labelling is 'whatever', expected one of frontier, reference"),
        ("slowdowns", [-5.0, 0.25], "slowdowns are [-5.0, 0.25], expected shares above 0"),
        ("slowdowns", [], "expected shares above 0"),
        ("slowdowns", [None], "expected shares above 0"),
        ("slowdowns", [0.1] * 1000, "1000 slowdowns, expected at most 100"),
    ],
)
def test_labels_by_no_known_rule_are_found(dataset: Path, rewrite: Rewrite, column: str, value: Any, text: str) -> None:
    file = next((dataset / "labels").rglob("*.parquet"))
    rewrite(file, lambda columns: columns.__setitem__(column, [value] * len(columns[column])))
    check(dataset).one("error", column, text)


def test_service_with_one_load_is_a_warning(dataset: Path, rewrite: Rewrite) -> None:
    def flatten(columns: dict[str, Any]) -> None:
        columns["offered_per_s"] = [500.0] * len(columns["run"])

    for file in (dataset / "traces").rglob("*service=moses*/*.parquet"):
        rewrite(file, flatten)
    found = check(dataset)
    found.one("warning", "offered_per_s", "service 'moses' on 'e5-2630v4' has only one load (500/s)")


@pytest.mark.parametrize(
    ("change", "column", "text"),
    [
        ({"logical_cpus": 4}, "cores", "rows are above the CPUs of the platform, such as 10 above 4"),
        ({"llc_ways": 8, "llc_mib": 10.0}, "ways", "rows are above the ways of the platform, such as 20 above 8"),
        ({"way_mib": 2.0, "llc_mib": 40.0}, "cache_mib", "rows are not ways x way_mib"),
        ({"turbo_ghz": 1.2}, "frequency_ghz", "turbo"),
        ({"llc_mib": 70.0}, None, "20 ways of 1.25 MiB are 25 MiB, but llc_mib is 70"),
        ({"physical_cores": 20}, None, "10 logical CPUs on 20 cores"),
    ],
)
def test_description_that_contradicts_the_traces_is_found(
    dataset: Path, traces: Path, rewrite: Rewrite, change: dict[str, Any], column: str | None, text: str
) -> None:
    platform = json.loads(pq.read_schema(traces).metadata[b"osml.platform"])
    rewrite(traces, osml_platform=json.dumps(platform | change))
    found = check(dataset)
    assert not found.report.accepted
    found.one("error", column, text)
    assert not any("is the unit" in finding.message for finding in found.report.findings)  # the unit is right


@pytest.mark.parametrize(
    ("platform", "settings", "text"),
    [
        ({"logical_cpus": 10**9}, {}, "Expected `int` <= 4096 - at `$.logical_cpus`"),
        ({"logical_cpus": 0}, {}, "Expected `int` >= 1 - at `$.logical_cpus`"),
        ({"llc_ways": 10**6}, {}, "Expected `int` <= 64 - at `$.llc_ways`"),
        ({"cpu_model": "x" * 10**6}, {}, "Expected `str` of length <= 256 - at `$.cpu_model`"),
        ({}, {"core_quantum": 1e-15}, "core_quantum is 1e-15, expected logical CPUs from 0.001 to 1"),
        ({}, {"core_quantum": -(10**400)}, "expected logical CPUs from 0.001 to 1"),
        ({}, {"core_quantum": "small"}, "core_quantum is small, expected logical CPUs"),
        ({"logical_cpus": 4096}, {"core_quantum": 1e-3}, "81920000 cells, expected at most 1000000"),
    ],
)
def test_a_description_of_an_impossible_machine_takes_no_memory(
    dataset: Path, traces: Path, rewrite: Rewrite, platform: dict[str, Any], settings: dict[str, Any], text: str
) -> None:
    metadata = pq.read_schema(traces).metadata
    provenance = json.loads(metadata[b"osml.provenance"])
    provenance["settings"] |= settings
    rewrite(
        traces,
        osml_platform=json.dumps(json.loads(metadata[b"osml.platform"]) | platform),
        osml_provenance=json.dumps(provenance),
    )
    check(dataset).one("error", None, text)
    with pytest.raises(InputError, match=re.escape(text)):
        list(surfaces.surfaces_of(traces))


def test_the_grids_of_all_runs_of_a_file_are_bounded(
    dataset: Path, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surfaces, "MAX_FILE_CELLS", 500)  # two runs of 200 cells fit
    check(dataset).one("error", None, "more than 2 runs on a grid of 10 x 20 cells in one file")


def test_labels_of_traces_that_are_wrong_are_not_said_to_be_wrong(
    dataset: Path, traces: Path, rewrite: Rewrite
) -> None:
    rewrite(traces, lambda columns: columns["ipc"].__setitem__(3, float("nan")))
    found = check(dataset)
    found.one("error", "ipc", "1 rows are nan")
    found.one("note", None, "labels not compared with the traces, because the traces have errors")
    assert len(found.report.findings) == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"platforms": []}, "platform 'e5-2630v4' is missing in dataset.json"),
        ({"licence": "CC0-1.0"}, "licence is 'CDLA-Permissive-2.0' in this file, but 'CC0-1.0' in dataset.json"),
        ({"kind": "real"}, "provenance is 'virtual' in this file, but 'real' in dataset.json"),
    ],
)
def test_a_data_set_that_says_something_else_than_its_files_is_found(
    dataset: Path, change: dict[str, Any], text: str
) -> None:
    about = json.loads((dataset / "dataset.json").read_text("utf-8"))
    about["provenance"] |= {key: value for key, value in change.items() if key == "kind"}
    about |= {key: value for key, value in change.items() if key != "kind"}
    (dataset / "dataset.json").write_text(json.dumps(about), "utf-8")
    check(dataset).one("error", None, text)


def test_rows_of_another_service_than_their_folder_says_are_found(
    dataset: Path, traces: Path, rewrite: Rewrite
) -> None:
    rewrite(traces, lambda columns: columns.__setitem__("service", ["moses2"] * len(columns["service"])))
    found = check(dataset)
    found.one("error", "service", "rows of 'moses2' in the folder of 'moses'")


def test_labels_that_belong_to_no_traces_are_found(dataset: Path, traces: Path) -> None:
    (dataset / "labels" / traces.relative_to(dataset / "traces")).with_name("more.parquet").write_bytes(b"garbage")
    check(dataset).one("error", None, "labels without a traces file of the same name")


def test_labels_of_another_folder_are_said_not_to_be_handed_on(dataset: Path) -> None:
    (dataset / "labels").rename(dataset / "labels-reference")
    check(dataset).one("warning", None, "not a file of a data set; the package leaves it out")


def test_a_row_group_without_rows_is_found(dataset: Path, traces: Path) -> None:
    table = pq.ParquetFile(traces).read()
    pq.write_table(table.slice(0, 0), traces)
    check(dataset).one("warning", None, "row group without rows")


def test_a_data_set_that_describes_another_machine_than_its_files_is_found(dataset: Path, traces: Path) -> None:
    about = json.loads((dataset / "dataset.json").read_text("utf-8"))
    about["platforms"][0]["logical_cpus"] = 8
    (dataset / "dataset.json").write_text(json.dumps(about), "utf-8")
    found = check(dataset).one("error", None, "logical_cpus of 'e5-2630v4' is 10 in this file, but 8 in dataset.json")
    assert found.file == traces.relative_to(dataset).as_posix()


def test_rows_of_another_platform_are_found(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    rewrite(traces, lambda columns: columns["platform"].__setitem__(5, "gold-6338"))
    check(dataset).one("error", "platform", "rows of 'gold-6338' in a file described as 'e5-2630v4'")


def test_cores_turned_around_are_no_surface(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    def turn(columns: dict[str, Any]) -> None:
        columns["cores"] = [
            11 - cores - (n or 0) for cores, n in zip(columns["cores"], columns["neighbours"], strict=True)
        ]
        columns["cpu_usage_cores"] = [None] * len(columns["cores"])

    rewrite(traces, turn)
    found = check(dataset)
    assert not found.report.accepted
    found.one("error", "p95_ms", "check the order of cores, ways and latencies")


def _every_second(other: Any) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [other(v) if k % 2 else v for k, v in enumerate(values)]


@pytest.mark.parametrize(
    ("column", "other", "text"),
    [
        ("target_ms", lambda v: 50 * v, "expected one value in a run"),
        ("target_ms", lambda _: None, "and null, expected one value in a run"),
        ("percentile", lambda _: "p50", "has p95 and p50, expected one value in a run"),
        ("load", lambda _: 1.0, "and 1.0, expected one value in a run"),
        ("threads", lambda v: v + 1, "expected one value in a run"),
        ("neighbours", lambda v: v + 1, "expected one value in a run"),
        ("offered_per_s", lambda v: 100 * v, "expected one load in a run"),
    ],
)
def test_rows_of_a_run_that_contradict_each_other_are_found(
    dataset: Path, traces: Path, rewrite: Rewrite, column: str, other: Any, text: str
) -> None:
    rewrite(traces, lambda columns: columns.__setitem__(column, _every_second(other)(columns[column])))
    found = check(dataset)
    assert any(text in finding.message for finding in found.report.findings if finding.severity == "error"), [
        finding.message for finding in found.report.findings
    ]


def test_ways_of_a_run_are_all_known_or_none(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    def forget(columns: dict[str, Any]) -> None:
        columns["ways"] = [None if ways == 3 else ways for ways in columns["ways"]]

    rewrite(traces, forget)
    check(dataset).one("error", None, "has numbers and null, expected either in all rows of a run")


def test_rates_of_a_run_may_differ_by_chance(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    rewrite(
        traces,
        lambda columns: columns.__setitem__(
            "offered_per_s", _every_second(lambda v: 1.1 * v)(columns["offered_per_s"])
        ),
    )
    assert validating.validate(dataset).accepted


def test_a_run_in_which_nothing_was_answered_is_a_warning(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    def silence(columns: dict[str, Any]) -> None:
        for name in ("mean_ms", "p50_ms", "p95_ms", "p99_ms"):
            columns[name] = [None] * len(columns[name])

    rewrite(traces, silence)
    check(dataset).one("warning", "p95_ms", "no interval has a latency, so it says nothing of any cell")


def test_percentiles_out_of_order_are_found(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    def swap(columns: dict[str, Any]) -> None:
        columns["p50_ms"], columns["p99_ms"] = columns["p99_ms"], columns["p50_ms"]

    rewrite(traces, swap)
    check(dataset).one("error", "p95_ms", "rows are above the p99_ms")


def test_a_row_that_is_there_twice_is_found(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    def double(columns: dict[str, Any]) -> None:
        for values in columns.values():
            values[100] = values[99]

    rewrite(traces, double)
    check(dataset).one("error", "sample", "1 rows repeat the run, allocation and sample of another row")


def test_a_row_that_is_there_twice_is_found_in_another_row_group(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    def double(columns: dict[str, Any]) -> None:
        shifted = {"p99_ms", "p95_ms", "mean_ms", "ipc"}  # measured again, under the number of the first sample
        for name, values in columns.items():
            values += [v * 1.001 if name in shifted else v for v in values]

    rewrite(traces, double)
    table = pq.ParquetFile(traces).read()
    pq.write_table(table, traces, row_group_size=len(table) // 2)
    place = check(dataset).one("error", "sample", f"{len(table) // 2} rows repeat the run, allocation and sample")
    assert place.row_group == 1


def test_copies_under_another_run_leak_between_splits(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    copy = traces.with_name("part-00009.parquet")
    copy.write_bytes(traces.read_bytes())
    rewrite(copy, lambda columns: columns.__setitem__("run", [f"z{run}" for run in columns["run"]]))
    found = check(dataset)
    assert found.one("error", None, "copies leak between splits, keep one of each").file.endswith("part-00009.parquet")


def test_a_run_in_two_files_is_found(dataset: Path, traces: Path) -> None:
    traces.with_name("part-00009.parquet").write_bytes(traces.read_bytes())
    check(dataset).one("error", "run", "a split by files or runs would leak")


def test_traces_outside_of_the_folders_that_say_whose_they_are(dataset: Path, traces: Path) -> None:
    traces.rename(dataset / "traces" / "loose.parquet")
    assert check(dataset).one("error", None, "platform and service are unknown").file == "traces/loose.parquet"
    with pytest.raises(InputError, match=r"loose\.parquet: platform and service are unknown, expected traces/pl"):
        store.trace_files(dataset)


def test_samples_without_noise_are_equal_and_only_a_warning(tmp_path: Path, small_sweep: Callable[..., Any]) -> None:
    collecting.collect(tmp_path / "set", small_sweep(noise=False))
    found = check(tmp_path / "set")
    assert found.report.accepted
    found.one("warning", None, "as in data without measurement noise: keep one sample per cell")


def test_one_file_alone_is_held_against_its_folders_too(traces: Path) -> None:
    folder = traces.parent.parent.with_name("platform=gold-6338") / "service=silo"
    folder.mkdir(parents=True)
    moved = traces.rename(folder / traces.name)
    check(moved).one("error", "platform", "the folder has platform gold-6338, the description has e5-2630v4")
    check(moved).one("error", "service", "in the folder of 'silo'")


def test_services_that_nobody_has_confined_share_the_machine(tmp_path: Path, small_sweep: Callable[..., Any]) -> None:
    collecting.collect(tmp_path / "set", small_sweep(unconfined=20, samples=1))
    assert check(tmp_path / "set").report.findings == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("jane.doe@example.com", "e-mail"),
        ("node 10.1.2.3", "IP address"),
        ("node 5.1.2.3", "IP address"),
        ("2001:db8:0:1:2:3:4:5", "IPv6"),
        ("fe80::1", "IPv6"),
        ("on 2001:DB8::a1", "IPv6"),
        ("00:1b:44:11:3a:b7", "MAC"),
        ("/home/jane/traces", "home folder"),
        ("rack7.dc1.corp", "host name"),
        ("DB1.Corp.Example.COM", "host name"),
        ("user=jane", "user name"),
    ],
)
def test_personal_data_in_names_are_found(text: str, what: str) -> None:
    assert any(what in kind for kind, _ in personal.suspects(text))


@pytest.mark.parametrize(
    "text",
    [
        "moses=0.4,be:stream",
        "e5-2697v4",
        "Intel Xeon E5-2697 v4",
        "5.10.0-28-amd64",
        "0.1.0",
        "std::accumulate",
    ],
)
def test_ordinary_names_are_nobodys(text: str) -> None:
    assert list(personal.suspects(text)) == []


def _of_machine(dataset: Path, rewrite: Rewrite, **changes: str) -> None:
    """Let all files of a data set describe their machine so."""
    about = json.loads((dataset / "dataset.json").read_text())
    about["platforms"][0] |= changes
    (dataset / "dataset.json").write_text(json.dumps(about))
    for file in dataset.rglob("*.parquet"):
        platform = json.loads(pq.read_schema(file).metadata[b"osml.platform"])
        rewrite(file, osml_platform=json.dumps(platform | changes))


@pytest.mark.parametrize(
    "kernel",
    [
        "5.15.153.1-microsoft-standard-WSL2",
        "5.15.0-205.149.5.1.el9uek.aarch64",
        "6.12.0-1.23.3.2.el10uek.x86_64",
        "5.10.0-136.12.0.86.oe2203sp1.x86_64",
    ],
)
def test_a_kernel_of_four_numbers_is_no_address(dataset: Path, rewrite: Rewrite, kernel: str) -> None:
    _of_machine(dataset, rewrite, kernel=kernel)
    assert validating.validate(dataset).findings == []


def test_a_kernel_that_names_somebody_is_found(dataset: Path, rewrite: Rewrite) -> None:
    _of_machine(dataset, rewrite, kernel="6.1.0 jane@corp.example.com")
    check(dataset).one("error", None, "looks like an e-mail address")


def test_a_report_quotes_a_part_of_a_long_text(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    """A megabyte of one letter is a few bytes of a package."""

    def spoil(columns: dict[str, Any]) -> None:
        for name in ("platform", "run", "percentile"):
            columns[name][0] = "a" * 2_000_000
        columns["b" * 2_000_000] = [0.0] * len(columns["run"])

    rewrite(traces, spoil)
    report = validating.validate(dataset)
    assert {found.message.split(" ")[0] for found in report.findings} >= {"rows", "unknown"}
    assert not report.accepted
    assert len(msgspec.json.encode(finding.document(report))) < 2**20


def test_long_texts_are_searched_in_proportion_to_their_length() -> None:
    for text in ("a" * 10**5, "a." * 10**5, "a-" * 10**5, "a:" * 10**5, "1." * 10**5):
        assert list(personal.suspects(text)) == []  # with a second start at each character it took minutes
    place = validating.Place("f")
    assert "expected at most 10000" in next(personal.check_text("a" * 10**6, None, place)).message


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about["provenance"].__setitem__("notes", ["measured by jane@corp.example.com"]),
        lambda about: about["provenance"]["settings"].__setitem__("who", [{"at": "jane@corp.example.com"}]),
        lambda about: about["provenance"]["settings"].__setitem__("jane@corp.example.com", 1),
        lambda about: about["platforms"][0].__setitem__("hypervisor", "kvm of jane@corp.example.com"),
        lambda about: about.__setitem__("contributor", "jane@corp.example.com"),
    ],
)
def test_personal_data_anywhere_in_the_description_are_found(
    dataset: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    about = json.loads((dataset / "dataset.json").read_text())
    change(about)
    (dataset / "dataset.json").write_text(json.dumps(about))
    place = check(dataset).one("error", None, "'jane@corp.example.com' looks like an e-mail address")
    assert place.file == "dataset.json"


@pytest.mark.parametrize("part", ["traces", "labels"])
def test_personal_data_in_the_metadata_of_a_file_are_found(dataset: Path, rewrite: Rewrite, part: str) -> None:
    file = next((dataset / part).rglob("*.parquet"))
    rewrite(file, author="jane@corp.example.com")
    table = pq.ParquetFile(file).read()
    field = table.schema.field("run").with_metadata({"comment": "of host rack7.corp"})
    pq.write_table(table.cast(table.schema.set(table.column_names.index("run"), field)), file)
    found = check(dataset)
    whose = found.one("error", None, "'jane@corp.example.com' looks like an e-mail address")
    assert whose.file == file.relative_to(dataset).as_posix()
    found.one("error", "run", "'rack7.corp' looks like a host name")


def test_personal_data_in_the_provenance_of_labels_are_found(dataset: Path, rewrite: Rewrite) -> None:
    file = next((dataset / "labels").rglob("*.parquet"))
    provenance = json.loads(pq.read_schema(file).metadata[b"osml.provenance"])
    rewrite(file, osml_provenance=json.dumps(provenance | {"notes": ["by jane@corp.example.com"]}))
    check(dataset).one("error", None, "'jane@corp.example.com' looks like an e-mail address")


def test_keys_that_nobody_reads_are_found_in_the_description(dataset: Path) -> None:
    about = json.loads((dataset / "dataset.json").read_text())
    (dataset / "dataset.json").write_text(json.dumps(about | {"author": "jane@corp.example.com"}))
    check(dataset).one("error", None, "Object contains unknown field `author`")


@pytest.mark.parametrize("host", ["moses", "xapian", "img-dnn", "traces", "e5-2630v4", "p99_ms", "ip"])
def test_a_machine_that_is_called_like_a_word_of_the_data_is_not_named_by_it(
    made: Path, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr("platform.node", lambda: host)
    assert validating.validate(made).findings == []


def test_a_machine_that_is_called_like_a_word_of_its_cpu_is_not_named_by_it(
    dataset: Path, rewrite: Rewrite, monkeypatch: pytest.MonkeyPatch
) -> None:
    _of_machine(dataset, rewrite, cpu_model="AMD EPYC 7543 32-Core Processor")
    monkeypatch.setattr("platform.node", lambda: "epyc.example")
    assert validating.validate(dataset).findings == []
    about = json.loads((dataset / "dataset.json").read_text())
    (dataset / "dataset.json").write_text(json.dumps(about | {"description": "taken on epyc.example"}))
    check(dataset).one("error", None, "'epyc.example' looks like this machine's name")


def test_the_name_of_this_machine_in_data_of_others_says_nothing(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.node", lambda: "rack7.example")
    about = json.loads((dataset / "dataset.json").read_text())
    (dataset / "dataset.json").write_text(json.dumps(about | {"description": "rack7.example had two of RACK7"}))
    assert validating.validate(dataset, made_here=False).findings == []
    assert not validating.validate(dataset).accepted


def test_the_name_of_this_machine_is_found_in_a_description(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.node", lambda: "Rack7.example")
    about = json.loads((dataset / "dataset.json").read_text())
    (dataset / "dataset.json").write_text(json.dumps(about | {"description": "taken on RACK7, at night"}))
    check(dataset).one("error", None, "'rack7' looks like this machine's name")


def test_personal_data_in_rows_and_descriptions_are_located(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    rewrite(traces, lambda columns: columns["neighbour_names"].__setitem__(0, "jane@example.com"))
    about = json.loads((dataset / "dataset.json").read_text())
    (dataset / "dataset.json").write_text(json.dumps(about | {"description": "taken on 192.168.0.7."}))
    found = check(dataset)
    assert found.one("error", "neighbour_names", "'jane@example.com' looks like an e-mail").row_group == 0
    assert found.one("error", None, "'192.168.0.7' looks like an IP address").file == "dataset.json"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("osml_licence", "Proprietary", "licence is 'Proprietary', expected one of"),
        ("osml_schema", "osml/cases/v0", "osml.schema is 'osml/cases/v0'"),
        ("osml_provenance", "{", "metadata can't be read"),
        ("osml_platform", '{"id": "x", "hostname": "y"}', "metadata can't be read"),
    ],
)
def test_wrong_metadata_are_found(
    dataset: Path, traces: Path, rewrite: Rewrite, key: str, value: str, text: str
) -> None:
    rewrite(traces, **{key: value})
    check(dataset).one("error", None, text)


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("run", 7, "type is int64, expected string"),
        ("neighbour_names", 7, "type is int64, expected string"),
        ("cores", "many", "type is string, expected float"),
        ("sample", [1], "type is list<"),
    ],
)
def test_columns_of_another_type_are_one_finding(
    dataset: Path, traces: Path, column: str, value: Any, text: str
) -> None:
    table = pq.ParquetFile(traces).read()
    other = pa.array([value] * len(table))
    pq.write_table(table.set_column(table.column_names.index(column), column, other), traces)
    check(dataset).one("error", column, text)


def test_labels_of_another_type_are_one_finding(dataset: Path) -> None:
    file = next((dataset / "labels").rglob("*.parquet"))
    table = pq.ParquetFile(file).read()
    at = table.column_names.index("oaa_cores")
    pq.write_table(table.set_column(at, "oaa_cores", pa.array(["many"] * len(table))), file)
    check(dataset).one("error", "oaa_cores", "type is string, expected float")


def test_metadata_that_are_no_text_are_no_traceback(dataset: Path, traces: Path) -> None:
    table = pq.ParquetFile(traces).read()
    pq.write_table(table.replace_schema_metadata(table.schema.metadata | {b"\xff\xfe": b"x"}), traces)
    assert check(dataset).report.accepted
    deep = b'{"kind": "real", "program": "x", "settings": {"a": ' + b"[" * 10**5 + b"]" * 10**5 + b"}}"
    pq.write_table(table.replace_schema_metadata(table.schema.metadata | {b"osml.provenance": deep}), traces)
    check(dataset).one("error", None, "metadata can't be read (maximum recursion depth")


def test_missing_unknown_and_wrong_columns_are_all_named(dataset: Path, traces: Path, rewrite: Rewrite) -> None:
    def spoil(columns: dict[str, Any]) -> None:
        del columns["ipc"]
        columns["hostname"] = ["x"] * len(columns["run"])

    rewrite(traces, spoil)
    found = check(dataset)
    found.one("error", "ipc", "column is missing, expected float")
    found.one("error", "hostname", "unknown column")


def test_strange_files_size_and_links_are_found(dataset: Path) -> None:
    (dataset / "notes.txt").write_text("hello")
    (dataset / "link").symlink_to("/etc/hostname")
    found = Spoiled(validating.validate(dataset, max_gib=1e-6))
    assert found.one("warning", None, "not a file of a data set").file == "notes.txt"
    assert found.one("error", None, "symbolic link, expected plain files").file == "link"
    found.one("error", None, "contribute one platform at a time")


def test_empty_and_missing_paths(tmp_path: Path) -> None:
    assert not validating.validate(tmp_path).accepted
    with pytest.raises(InputError, match="neither a folder nor a file"):
        validating.validate(tmp_path / "nowhere")


def test_copies_are_found_in_bounded_memory() -> None:
    known = duplicates.Duplicates(most=1000)
    rng = np.random.default_rng(0)

    def table(values: Any) -> Any:
        columns = {name: values + k for k, name in enumerate(duplicates._MEASURED)}
        size = len(values)
        return pa.table(columns | {"run": ["r"] * size, "cores": values, "ways": values, "sample": values})

    place = validating.Place("f", 0)
    seen = [rng.random(500) for _ in range(40)]
    for values in seen:
        assert not list(known.add(table(values), place, True))
    assert len(known.measured) <= 1000
    assert len(known.keys) <= 1000
    repeated = [f for values in seen for f in known.add(table(values), place, True)]
    assert any("repeat the measurements" in f.message for f in repeated)


def test_damaged_bytes_are_findings_never_a_traceback(dataset: Path, traces: Path) -> None:
    content = traces.read_bytes()
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(40):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), 20).tolist():
            damaged[place] ^= int(rng.integers(1, 256))
        traces.write_bytes(bytes(damaged))
        found += not validating.validate(traces).accepted
    assert found >= 20


def test_a_description_that_is_no_text_is_a_finding(dataset: Path) -> None:
    (dataset / "dataset.json").write_bytes(b'{"name": "\xff"}')
    assert any("dataset.json: 'utf-8' codec" in found.message for found in check(dataset).report.findings)


def test_an_error_after_many_warnings_is_kept_and_each_error_counts() -> None:
    report, place = finding.Report(), finding.Place("f")
    report.add(place.warning(None, "odd") for _ in range(finding.MOST + 5))
    assert report.accepted
    report.add(place.error(None, f"wrong {k}") for k in range(finding.MOST + 7))
    assert not report.accepted
    assert report.counts == {"warning": finding.MOST + 5, "error": finding.MOST + 7}
    kept = [found.severity for found in report.findings]
    assert (kept.count("warning"), kept.count("error")) == (finding.MOST, finding.MOST)
    assert "the data set has 1007 errors; the first: f: wrong 0" in str(contribute.refused(report))
