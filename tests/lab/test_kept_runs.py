"""Finished runs of a study survive a kill, and are never mixed with those of other settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from osml.base.failure import InputError
from osml.lab.kept_runs import KeptRuns

SETTINGS = {"hours": 24, "code": "abc"}


def test_a_study_goes_on_after_half_a_line(tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.jsonl"
    with KeptRuns(file, SETTINGS) as runs:
        runs.add((1, 0, "osml"), [1.5])
        runs.add("whole", {"a": None})
    with file.open("ab") as cut:
        cut.write(b'{"key": [2, 0, "osml"], "fou')
    for _ in range(2):
        with KeptRuns(file, SETTINGS) as runs:
            assert runs.found == {(1, 0, "osml"): [1.5], "whole": {"a": None}}
    with KeptRuns(file, SETTINGS) as runs:
        runs.add((2, 0, "osml"), [2.5])
    with KeptRuns(file, SETTINGS) as runs:
        assert runs.found[2, 0, "osml"] == [2.5]


@pytest.mark.parametrize("other", [{"hours": 12, "code": "abc"}, {"hours": 24, "code": "def"}, {"hours": 24}])
def test_runs_of_other_settings_are_refused(tmp_path: Path, other: dict[str, object]) -> None:
    file = tmp_path / "rows.jsonl"
    with KeptRuns(file, SETTINGS) as runs:
        runs.add(1, "found")
    with pytest.raises(InputError, match="other settings"):
        KeptRuns(file, other)
    with KeptRuns(file, SETTINGS) as runs:
        assert runs.found == {1: "found"}


@pytest.mark.parametrize("text", ["no json\n", '{"settings": 3}\n', '{"a": 1}\n', '{"settings": {}}\n[1]\n'])
def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(text)
    with pytest.raises(InputError, match="no file of finished runs"):
        KeptRuns(file, {})
    assert file.read_text() == text


def test_two_studies_do_not_write_into_one_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    with KeptRuns(file, SETTINGS), pytest.raises(InputError, match="in use"):
        KeptRuns(file, SETTINGS)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be written"):
        KeptRuns(tmp_path, SETTINGS)
