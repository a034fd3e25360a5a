"""The published layout, written here as it is described, read back in our units."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from osml.base.failure import InputError
from osml.simulator import catalogs

importing = pytest.importorskip("osml_training.collect.import_osml")
units = pytest.importorskip("osml_training.collect.published_units")

E5 = "e5-2697v4"
MEASURED = {  # the one published counter vector of the data set's authors, as their scripts parsed it
    "CPU_Utilization": 1410.0, "Frequency": 2608.0, "IPC": 0.83, "Misses": 1694.0, "MBL": 25273.8,
    "Virt_Memory": 540603842560.0, "Res_Memory": 19596836864.0, "Allocated_Cache": 45.0, "Allocated_Core": 36.0,
    "Latency": 6.5,
}  # fmt: skip


def write_cell(root: Path, kind: str, core: int, way: int, rows: list[dict[str, float]], rps: str = "2200") -> Path:
    folder = root / kind / "moses" / "36" / rps
    folder.mkdir(parents=True, exist_ok=True)
    names = importing.MULTIPLE if kind == "multiple" else importing.SINGLE
    file = folder / f"moses+36+{rps}+{core}+{way}"
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names)
        writer.writeheader()
        writer.writerows(rows)
    return file


def cell(core: int, way: int, **changes: float) -> dict[str, float]:
    return MEASURED | {"Allocated_Core": core + 1.0, "Allocated_Cache": 2.25 * (way + 1)} | changes


def imported(root: Path, out: Path) -> tuple[Any, list[dict[str, Any]]]:
    report = importing.import_osml(root, out, catalogs.platform(E5))
    return report, pq.read_table(out / "traces", partitioning=None).to_pylist()


def test_measured_vector_comes_out_in_our_units(tmp_path: Path) -> None:
    write_cell(tmp_path / "in", "single", 35, 19, [MEASURED])
    report, rows = imported(tmp_path / "in", tmp_path / "out")
    assert (report.rows, report.runs, report.skipped) == (1, 1, [])
    row = rows[0]
    assert (row["service"], row["threads"], row["offered_per_s"], row["neighbours"]) == ("moses", 36, 2200, 0)
    assert (row["cores"], row["ways"], row["cache_mib"]) == (36, 20, 45)
    assert row["cpu_usage_cores"] == pytest.approx(14.1)
    assert row["frequency_ghz"] == pytest.approx(2.608)
    assert row["llc_misses_per_s"] == pytest.approx(1694e3 * 10)
    assert row["bandwidth_gbps"] == pytest.approx(25273.8 * 2**20 / 1e9)
    assert row["vms_mib"] == pytest.approx(5155600 / 1024, rel=1e-5)  # top said 5155600 KiB
    assert row["rss_mib"] == pytest.approx(186890 / 1024, rel=1e-4)
    assert row["p99_ms"] == 6.5
    assert row["target_ms"] == 10.0  # the authors', not that of the virtual node
    assert row["load"] == pytest.approx(2200 / 3000)
    assert row["mean_ms"] is None  # only one latency was recorded


@given(st.integers(10 * 1024, 999_999))
def test_plain_kib_survive_but_for_the_lost_digit(kib: int) -> None:
    parsed = float(str(kib)[:-1]) * 2**20
    assert abs(units.memory_mib(np.array([parsed]), 256.0)[0] - kib / 1024) <= 9 / 1024


@given(st.integers(11, 2500))
def test_gibibytes_with_a_suffix_are_read_as_such(tenths: int) -> None:
    parsed = float(f"{tenths / 10:.1f}") * 2**20  # "12.5g" without its last character
    assert units.memory_mib(np.array([parsed]), 256.0)[0] == pytest.approx(tenths / 10 * 1024)


@pytest.mark.parametrize(
    ("column", "value", "ours"),
    [
        ("IPC", 9.17, "ipc"),
        ("MBL", 1.759218604395215e14, "bandwidth_gbps"),
        ("Misses", 645360.0, "llc_misses_per_s"),
        ("Latency", 0.0, "p99_ms"),
        ("Frequency", 0.0, "frequency_ghz"),
    ],
)
def test_values_that_cannot_be_become_null_and_are_counted(
    tmp_path: Path, column: str, value: float, ours: str
) -> None:
    write_cell(tmp_path / "in", "single", 3, 3, [cell(3, 3), cell(3, 3, **{column: value})])
    report, rows = imported(tmp_path / "in", tmp_path / "out")
    assert [row[ours] is None for row in rows] == [False, True]
    assert report.repaired[ours] == 1


def test_colocated_cases_have_the_neighbours_sums(tmp_path: Path) -> None:
    beside = {"MBL_N": 1000.0, "Allocated_Cache_N": 22.5, "Allocated_Core_N": 20.0}
    write_cell(tmp_path / "data_collection", "multiple", 5, 5, [cell(5, 5) | beside])
    write_cell(tmp_path / "data_collection", "multiple", 35, 5, [cell(35, 5) | beside])
    config = tmp_path / "data_process/configs_multiple/moses/36/2200/config.txt"
    config.parent.mkdir(parents=True)
    config.write_text("threads 16\nimg-dnn_1 2000\nimg-dnn 2000\nxapian 3600\n")  # "ads" is a service, too
    report, rows = imported(tmp_path, tmp_path / "out")
    assert len(rows) == 1
    row = rows[0]
    assert row["neighbours"] == 2
    assert row["neighbour_bandwidth_gbps"] == pytest.approx(2 * 1000 * 2**20 / 1e9)  # theirs is a mean
    assert (row["neighbour_cores"], row["neighbour_ways"], row["neighbour_cache_mib"]) == (20, 10, 22.5)
    assert row["interval_s"] == pytest.approx(0.1)
    assert [skipped.message for skipped in report.skipped] == ["all cores or all ways: no neighbour ran (quirk 8)"]


def test_unknown_number_of_neighbours_is_null_and_so_is_their_bandwidth(tmp_path: Path) -> None:
    beside = {"MBL_N": 1000.0, "Allocated_Cache_N": 22.5, "Allocated_Core_N": 20.0}
    write_cell(tmp_path / "in", "multiple", 5, 5, [cell(5, 5) | beside])
    row = imported(tmp_path / "in", tmp_path / "out")[1][0]
    assert row["neighbours"] is None
    assert row["neighbour_bandwidth_gbps"] is None


def test_columns_without_names_and_in_another_order(tmp_path: Path) -> None:
    file = write_cell(tmp_path / "in", "single", 3, 3, [])
    file.write_text(",".join(str(cell(3, 3)[name]) for name in importing.SINGLE) + "\n")
    other = write_cell(tmp_path / "in", "single", 4, 3, [])
    names = list(reversed(importing.SINGLE))
    other.write_text(",".join(["", *names]) + "\n0," + ",".join(str(cell(4, 3)[name]) for name in names) + "\n")
    rows = imported(tmp_path / "in", tmp_path / "out")[1]
    assert [(row["cores"], row["ipc"], row["p99_ms"]) for row in rows] == [
        (4, pytest.approx(0.83), 6.5),
        (5, pytest.approx(0.83), 6.5),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2,3\n", "3 columns without a header, expected 10"),
        ("", "empty, expected 10 columns"),
        ("IPC,Latency\n1,2\n", "column 'CPU_Utilization' is missing"),
        (",".join(importing.SINGLE) + "\n" + ",".join(["word"] * 10) + "\n", "a row does not have 10 numbers"),
    ],
)
def test_unreadable_cells_are_left_out_and_listed(tmp_path: Path, text: str, said: str) -> None:
    write_cell(tmp_path / "in", "single", 3, 3, [cell(3, 3)])
    write_cell(tmp_path / "in", "single", 4, 3, []).write_text(text)
    report, rows = imported(tmp_path / "in", tmp_path / "out")
    assert len(rows) == 1
    assert said in report.skipped[0].message


def test_rows_of_another_allocation_than_the_name_says_are_left_out(tmp_path: Path) -> None:
    write_cell(tmp_path / "in", "single", 3, 3, [cell(3, 3), cell(4, 3)])
    report, rows = imported(tmp_path / "in", tmp_path / "out")
    assert len(rows) == 1
    assert "1 rows have another allocation than the file name" in report.skipped[0].message


def test_thousands_in_the_names_are_1024(tmp_path: Path) -> None:
    write_cell(tmp_path / "in", "single", 3, 3, [cell(3, 3)], rps="256k")
    assert imported(tmp_path / "in", tmp_path / "out")[1][0]["offered_per_s"] == 262144


def test_another_platform_or_layout_is_refused(tmp_path: Path) -> None:
    write_cell(tmp_path / "in", "single", 35, 19, [MEASURED])
    with pytest.raises(InputError, match="cell of 36 cores and 20 ways, but e5-2630v4 has 10 and 20"):
        importing.import_osml(tmp_path / "in", tmp_path / "out", catalogs.platform("e5-2630v4"))
    with pytest.raises(InputError, match="neither single/ nor multiple/"):
        importing.import_osml(tmp_path, tmp_path / "out", catalogs.platform(E5))
    (tmp_path / "empty" / "single").mkdir(parents=True)
    with pytest.raises(InputError, match=r"contains no case, expected \{single,multiple\}/APP"):
        importing.import_osml(tmp_path / "empty", tmp_path / "out", catalogs.platform(E5))
