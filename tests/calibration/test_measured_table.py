"""Files of measurements: what is read, and what is refused in one sentence."""

import pytest

from osml.base.failure import InputError
from osml.simulator.calibration.measured import table
from osml.simulator.calibration.measured.table import Columns, completed, is_context, read_table

COLUMNS = Columns(positive=("qps",), whole=("threads",), numbers=("nice",), texts=("vm",), optional=("p50_us",))
HEADER = "vm,qps,threads,nice,p50_us\n"


def read(tmp_path, text, columns=COLUMNS):
    path = tmp_path / "m.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(path, columns)


def test_values_have_their_kinds_and_unknown_columns_are_ignored(tmp_path):
    rows = read(tmp_path, "vm,more,qps,threads,nice,p50_us,scheduler\nn2-highcpu-2,x,5000,2,-17,,cfs\n")
    assert rows == [
        {
            "vm": "n2-highcpu-2", "qps": 5000.0, "threads": 2.0, "nice": -17.0, "p50_us": None,
            "scheduler": "cfs", "siblings": "", "tick_ms": "", "split": "", "flag": "",
        }
    ]  # fmt: skip


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path):
    assert read(tmp_path, b"\xef\xbb\xbf" + HEADER.encode() + b"a,1,1,0,\n")[0]["vm"] == "a"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("vm,threads,nice\na,1,0\n", "column 'qps' is missing"),
        ("", "column 'qps' is missing"),
        (HEADER + "a,many,1,0,\n", "line 2: 'qps' is 'many', expected a number"),
        (HEADER + "a,nan,1,0,\n", "line 2: 'qps' is 'nan', expected a number"),
        (HEADER + "a,1e300,1,0,\n", "expected a number"),
        (HEADER + "a,0,1,0,\n", "'qps' is '0', expected a number above 0"),
        (HEADER + "a,1,1.5,0,\n", "'threads' is '1.5', expected 1 to 4096"),
        (HEADER + "a,1,1\n", "'nice' is None, expected a number"),
        (HEADER + "a,1,1,0,-3\n", "'p50_us' is '-3', expected nothing or at least 0"),
        (HEADER + "a,1,1,0,1,9\n", "line 2 has more cells than the header"),
        ("vm,vm," + HEADER, "two columns are called 'vm'"),
        (HEADER.encode() + b"\xff,1,1,0,\n", "byte 27 is not UTF-8"),
        (HEADER + 'a,"1,1,0,\n', "not a CSV file"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(tmp_path, text, sentence):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert sentence in str(caught.value)
    assert "m.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "MOST_BYTES", 10)
    with pytest.raises(InputError, match="expected at most 10"):
        read(tmp_path, HEADER)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="not a file"):
        read_table(tmp_path, COLUMNS)


def test_known_rows_complete_a_group_but_never_stand_in_for_a_cell():
    given = [{"program": "a", "n": 1.0, "x": 5.0}]
    known = [
        {"program": "a", "n": 1.0, "x": 6.0},
        {"program": "a", "n": 2.0, "x": 7.0},
        {"program": "b", "n": 1.0, "x": 8.0},
    ]
    rows = completed(given, known, ("program",), ("n",))
    assert [(row["x"], is_context(row)) for row in rows] == [(5.0, False), (7.0, True)]
