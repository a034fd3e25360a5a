"""The agent's unit file: how systemd watches it, and what happens when it ends."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "deploy/osml-agent.service"


def settings() -> list[str]:
    return [line for line in UNIT.read_text().splitlines() if line and not line.startswith("#")]


def test_systemd_waits_for_the_first_sign_of_life_and_watches_for_more() -> None:
    assert {"Type=notify", "NotifyAccess=main", "WatchdogSec=30"} <= set(settings())


def test_an_agent_that_ended_leaves_nothing_behind_unless_on_exit_is_leave() -> None:
    assert "ExecStopPost=/usr/bin/osml-agent restore --on-exit --config /etc/osml/agent.yaml" in settings()


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/bin/osml-agent", "/bin/true"))
    checked = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    assert "Unknown" not in checked.stderr, checked.stderr
