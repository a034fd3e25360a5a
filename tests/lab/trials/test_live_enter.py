"""How a child of the live trial starts: in its groups, as its user, not longer than its parent lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from osml.lab.trials.live import enter


def test_program_joins_its_groups_and_gets_its_arguments(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import sys; print(sys.argv[1:])", "--flag", "a b"]
    done = subprocess.run(enter.command(program, [tmp_path]), capture_output=True, text=True, check=True)
    assert done.stdout == "['--flag', 'a b']\n"
    assert (tmp_path / "cgroup.procs").read_text() == "0\n"


def test_program_that_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(enter.command([str(tmp_path / "nothing")]), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "No such file" in done.stderr
    assert "Traceback" not in done.stderr


def test_program_whose_parent_is_gone_does_not_start(tmp_path: Path) -> None:
    line = enter.command([sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"])
    line[line.index("--parent") + 1] = "1"  # somebody else's child
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert not (tmp_path / "ran").exists()


def test_child_dies_with_a_killed_parent() -> None:
    script = """
import subprocess, sys
from osml.lab.trials.live import enter
sleeper = [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"]
child = subprocess.Popen(enter.command(sleeper))
print(child.pid, flush=True)
child.wait()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert parent.stdout.readline() == "1\n"  # it runs
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{child}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]


@pytest.mark.root
def test_program_gives_root_up_for_good() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    show = ["cat", "/proc/self/status"]
    done = subprocess.run(enter.command(show, user="nobody"), capture_output=True, text=True, check=True)
    status = dict(line.split(":", 1) for line in done.stdout.splitlines())
    assert "0" not in status["Uid"].split()
    assert "0" not in status["Gid"].split()
    assert status["Groups"].split() == []
    assert int(status["CapEff"], 16) == 0
