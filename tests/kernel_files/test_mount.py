"""The mounted node: FUSE and plain files, telemetry, loads, the agent's configuration, and a clean end."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest
import yaml
from typer.testing import CliRunner

from osml.base.failure import Failure, InputError
from osml.simulator import catalogs
from osml.simulator.commands import app
from osml.simulator.mount import fuse_files, plain_files
from osml.simulator.mount.node_process import MountOptions, NodeProcess
from osml.simulator.precompile import precompile

LOADS = {"moses": 0.4, "xapian": 0.5}
WHY_NOT = fuse_files.why_not()
needs_fuse = pytest.mark.skipif(WHY_NOT is not None, reason=f"FUSE is not possible here: {WHY_NOT}")
EXPORTS = ["off", pytest.param("on", marks=needs_fuse)]


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    """Nodes start in time also where the sources have just changed."""
    precompile()


@contextmanager
def running(folder, fuse):
    """A node in a thread of this process."""
    messages = []
    options = MountOptions(folder, "e5-2697v4", LOADS, ("stream",), speed=20.0, fuse=fuse)
    process = NodeProcess(options, messages.append)
    thread = threading.Thread(target=process.run)
    thread.start()
    try:
        wait_for((folder / "node.json").exists)
        yield messages
    finally:
        process.stop()
        thread.join(120)
        assert not thread.is_alive()


def wait_for(condition, timeout_s=120.0):
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.01)


def lines(folder, name):
    text = (folder / "telemetry" / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def command(path, text):
    """One write(2), as an agent does it."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        return os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("fuse", EXPORTS)
def test_a_node_runs_obeys_and_leaves_nothing_mounted(tmp_path, fuse):
    folder = tmp_path / "node"
    with running(folder, fuse):
        node = json.loads((folder / "node.json").read_text())
        assert (node["ready"], node["simulated"], node["platform"], node["time_scale"]) == (True, True, "e5-2697v4", 20)
        pid = node["services"][0]["pid"]
        group = folder / "resctrl" / "moses"
        group.mkdir()
        wait_for(lambda: (group / "schemata").exists() and (group / "tasks").exists())
        command(group / "schemata", "L3:0=fff\n")
        command(group / "tasks", ",".join(str(pid + i) for i in range(36)) + "\n")
        command(folder / "cgroup/lc/moses/cpuset.cpus", "0-3,18-21\n")
        wait_for(lambda: (group / "schemata").read_text() == "    L3:0=fff\n")
        wait_for(lambda: len((group / "tasks").read_text().split()) == 36)
        effective = folder / "cgroup/lc/moses/cpuset.cpus.effective"
        wait_for(lambda: effective.read_text() == "0-3,18-21\n")
        local = group / "mon_data/mon_L3_00/mbm_local_bytes"
        before = int(local.read_text())
        wait_for(lambda: int(local.read_text()) > before)
        wait_for(lambda: len(lines(folder, "moses")) > 3)
        assert {"t", "interval_s", "p99_ms", "ipc", "samples"} <= set(lines(folder, "moses")[-1])
        assert lines(folder, "stream")[-1]["p99_ms"] is None
    assert sorted(path.name for path in folder.iterdir()) == [
        ".osml-virtual",
        "agent.yaml",
        "loads.json",
        "state",
        "telemetry",
    ]
    assert not fuse_files.is_mounted(folder / ".kernel")


@pytest.mark.parametrize("fuse", EXPORTS)
def test_new_loads_are_taken_at_once_and_wrong_ones_are_reported(tmp_path, fuse):
    folder = tmp_path / "node"
    with running(folder, fuse) as messages:
        (folder / "loads.json").write_text('{"moses": 9}')
        wait_for(lambda: any("load of 'moses' is 9" in message for message in messages))
        (folder / "loads.json").write_text('{"moses": 0.1}')
        wait_for(lambda: (seen := lines(folder, "moses")) and 200 < seen[-1]["requests_per_s"] < 400)


@needs_fuse
def test_fuse_gives_the_kernels_errno(tmp_path):
    folder = tmp_path / "node"
    with running(folder, "on"):
        root = folder / "resctrl"
        for path, text, code in (
            (root / "schemata", "L3:0=5\n", errno.EINVAL),
            (root / "tasks", "4999999\n", errno.ESRCH),
            (root / "info/L3/cbm_mask", "1\n", errno.EACCES),
            (folder / "cgroup/lc/moses/cpuset.cpus", "99\n", errno.ERANGE),
        ):
            with pytest.raises(OSError) as caught:
                command(path, text)
            assert caught.value.errno == code
        (root / "g").mkdir()
        held = os.open(root / "g/schemata", os.O_RDWR)
        (root / "g").rmdir()
        for call in (lambda: os.read(held, 100), lambda: os.write(held, b"L3:0=f\n")):
            with pytest.raises(OSError) as caught:
                call()
            assert caught.value.errno == errno.ENODEV
        os.close(held)
        with pytest.raises(OSError) as caught:
            (root / "tasks").unlink()
        assert caught.value.errno == errno.EPERM


@needs_fuse
def test_a_dead_mount_of_a_previous_run_is_taken_away(tmp_path):
    folder = tmp_path / "node"
    runner = "from osml.simulator.commands import app; app()"
    arguments = [sys.executable, "-c", runner, "mount", str(folder), "--be", "stream", "--fuse", "on"]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
        wait_for((folder / "node.json").exists)
        process.send_signal(signal.SIGKILL)
    assert fuse_files.is_mounted(folder / ".kernel")
    (folder / "node.json").unlink()  # only this test must not take the dead run for ready
    with running(folder, "on"):
        assert (folder / "resctrl/schemata").read_text() == "    L3:0=fffff\n"
    assert not fuse_files.is_mounted(folder / ".kernel")


@pytest.mark.parametrize("fuse", EXPORTS)
def test_a_folder_in_which_a_node_runs_is_refused_and_the_node_goes_on(tmp_path, fuse):
    folder = tmp_path / "node"
    with running(folder, fuse):
        schemata = (folder / "resctrl/schemata").read_text()
        with pytest.raises(InputError, match=r"/node is in use by another virtual node: end that one, or choose"):
            NodeProcess(MountOptions(folder, "e5-2697v4", LOADS, fuse=fuse), print).run()
        assert (folder / "node.json").exists()
        assert (folder / "resctrl/schemata").read_text() == schemata
        before = len(lines(folder, "moses"))
        wait_for(lambda: len(lines(folder, "moses")) > before + 2)
    with running(folder, fuse):
        assert (folder / "resctrl/schemata").read_text() == schemata


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("fuse", EXPORTS)
def test_a_signal_ends_the_node_cleanly(tmp_path, number, fuse):
    folder = tmp_path / "node"
    runner = "from osml.simulator.commands import app; app()"
    arguments = [sys.executable, "-c", runner, "mount", str(folder), "--be", "stream", "--fuse", fuse]
    with subprocess.Popen(arguments, stderr=subprocess.DEVNULL) as process:
        wait_for((folder / "node.json").exists)
        process.send_signal(number)
        assert process.wait(120) == 0
    assert not (folder / "resctrl").exists()


@pytest.mark.parametrize("fuse", EXPORTS)
def test_a_pipe_in_the_place_of_the_loads_does_not_stop_the_node(tmp_path, fuse):
    folder = tmp_path / "node"
    with running(folder, fuse) as messages:
        (folder / "loads.json").unlink()
        os.mkfifo(folder / "loads.json")
        wait_for(lambda: "loads.json ignored: expected a regular file" in messages)
        before = len(lines(folder, "moses"))
        wait_for(lambda: len(lines(folder, "moses")) > before + 2)
        (folder / "loads.json").unlink()
        (folder / "loads.json").write_text(" " * (1 << 20) + "{}")
        wait_for(lambda: "loads.json ignored: expected at most 1048576 bytes" in messages)


@needs_fuse
@pytest.mark.parametrize("name", ["a\tb", "a\nb", "a b", "a\\040b", "a\u2028b\x0cc"])
def test_a_folder_with_any_character_in_its_name_is_unmounted(tmp_path, name):
    folder = tmp_path / name
    with running(folder, "on"):
        assert fuse_files.is_mounted(folder / ".kernel")
        assert (folder / "resctrl/schemata").read_text() == "    L3:0=fffff\n"
    assert not fuse_files.is_mounted(folder / ".kernel")
    assert not (folder / ".kernel").exists()


def test_plain_files_need_few_open_ones(tmp_path):
    """A shell of Debian allows 1,024, of which groups of four tenants need some, too."""
    folder = tmp_path / "node"
    runner = "from osml.simulator.commands import app; app()"
    arguments = ["prlimit", "--nofile=500:500", sys.executable, "-c", runner, "mount", str(folder), "--fuse", "off"]
    arguments += [word for name in ("moses", "img-dnn", "xapian") for word in ("--lc", f"{name}=0.3")]
    with subprocess.Popen([*arguments, "--be", "stream"], stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: (folder / "node.json").exists() or process.poll() is not None)
            assert process.poll() is None, process.communicate()[1]
            assert (folder / "sys/devices/system/cpu/cpu0/cache/index3/id").read_text() == "0\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        finally:
            process.kill()


def test_plain_files_revert_what_is_wrong_and_say_why(tmp_path):
    folder = tmp_path / "node"
    with running(folder, "off"):
        root = folder / "resctrl"
        command(root / "schemata", "L3:0=5\n")
        wait_for(lambda: "non-consecutive" in (root / "info/last_cmd_status").read_text())
        wait_for(lambda: (root / "schemata").read_text() == "    L3:0=fffff\n")


def test_plain_groups_are_removed_by_emptying_them(tmp_path):
    folder = tmp_path / "node"
    with running(folder, "off"):
        group = folder / "resctrl" / "g"
        group.mkdir()
        wait_for((group / "tasks").exists)
        pid = json.loads((folder / "node.json").read_text())["services"][0]["pid"]
        command(group / "tasks", f"{pid}\n")
        wait_for(lambda: str(pid) not in (folder / "resctrl/tasks").read_text().split())
        shutil.rmtree(group)
        wait_for(lambda: str(pid) in (folder / "resctrl/tasks").read_text().split())
        assert not group.exists()
        (folder / "resctrl/mode").unlink()
        wait_for((folder / "resctrl/mode").exists)  # comes back: nobody removed the group


def test_a_plain_group_made_again_at_once_is_a_new_group(tmp_path, monkeypatch):
    monkeypatch.setattr(plain_files, "_PATIENCE_S", 60)  # it is not told by the time that it takes
    folder = tmp_path / "node"
    with running(folder, "off"):
        group = folder / "resctrl" / "g"
        for _ in range(20):  # file times are coarse: what happens within one tick must not be missed
            group.mkdir()
            wait_for(lambda: (group / "tasks").exists() and (group / "schemata").exists())
            shutil.rmtree(group)


def test_the_agents_configuration_matches_the_node(tmp_path):
    folder = tmp_path / "node"
    with running(folder, "off"):
        config = yaml.safe_load((folder / "agent.yaml").read_text())
    assert config["time_scale"] == 20
    assert config["roots"]["resctrl"] == str(folder / "resctrl")
    moses, _, stream = config["services"]
    assert (moses["class"], moses["match"]) == ("lc", {"cgroup": "lc/moses"})
    assert moses["target_ms"] == catalogs.service("moses", "e5-2697v4").target_ms
    assert 0 < moses["ideal_ms"] < moses["target_ms"]
    assert moses["latency"]["file"] == str(folder / "telemetry/moses.jsonl")
    assert (stream["class"], stream["ipc_solo"] > 0) == ("be", True)
    assert "latency" not in stream


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "expected at least one --lc"),
        (["--lc", "moses"], "expected NAME=LOAD"),
        (["--lc", "moses=nan"], "expected NAME=LOAD with a load from 0 to 2"),
        (["--lc", "moses=-1"], "expected NAME=LOAD with a load from 0 to 2"),
        (["--lc", "moses=2.5"], "expected NAME=LOAD with a load from 0 to 2"),
        (["--lc", "mosse=0.5"], "unknown LC service 'mosse', known are ads"),
        (["--lc", "moses=0.1", "--lc", "moses=0.2"], "has a service twice"),
        (["--be", "doom"], "unknown BE job 'doom', known are"),
        (["--be", "stream", "--be", "stream"], "'stream' is on the node twice"),
        (["--be", "stream", "--platform", "vax"], "unknown platform 'vax', known are"),
        (["--be", "stream", "--speed", "0"], "--speed is 0.0"),
        (["--be", "stream", "--interval", "nan"], "--interval is nan"),
        (["--be", "stream", "--duration", "-1"], "--duration is -1.0"),
    ],
)
def test_wrong_arguments_get_one_sentence(tmp_path, arguments, sentence):
    result = CliRunner().invoke(app, ["mount", str(tmp_path / "node"), *arguments])
    assert isinstance(result.exception, Failure)
    assert result.exception.exit_code == 2
    assert sentence in str(result.exception)
    assert not (tmp_path / "node").exists()


def test_a_directory_of_somebody_else_is_not_touched(tmp_path):
    (tmp_path / "precious").write_text("mine")
    with pytest.raises(InputError, match="is not empty and not of a virtual node"):
        NodeProcess(MountOptions(tmp_path, "e5-2697v4", LOADS, fuse="off"), print).run()
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_a_plain_group_that_goes_while_it_is_looked_at_does_not_stop_the_node(tmp_path):
    folder = tmp_path / "node"
    with running(folder, "off"):
        group = folder / "resctrl" / "g"
        for attempt in range(60):  # at every point of the export in turn
            group.mkdir(exist_ok=True)
            time.sleep(attempt * 0.0004)
            shutil.rmtree(group, ignore_errors=True)
        shutil.rmtree(group, ignore_errors=True)
        before = len(lines(folder, "moses"))
        wait_for(lambda: len(lines(folder, "moses")) > before + 2)
        group.mkdir(exist_ok=True)
        wait_for(lambda: (group / "tasks").exists() and (group / "schemata").exists(), 3.0)
