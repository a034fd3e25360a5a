"""The live trial in small, and how it ends when it is interrupted or killed: nothing may be left on the machine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from osml.base.agent_binary import find_agent
from osml.base.failure import Failure
from osml.datasets.live_columns import COLUMNS
from osml.lab.trials.live import machine
from osml.lab.trials.live.cgroups import CONTROL_NAME, ROOT_NAME, find_hierarchies
from osml.lab.trials.live.generator import find_generator

pytestmark = pytest.mark.root

MARKER = "OSML_LIVE_TEST"


@pytest.fixture(autouse=True)
def _able() -> None:
    """Skip, with the reason, where this machine cannot run the trial."""
    try:
        machine.require_root()
        machine.require_programs()
        find_agent(None)
        find_generator(None)
    except Failure as reason:
        pytest.skip(str(reason))


class Trial:
    """`osml run live` as a process of its own; every process that it starts carries the marker in its environment."""

    def __init__(self, out: Path, *arguments: str) -> None:
        self.marker = uuid.uuid4().hex
        self.log = out.parent / f"{self.marker}.log"
        command = [
            sys.executable,
            "-c",
            "from osml.cli.main import main; main()",
            "live",
            "--out",
            str(out),
            *arguments,
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env={**os.environ, MARKER: self.marker}
            )

    def processes(self) -> list[str]:
        """Command lines of what is still alive."""
        found: list[str] = []
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if f"{MARKER}={self.marker}".encode() in (directory / "environ").read_bytes():
                    found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return found

    def end(self, timeout_s: float) -> tuple[int, str]:
        """Exit code and standard output."""
        output, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, output.decode()


def groups() -> list[Path]:
    roots = find_hierarchies(Path("/proc/mounts").read_text()).roots
    return [root / name for root in roots for name in (ROOT_NAME, CONTROL_NAME) if (root / name).exists()]


def wait_for(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return condition()


def assert_nothing_left(trial: Trial) -> None:
    assert wait_for(lambda: not trial.processes(), 10), trial.processes()
    assert groups() == []
    assert not machine.WORK.exists()


def test_small_trial_measures_both_phases_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "live"
    trial = Trial(out, "--unmanaged-s", "6", "--managed-s", "12", "--baseline-s", "2", "--json")
    code, output = trial.end(120)
    assert code == 0, trial.log.read_text()
    document = json.loads(output)
    assert document == json.loads((out / "summary.json").read_text())
    assert document["simulated"] is False
    assert set(document["mechanisms"]) & {"cpu_quota", "cpuset"}
    assert {"mechanism", "reason"} == set(document["missing"][0])
    unmanaged, managed = document["phases"]["unmanaged"], document["phases"]["managed"]
    assert managed["e_s"] < unmanaged["e_s"]
    assert any(service["met"] is False for service in unmanaged["services"])
    for service in managed["services"]:
        assert service["ipc_ratio"] is None
        assert service["ways"] is None or service["ways"] > 0
        if service["class"] == "lc":
            assert service["p99_ms"] > 0
            assert service["lateness_p99_ms"] < service["target_ms"]
            assert service["errors"] == 0
        else:
            assert 0 < service["work_ratio"] <= 1.5
    assert document["agent"]["rss_mib"] > 0
    assert document["allocations"][-1]["phase"] == "managed"
    rows = pq.read_table(out / "traces.parquet").to_pylist()
    assert len(rows) == 4 * 18
    assert list(rows[0]) == [column.name for column in COLUMNS]
    measured = [row for row in rows if row["class"] == "lc" and row["phase"] == "managed"]
    assert sum(row["lateness_p99_ms"] is not None for row in measured) > len(measured) / 2
    assert all(row["llc_misses"] != 0 for row in rows)  # missing is null, never 0
    assert (out / "timeline.png").read_bytes().startswith(b"\x89PNG")
    assert_nothing_left(trial)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_trial_stops_everything(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "live"
    trial = Trial(out, "--unmanaged-s", "60", "--baseline-s", "2")
    try:
        assert wait_for((out / "record-unmanaged.jsonl").exists, 60), trial.log.read_text()
        time.sleep(2)
        trial.process.send_signal(number)
        code, _ = trial.end(30)
    finally:
        trial.process.kill()
    assert code == 130
    assert "all started processes are stopped" in trial.log.read_text()
    assert "Traceback" not in trial.log.read_text()
    assert_nothing_left(trial)


def test_killed_trial_takes_its_processes_along_and_the_next_one_clears_up(tmp_path: Path) -> None:
    killed = Trial(tmp_path / "killed", "--unmanaged-s", "60", "--baseline-s", "2")
    assert wait_for((tmp_path / "killed/record-unmanaged.jsonl").exists, 60), killed.log.read_text()
    killed.process.kill()
    killed.process.wait()
    assert wait_for(lambda: not killed.processes(), 15), killed.processes()
    assert groups() != []  # nobody could remove them
    following = Trial(tmp_path / "next", "--unmanaged-s", "60", "--baseline-s", "2")
    try:
        assert wait_for((tmp_path / "next/record-unmanaged.jsonl").exists, 60), following.log.read_text()
        following.process.terminate()
        following.end(30)
    finally:
        following.process.kill()
    assert_nothing_left(following)


def test_service_that_dies_ends_the_trial_with_its_name(tmp_path: Path) -> None:
    trial = Trial(tmp_path / "live", "--unmanaged-s", "60", "--baseline-s", "2")
    try:
        assert wait_for((tmp_path / "live/record-unmanaged.jsonl").exists, 60), trial.log.read_text()
        root = find_hierarchies(Path("/proc/mounts").read_text()).roots[0]
        pids = (root / ROOT_NAME / "redis/cgroup.procs").read_text().split()
        os.kill(int(pids[0]), signal.SIGKILL)
        code, _ = trial.end(30)
    finally:
        trial.process.kill()
    assert code == 1
    assert "redis ended with exit code -9" in trial.log.read_text()
    assert_nothing_left(trial)
