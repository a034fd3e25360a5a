"""Knobs, programs and lock of the live trial: one sentence for each mistake."""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from osml.base import agent_binary
from osml.base.failure import InputError, MachineError
from osml.lab.trials.children import wait_until
from osml.lab.trials.live import generator, machine
from osml.lab.trials.live.jobs.stress import stress_command
from osml.lab.trials.live.run import run_live
from osml.lab.trials.live.services import service_named
from osml.lab.trials.live.settings import LiveSettings
from osml.lab.trials.live.work_rate import WorkRateWriter, rate_over


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"policy": "unmanaged"}, "--policy is 'unmanaged'"),
        ({"policy": "nosuch"}, "--policy is 'nosuch', expected one of arq, "),
        ({"unmanaged_s": 0}, "--unmanaged-s is 0, expected 5 to 3600"),
        ({"managed_s": 4000}, "--managed-s is 4000"),
        ({"baseline_s": 1}, "--baseline-s is 1, expected 2"),
        ({"seed": -1}, "--seed is -1"),
        ({"workers": 0}, "--workers is 0, expected 1 to 1024"),
        ({"port": 70000}, "--port is 70000"),
    ],
)
def test_knobs_are_checked(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        LiveSettings(Path("out"), **knobs).check()


def test_defaults_are_legal() -> None:
    LiveSettings(Path("out")).check()


def test_without_root_the_trial_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="needs root") as caught:
        run_live(LiveSettings(tmp_path / "out"))
    assert caught.value.exit_code == 3
    assert not (tmp_path / "out").exists()


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.shutil, "which", lambda program: None if program in ("nginx", "stress-ng") else "/x")
    with pytest.raises(
        MachineError, match="nginx, stress-ng not found: install with `apt-get install nginx-light stress-ng`"
    ):
        machine.require_trial_programs()


def test_second_trial_on_the_machine_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "LOCK", tmp_path / "lock")
    with machine.only_trial(), pytest.raises(MachineError, match="another live trial"), machine.only_trial():
        pass
    with machine.only_trial():
        pass


def test_work_directory_of_a_killed_trial_is_cleared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "WORK", tmp_path / "work")
    (tmp_path / "work/old").mkdir(parents=True)
    with machine.work_directory() as work:
        assert list(work.iterdir()) == []
    assert not (tmp_path / "work").exists()


def test_work_rate_is_cpu_seconds_a_second(tmp_path: Path) -> None:
    start = time.monotonic()

    def three_cpus() -> float:
        return 3 * (time.monotonic() - start)

    assert rate_over(three_cpus, 1.0) == pytest.approx(3, rel=0.2)
    file = tmp_path / "be.jsonl"
    with WorkRateWriter(three_cpus, file, interval_s=0.2):
        wait_until(lambda: file.exists() and len(file.read_text().splitlines()) >= 3, "three lines", [])
    rates = [json.loads(line)["work_rate"] for line in file.read_text().splitlines()]
    assert statistics.median(rates) == pytest.approx(3, rel=0.2)


def test_services_listen_on_loopback_only(tmp_path: Path) -> None:
    for name in ("redis", "nginx", "memcached"):
        directory = tmp_path / name
        directory.mkdir()
        command = " ".join(service_named(name).command(directory, 12345))
        if name == "nginx":
            command += (directory / "nginx.conf").read_text()
        assert "127.0.0.1" in command
        assert "12345" in command


def test_stress_takes_both_kinds_of_workers(tmp_path: Path) -> None:
    command = stress_command(tmp_path, 8, 2)
    assert command[command.index("--cpu") + 1] == "8"
    assert command[command.index("--stream") + 1] == "2"


def test_load_generator_is_looked_for_where_the_agent_is_built() -> None:
    assert agent_binary.BUILT.parent / "loadgen/osml-loadgen" == generator.BUILT
    assert (agent_binary.BUILD.parents[2] / "actuator/loadgen/CMakeLists.txt").is_file()
