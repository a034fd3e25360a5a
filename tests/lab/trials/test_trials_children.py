"""Children of a trial: watched, and gone afterwards."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from osml.base.failure import Failure
from osml.lab.trials import children as children_module
from osml.lab.trials.children import Children, free_port, wait_until
from osml.lab.trials.live.jobs.repeat import command
from osml.lab.trials.records import RecordReader


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_a_child_that_dies_is_reported_with_its_last_words(tmp_path):
    with Children(tmp_path) as children:
        child = children.start("oracle", [sys.executable, "-c", "print('no future'); raise SystemExit(4)"])
        with pytest.raises(Failure, match=r"oracle ended with exit code 4: no future"):
            wait_until(lambda: False, "the oracle", [child], timeout_s=20)


def test_a_child_that_never_gets_ready_is_a_failure_that_names_it(tmp_path):
    with Children(tmp_path) as children:
        child = children.start("sleeper", ["sleep", "60"])
        process = rf"process {child.pid} \(sleep 60\), state \w, 0\.\d\d s of CPU"
        said = rf"the sleeper was not ready within 0\.2 s; last output: sleeper: nothing \({process}"
        with pytest.raises(Failure, match=said):
            wait_until(lambda: False, "the sleeper", [child], timeout_s=0.2)


def test_a_program_that_does_not_exist_is_one_sentence(tmp_path):
    with Children(tmp_path) as children, pytest.raises(Failure, match="ghost can't be started: /no/such: No such file"):
        children.start("ghost", ["/no/such"])


def test_all_children_are_gone_after_an_error_grandchildren_too(tmp_path):
    script = "import subprocess,time; print(subprocess.Popen(['sleep','60']).pid, flush=True); time.sleep(60)"
    with pytest.raises(RuntimeError), Children(tmp_path) as children:
        child = children.start("parent", [sys.executable, "-c", script])
        wait_until(lambda: child.log.read_text() != "", "the parent", [child])
        raise RuntimeError
    grandchild = int(child.log.read_text())
    deadline = time.monotonic() + 5
    while alive(grandchild) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(child.pid)
    assert not alive(grandchild)


def test_a_signal_ends_a_trial_in_order(tmp_path):
    script = f"""
import sys, time
from pathlib import Path
from osml.base.failure import Failure
from osml.lab.trials.children import Children, interrupt_on_signals
interrupt_on_signals()
try:
    with Children(Path({str(tmp_path)!r})) as children:
        print(children.start("s", ["sleep", "60"]).pid, flush=True)
        time.sleep(60)
except Failure as failure:
    print(failure); sys.exit(failure.exit_code)
"""
    trial = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    sleeper = int(trial.stdout.readline())
    trial.send_signal(signal.SIGTERM)
    words, _ = trial.communicate(timeout=20)
    assert trial.returncode == 130
    assert "stopped by SIGTERM; all started processes are stopped" in words
    assert not alive(sleeper)


def test_record_reader_waits_for_the_end_of_a_line(tmp_path):
    path = tmp_path / "record.jsonl"
    reader = RecordReader(path)
    assert reader.new() == []
    with path.open("w") as stream:
        stream.write('{"observation": null')
        stream.flush()
        assert reader.new() == []
        stream.write("}\n")
    with pytest.raises(Failure, match="different versions"):
        reader.new()


def test_a_free_port_is_none_that_the_kernel_gives_to_others(tmp_path, monkeypatch):
    usual = tmp_path / "range"
    usual.write_text("32768\t60999\n")
    monkeypatch.setattr(children_module, "PORT_RANGE", usual)
    ports = [free_port() for _ in range(50)]
    assert all(children_module.LOWEST_PORT <= port < 32768 for port in ports)
    assert len(set(ports)) > 40
    with socket.create_server(("127.0.0.1", ports[0])):
        pass


def test_a_free_port_is_found_where_the_kernel_gives_all_ports(tmp_path, monkeypatch):
    wide = tmp_path / "range"
    wide.write_text("1024 65535\n")
    for given in (wide, tmp_path / "none"):
        monkeypatch.setattr(children_module, "PORT_RANGE", given)
        with socket.create_server(("127.0.0.1", free_port())):
            pass


def test_repeat_keeps_copies_of_a_program_that_ends_running(tmp_path: Path) -> None:
    line = f"echo x >> {tmp_path / 'ran'}"
    with Children(tmp_path / "logs") as children:
        child = children.start("copies", command(3, ["sh", "-c", line]))
        wait_until(lambda: (tmp_path / "ran").exists() and len((tmp_path / "ran").read_text()) > 400, "200", [child])
        assert child.running
        failing = children.start("failing", command(2, ["sh", "-c", "exit 3"]))
        wait_until(lambda: not failing.running, "its end", [])
        assert failing.exit_code == 1
        assert "sh ended with exit code 3" in failing.log_tail()
