"""The live trial in small, and how it ends when it is interrupted or killed: nothing may be left on the machine."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from osml.datasets.live_columns import COLUMNS
from osml.lab.trials.live import machine
from osml.lab.trials.live.cgroups import ROOT_NAME, find_hierarchies
from tests.kit.trial_process import TrialProcess, groups, skip_where_no_trial_can_run, wait_for

pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def _able() -> None:
    skip_where_no_trial_can_run()


class Trial(TrialProcess):
    """`osml run live`."""

    def __init__(self, out: Path, *arguments: str) -> None:
        super().__init__(out.parent, ["live", "--out", str(out), *arguments])


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
    assert all(0 <= phase["e_s"] <= 1 for phase in (unmanaged, managed))  # how much less is a matter of hours: live-lab
    for service in managed["services"]:
        assert service["ipc_ratio"] is None
        assert service["ways"] is None or service["ways"] > 0
        if service["class"] == "lc":
            assert service["p99_ms"] > 0
            assert service["lateness_p99_ms"] >= 0
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
