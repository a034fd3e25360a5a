"""The study goes on where it stopped, and keeps what failed beside what was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from osml import __version__
from osml.base.failure import Failure, InputError
from osml.lab.profile import study
from osml.lab.trials.children import Interrupted
from osml.lab.trials.live.services import services

pytestmark = pytest.mark.unit


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where all programs but speech and xz were measured before."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in [*services(), *study.JOBS]:
        if name not in ("speech", "xz"):
            (folder / f"{name}.json").write_text(json.dumps({"name": name}))
    (folder / "settings.json").write_text(json.dumps(study.SETTINGS | {"version": __version__}))
    monkeypatch.setattr(study, "checked_loops", list[dict[str, Any]])
    monkeypatch.setattr("sys.argv", ["study", "--work", str(folder), "--out", str(tmp_path / "out.json")])
    return folder


def test_only_what_is_missing_is_measured_and_failures_are_kept(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def measure(name: str) -> dict[str, Any]:
        asked.append(name)
        if name == "speech":
            raise Failure("too slow")
        return {"name": name}

    monkeypatch.setattr(study, "profiled", measure)
    study.main()
    assert asked == ["speech", "xz"]
    found = json.loads((work.parent / "out.json").read_text())
    assert [one["name"] for one in found["programs"]] == [n for n in [*services(), *study.JOBS] if n != "speech"]
    assert found["failed"] == [{"name": "speech", "why": "too slow"}]
    study.main()
    assert asked == ["speech", "xz", "speech"]


@pytest.mark.parametrize("other", [{"seed": 1}, {"version": "0.0.1"}])
def test_documents_of_another_study_are_not_taken_for_its_own(work: Path, other: dict[str, Any]) -> None:
    settings = work / "settings.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | other))
    with pytest.raises(InputError, match="choose another folder"):
        study.main()
    settings.unlink()
    with pytest.raises(InputError, match="unknown settings"):
        study.main()
    assert not (work.parent / "out.json").exists()


def test_ctrl_c_ends_the_study_instead_of_one_program(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(name: str) -> dict[str, Any]:
        raise Interrupted(f"stopped at {name}")

    monkeypatch.setattr(study, "profiled", stop)
    with pytest.raises(Interrupted):
        study.main()
    assert not (work.parent / "out.json").exists()
