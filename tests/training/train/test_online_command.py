"""What `osml learn train c --online` says to people; its learning is tested in tests/training/learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

c_online = pytest.importorskip("osml_training.cli.train.c_online")

DOCUMENT: dict[str, Any] = {
    "platform": "e5-2697v4", "experiences": 9, "tuples": 9, "left_out": {"[/odd] is beyond what a machine has": 1},
    "champion": "c-1", "candidate": "c-2", "promoted": True, "reasons": ["only experiences of [/x]\x1b[2Jnode"],
}  # fmt: skip


def test_the_command_that_rolls_back_names_the_folder_and_the_platform(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    c_online._show(DOCUMENT, Path("my models"))
    last = capsys.readouterr().out.splitlines()[-1]
    command = f"osml learn models rollback c --models '{tmp_path}/my models' --platform e5-2697v4"
    assert last == f"to roll back: {command}"


def test_what_agents_sent_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    c_online._show(DOCUMENT, Path("models"))
    said = capsys.readouterr().out
    assert "  left out: 1 ([/odd] is beyond what a machine has)" in said
    assert "  only experiences of [/x]?[2Jnode" in said
