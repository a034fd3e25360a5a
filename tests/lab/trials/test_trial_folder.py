"""A trial deletes what trials wrote, and nothing else: it often runs as root."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from osml.base.failure import InputError
from osml.lab.trials.demo.run import OWN as DEMO
from osml.lab.trials.folder import begin_folder
from osml.lab.trials.live.run import OWN as LIVE


@pytest.mark.parametrize("own", [DEMO, LIVE], ids=["demo", "live"])
@pytest.mark.parametrize("name", ["logs/mine", "experiences.db", "experiences.db-wal", "summary.json"])
def test_a_folder_of_somebody_else_is_refused_and_left_as_it_is(
    tmp_path: Path, own: tuple[str, ...], name: str
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text('{"mine": 1}')
    with pytest.raises(InputError, match="has files that no trial wrote"):
        begin_folder(tmp_path, own)
    assert (tmp_path / name).read_text() == '{"mine": 1}'


@pytest.mark.parametrize(("own", "folder"), [(DEMO, "node-managed"), (LIVE, "telemetry")], ids=["demo", "live"])
def test_what_an_earlier_trial_wrote_goes_and_the_rest_stays(tmp_path: Path, own: tuple[str, ...], folder: str) -> None:
    out = tmp_path / "new" / "out"
    begin_folder(out, own)
    for name in ("logs/a", f"{folder}/b"):
        (out / name).parent.mkdir()
        (out / name).write_text("x")
    for name in ("summary.json", "timeline.png", "experiences.db-wal", "record-managed.jsonl", "notes.txt"):
        (out / name).write_text("x")
    begin_folder(out, own)
    assert sorted(path.name for path in out.iterdir()) == [".osml-trial", "notes.txt"]


def test_a_folder_of_an_earlier_version_is_one_of_a_trial(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text(json.dumps({"simulated": True, "phases": {}}))
    (tmp_path / "logs").mkdir()
    begin_folder(tmp_path, DEMO)
    assert not (tmp_path / "logs").exists()


def test_a_trial_of_an_earlier_version_that_was_cut_short_goes(tmp_path: Path) -> None:
    for name in ("logs", "node-unmanaged"):
        (tmp_path / name).mkdir()
    (tmp_path / "experiences.db").touch()
    begin_folder(tmp_path, DEMO)
    assert [path.name for path in tmp_path.iterdir()] == [".osml-trial"]


def test_a_link_is_taken_away_and_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("x")
    out = tmp_path / "out"
    begin_folder(out, DEMO)
    (out / "logs").symlink_to(elsewhere)
    begin_folder(out, DEMO)
    assert (elsewhere / "mine").exists()
    assert not (out / "logs").exists()
