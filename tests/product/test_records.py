"""Records are read leniently: garbage is counted, gaps are found, two machines are refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from osml.base.failure import InputError
from osml.domain import Observation, Platform, Service
from osml.records import Line, gather

_PLATFORM = Platform(id="small", cores=4, cpus="0-3", ways=8)


def _lines(count: int, *, node: str = "one", first: int = 0, platform: Platform = _PLATFORM) -> list[bytes]:
    services = [Service(name="redis", kind="lc", target_ms=5.0)]
    seen = [Observation(node, first + at, 1.0 + first + at, 1.0, platform, services) for at in range(count)]
    return [msgspec.json.encode(Line(one, None)) + b"\n" for one in seen]


def _file(folder: Path, *lines: bytes) -> Path:
    file = folder / "record.jsonl"
    file.write_bytes(b"".join(lines))
    return file


def test_garbage_is_counted_and_skipped(tmp_path: Path) -> None:
    good = _lines(4)
    found = gather([_file(tmp_path, good[0], b"\xff\xfe{\n", b"[" * 5000 + b"\n", good[1], b'{"a": 1}\n', *good[2:])])
    assert (len(found.lines), found.garbage, found.gaps) == (4, 3, frozenset())


def test_a_last_line_that_is_still_being_written_does_not_count(tmp_path: Path) -> None:
    good = _lines(3)
    found = gather([_file(tmp_path, *good[:2], good[2][:-1])])
    assert (len(found.lines), found.garbage) == (2, 0)


def test_gaps_and_restarts_are_found(tmp_path: Path) -> None:
    found = gather([_file(tmp_path, *_lines(3), *_lines(2, first=10), *_lines(2))])
    assert found.gaps == {3, 5}
    assert found.part(2, 7).gaps == {1, 3}


def test_two_files_of_one_machine_are_one_record_with_a_gap(tmp_path: Path) -> None:
    other = tmp_path / "second.jsonl"
    other.write_bytes(b"".join(_lines(2, first=3)))
    assert gather([_file(tmp_path, *_lines(3)), other]).gaps == {3}


@pytest.mark.parametrize(
    "other",
    [_lines(1, node="two", first=3), _lines(1, first=3, platform=replace(_PLATFORM, ways=4))],
    ids=["name", "ways"],
)
def test_two_machines_are_refused(tmp_path: Path, other: list[bytes]) -> None:
    with pytest.raises(InputError, match="give records of one machine"):
        gather([_file(tmp_path, *_lines(3), *other)])


@pytest.mark.parametrize("content", [b"", b"garbage\n", b'{"observation": null, "decision": null}\n'])
def test_a_record_without_a_line_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match="no whole line"):
        gather([_file(tmp_path, content)])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.jsonl can't be read"):
        gather([tmp_path / "nothing.jsonl"])
