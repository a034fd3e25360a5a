"""Commands that cannot be profiled, or only in part: one sentence, and nothing that runs on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from osml.base.failure import Failure, InputError, MachineError
from osml.lab.profile import instrument, processes
from osml.lab.profile.document import document
from osml.lab.profile.instrument import resolved
from osml.lab.profile.known import small_caches
from osml.lab.profile.outcome import Outcome
from osml.lab.profile.program import Work, run_program
from osml.lab.trials.live.services import Service

pytestmark = pytest.mark.process
CACHES = small_caches(hashed=True)


def run(loops: Path, *words: object, seconds: float | None = None) -> Outcome:
    return run_program(Work([str(loops), *map(str, words)], seconds=seconds), CACHES)


def living(program: Path) -> list[int]:
    """Processes whose command line names the program."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if str(program).encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def gone(program: Path) -> bool:
    """True once nothing of the program runs; a killed process may take a moment."""
    deadline = time.monotonic() + 10.0
    while living(program):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_program_that_dies_is_reported_with_its_signal(loops: Path) -> None:
    with pytest.raises(Failure, match="ended with exit code -6"):
        run(loops, "die", 1, 1)


def test_program_that_fails_is_reported_with_its_exit_code(loops: Path) -> None:
    with pytest.raises(Failure, match="ended with exit code 7"):
        run(loops, "fail", 1, 1)


def test_program_that_is_not_there_is_named() -> None:
    with pytest.raises(InputError, match="program 'no-such-program' is not found or not executable"):
        run_program(Work(["no-such-program"]), CACHES)


def test_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("hello")
    path.chmod(0o755)
    with pytest.raises(InputError, match="neither a binary nor a script"):
        run_program(Work([str(path)]), CACHES)


def test_script_runs_under_its_interpreter(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text("#!/bin/sh -e\n:\n")
    path.chmod(0o755)
    assert instrument.resolved([str(path), "x"])[1:] == ["-e", str(path), "x"]
    assert run_program(Work([str(path)]), CACHES).report["instructions"] > 10_000


@pytest.mark.parametrize(
    "line, found",
    [
        ("#!/usr/bin/env python3", ["python3"]),
        ("#!/usr/bin/env -S python3 -u", ["python3", "-u"]),
        ("#! /bin/sh -e", ["/bin/sh", "-e"]),
        ("#!/usr/bin/env A=1", ["/usr/bin/env", "A=1"]),
    ],
)
def test_interpreter_is_measured_and_not_env_that_starts_it(line: str, found: list[str], tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(f"{line}\n")
    script.chmod(0o755)
    assert resolved([str(script)]) == [str(shutil.which(found[0])), *found[1:], str(script)]


def test_script_without_an_interpreter_is_named(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!")
    script.chmod(0o755)
    with pytest.raises(InputError, match="names no interpreter"):
        resolved([str(script)])


def test_program_that_is_too_short_is_refused(loops: Path) -> None:
    outcome = run(loops, "sweep", 1, 1)
    with pytest.raises(Failure, match=r"instructions while it was measured, expected at least 1,000,000"):
        document("short", "e5-2697v4", CACHES, outcome, ["loops"])


def test_background_process_is_ended_and_said(loops: Path) -> None:
    outcome = run(loops, "daemon", 100, 1)
    assert not outcome.whole
    assert "1 processes still ran when the command ended" in outcome.notes[0]
    assert gone(loops)


def test_programs_that_ran_without_instrumentation_are_said(loops: Path) -> None:
    outcome = run(loops, "exec", 100, 1)
    found = document("exec", "e5-2697v4", CACHES, outcome, ["loops"])
    assert any(note.startswith("1 further programs were started (exec)") for note in found["notes"])


def test_program_that_never_ends_is_measured_for_a_while(loops: Path) -> None:
    outcome = run(loops, "forever", 1000, 1, seconds=1.0)
    assert outcome.complete
    assert not outcome.whole
    assert gone(loops)


def test_ctrl_c_prints_what_is_known_and_leaves_nothing_running(loops: Path, tmp_path: Path) -> None:
    entry = tmp_path / "entry.yaml"
    command = [sys.executable, "-m", "osml", "profile", "--service", "endless", "--json", "--out", str(entry)]
    command += ["--", str(loops)]
    child = subprocess.Popen(
        [*command, "forever", "1000", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60.0
    while sum(_ticks(pid) for pid in living(loops) if "qemu" in _executable(pid)) < 50:  # half a second of work
        assert time.monotonic() < deadline
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, err
    found = json.loads(out)
    assert found["complete"] is False
    assert len(found["mpki"]) == 20
    assert "stopped before the end" in err
    assert not entry.exists()  # a catalog has no place for a part of a run
    assert gone(loops)


def _executable(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""


def _ticks(pid: int) -> int:
    try:
        return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[11])
    except OSError:
        return 0


def test_missing_emulator_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MachineError, match=r"qemu-x86_64 not found: install with `apt-get install qemu-user`"):
        instrument.find_tools()


def test_server_that_goes_into_the_background_is_said(loops: Path) -> None:
    from osml.lab.profile.server import Asked, run_server

    def never(port: int) -> None:
        raise ConnectionRefusedError(port)

    service = Service(
        "daemon", str(loops), "", "http", lambda _, port: [str(loops), "daemon", "10", "1"], never, user=None
    )
    with pytest.raises(Failure, match="if it went into the background"):
        run_server(service, CACHES, Asked(), lambda _: None)
    assert gone(loops)


def test_run_finds_its_processes_though_they_change_their_session_or_environment(tmp_path: Path) -> None:
    run_of = processes.Run("of-this-test")
    child = subprocess.Popen(["sleep", "60"], env={**os.environ, processes.MARK: run_of.value}, start_new_session=True)
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        deadline = time.monotonic() + 10.0
        while set(processes.members(run_of)) != {child.pid}:  # until it has become `sleep`
            assert time.monotonic() < deadline
        run_of.sessions.add(other.pid)
        assert set(processes.members(run_of)) == {child.pid, other.pid}
        assert processes.end_all(run_of) == 2
        assert child.wait(10) == other.wait(10) == -signal.SIGKILL
    finally:
        for one in (child, other):
            one.kill()
            one.wait()
