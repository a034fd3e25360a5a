"""Levers: the agent is killed after every step, and every call of it fails once.

The kernel's files are plain ones in a directory; the threads are real. Whatever came of a fault, a restore without
faults brings back what was found.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

SOURCE = Path(__file__).parents[1] / "system_call_faults.c"
GROUPS = {"web": "lc/web", "job": "be/job"}
POLICY = "sys/devices/system/cpu/cpufreq/policy0"  # one clock for both CPUs
INTERRUPTS = {"24/nvme0q1": "0-1", "25/eth0": "0"}  # where they are found; web has CPU 0 first, and then CPU 1
ERRORS = (errno.EIO, errno.EINVAL, errno.EBUSY, errno.EPERM, errno.ENOMEM, errno.ENOSPC)
MIB = 1024 * 1024
Found = dict[str, object]


@dataclass
class Machine:
    """Two services with a real process each, on plain files with one disk and two NUMA nodes of one CPU."""

    agent: Path
    root: Path
    library: Path | None
    realtime: bool
    pids: dict[str, int]

    def run(
        self, *arguments: str | Path, crash: int | None = None, at: int = 0, error: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The agent; killed after step `crash`, or with its call number `at` failing (`error`), or killing it."""
        env = dict(os.environ)
        if crash is not None:
            env["OSML_CRASH_AFTER_STEP"] = str(crash)
        elif self.library is not None:
            env |= {
                "LD_PRELOAD": str(self.library),
                "OSML_FAULT_ROOT": str(self.root),
                "OSML_FAULT_COUNT": str(self.root.parent / "count"),
                "OSML_FAULT_SCHEDULING": "1",
                "OSML_FAULT_AT": str(at),
            }
            if error is not None:
                env["OSML_FAULT_ERRNO"] = str(error)
        extra = [] if crash is None else ["--fault-injection"]
        command = [self.agent, *arguments, "--config", self.root / "agent.yaml", *extra]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    def apply(self, number: int, **fault: Any) -> subprocess.CompletedProcess[str]:
        return self.run("apply", self.decision(number), **fault)

    def decision(self, number: int) -> Path:
        """One of two divisions that differ in every lever."""
        first, second = (600, 300) if number == 0 else (400, 500)
        knobs: dict[str, dict[str, int]] = {
            "web": {"memory_mib": first, "disk_iops": second},
            "job": {"memory_mib": second, "disk_iops": first},
        }
        knobs["web"]["frequency_mhz"], knobs["job"]["frequency_mhz"] = (1500, 1200) if number == 0 else (1800, 2000)
        if self.realtime:
            knobs["web"]["realtime_priority"] = 10 + number
        cpus = {"web": str(number), "job": str(1 - number)}
        file = self.root.parent / f"decision-{number}.json"
        document = {
            "schema": "osml/decision/v1",
            "node": "node",
            "seq": 1 + number,
            "policy": "by-hand",
            "partition": {"regions": [{"owners": [name], "cores": 1} for name in GROUPS], "knobs": knobs},
            "assignments": [{"service": name, "cpus": cpus[name], "knobs": knobs[name]} for name in GROUPS],
        }
        file.write_text(json.dumps(document))
        return file

    def restore(self) -> None:
        done = self.run("restore")
        assert done.returncode == 0, done.stderr

    def state(self) -> Found:
        state: Found = {"clock": (self.root / POLICY / "scaling_max_freq").read_text().strip()}
        for name, group in GROUPS.items():
            directory = self.root / "cgroup" / group
            state[f"{name}.cpus"] = (directory / "cpuset.cpus").read_text().strip()
            state[f"{name}.nodes"] = (directory / "cpuset.mems").read_text().strip()
            state[f"{name}.memory"] = (directory / "memory.high").read_text().strip()
            # A plain file holds the last command instead of the table that the kernel makes of it.
            words = (directory / "io.max").read_text().split()
            state[f"{name}.reads"] = next((word for word in words if word.startswith("riops=")), "riops=max")
            state[f"{name}.policy"] = os.sched_getscheduler(self.pids[name])
            state[f"{name}.priority"] = os.sched_getparam(self.pids[name]).sched_priority
        for place in INTERRUPTS:
            state[place] = (self.root / "irq" / place).with_name("smp_affinity_list").read_text().strip()
        return state

    def calls(self) -> int:
        return int((self.root.parent / "count").read_text())


def write_tree(root: Path, pids: dict[str, int]) -> None:
    files = {
        "sys/devices/system/cpu/online": "0-1\n",
        f"{POLICY}/related_cpus": "0 1 \n",
        f"{POLICY}/cpuinfo_min_freq": "800000\n",
        f"{POLICY}/scaling_min_freq": "800000\n",
        f"{POLICY}/scaling_max_freq": "2800000\n",
        "sys/block/sda/dev": "8:0\n",
        "sys/block/sda/device/vendor": "x\n",
        "sys/devices/system/node/online": "0-1\n",
        "sys/devices/system/node/has_memory": "0-1\n",
        "cgroup/cgroup.controllers": "cpuset cpu memory io\n",
    }
    for place, cpus in INTERRUPTS.items():
        handler = root / "irq" / place
        handler.mkdir(parents=True)
        handler.with_name("smp_affinity_list").write_text(f"{cpus}\n")
    for node in (0, 1):
        files |= {
            f"sys/devices/system/node/node{node}/cpulist": f"{node}\n",
            f"sys/devices/system/node/node{node}/meminfo": f"Node {node} MemTotal: {MIB} kB\n"
            f"Node {node} MemFree: {MIB} kB\n",
        }
    for name, group in GROUPS.items():
        files |= {
            f"cgroup/{group}/cgroup.procs": f"{pids[name]}\n",
            f"cgroup/{group}/cpuset.cpus": "\n",
            f"cgroup/{group}/cpuset.mems": "0-1\n",
            f"{Path('cgroup', group).parent}/cpuset.mems.effective": "0-1\n",
            f"cgroup/{group}/memory.high": "max\n" if name == "web" else f"{900 * MIB}\n",
            f"cgroup/{group}/memory.current": f"{100 * MIB}\n",
            f"cgroup/{group}/memory.stat": "inactive_file 0\n",
            f"cgroup/{group}/io.max": "" if name == "web" else "8:0 rbps=max wbps=max riops=900 wiops=max\n",
        }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def may_be_realtime(pid: int) -> bool:
    try:
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(1))
        os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
    except PermissionError:
        return False
    return True


@pytest.fixture
def machine(agent: Path, tmp_path: Path) -> Iterator[Machine]:
    root = tmp_path / "machine"
    root.mkdir()
    children = {name: subprocess.Popen(["sleep", "600"]) for name in GROUPS}
    try:
        pids = {name: child.pid for name, child in children.items()}
        realtime = may_be_realtime(pids["web"])
        write_tree(root, pids)
        roots = {name: str(root / name) for name in ("resctrl", "cgroup", "irq")} | {"sysfs": str(root / "sys")}
        web = {"class": "lc", "target_ms": 10, "latency": {"file": str(root / "latency.jsonl")}}
        config = {
            "node": "node",
            "server": {"url": "http://127.0.0.1:9"},
            "state_dir": str(root / "state"),
            "roots": roots,
            "cpu": {"memory_nodes": "follow"},
            "levers": {
                "memory": "on",
                "memory_mib": 1000,
                "disk": "on",
                "disk_iops": 1000,
                "frequency": "on",
                "interrupts": "on",
                "realtime": "on" if realtime else "off",
            },
            "services": [
                {"name": name, "match": {"cgroup": group}, **(web if name == "web" else {"class": "be"})}
                for name, group in GROUPS.items()
            ],
        }
        (root / "agent.yaml").write_text(yaml.safe_dump(config))
        library = tmp_path / "faults.so"
        compiler = shutil.which("cc")
        if compiler is not None:
            subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
        yield Machine(agent, root, library if compiler else None, realtime, pids)
    finally:
        for child in children.values():
            child.kill()
            child.wait()


def test_levers_are_applied_changed_and_restored(machine: Machine) -> None:
    found = machine.state()
    done = machine.apply(0)
    assert done.returncode == 0, done.stderr
    divided = machine.state()
    assert (divided["web.memory"], divided["web.reads"]) == (str(600 * MIB), "riops=300")
    assert divided["clock"] == "1500000"  # of the two that share it the faster one
    assert (divided["24/nvme0q1"], divided["25/eth0"]) == ("1", "1")
    assert (divided["web.nodes"], divided["job.nodes"]) == ("0", "1")
    if machine.realtime:
        assert (divided["web.policy"], divided["web.priority"]) == (os.SCHED_RR, 10)
    assert machine.apply(1).returncode == 0
    assert machine.state()["job.memory"] == str(500 * MIB)
    assert machine.state()["clock"] == "2000000"
    assert (machine.state()["24/nvme0q1"], machine.state()["25/eth0"]) == ("0", "0")
    assert (machine.state()["web.nodes"], machine.state()["job.nodes"]) == ("1", "0")
    machine.restore()
    assert machine.state() == found


def test_show_has_a_column_for_each_lever_that_is_set(machine: Machine) -> None:
    assert machine.apply(0).returncode == 0
    header, *rows = (line.split() for line in machine.run("show").stdout.splitlines())
    shown = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert (shown["web"]["memory_mib"], shown["job"]["memory_mib"]) == ("600", "300")
    assert (shown["web"]["disk_iops"], shown["web"]["frequency_mhz"]) == ("300", "1500")
    assert ("realtime_priority" in header) == machine.realtime


def test_apply_says_why_memory_may_stay_on_an_old_node(machine: Machine) -> None:
    meminfo = machine.root / "sys/devices/system/node/node1/meminfo"
    meminfo.write_text(f"Node 1 MemTotal: {MIB} kB\nNode 1 MemFree: 90000 kB\n")
    done = machine.apply(0)
    assert done.returncode == 0, done.stderr
    assert "memory_nodes.job: nodes 1 near its CPUs have 87 MiB free, 100 MiB would move there" in done.stderr
    assert (machine.state()["web.nodes"], machine.state()["job.nodes"]) == ("0", "0-1")


@pytest.mark.parametrize("before", [None, 0], ids=["first", "change"])
def test_killed_after_any_step_the_next_start_makes_it_whole(machine: Machine, before: int | None) -> None:
    found = machine.state()
    target = 0 if before is None else 1
    killed = 0
    for step in range(1, 20):
        if before is not None:
            assert machine.apply(before).returncode == 0
        code = machine.apply(target, crash=step).returncode
        if code == 0:
            break
        assert code == -signal.SIGKILL
        killed += 1
        if step % 2 == 0:  # by a decision, else by a restore
            assert machine.apply(target).returncode == 0
            assert machine.state()["web.memory"] == str((600 if target == 0 else 400) * MIB)
        machine.restore()
        assert machine.state() == found, f"killed after step {step}"
    assert killed >= (12 if machine.realtime else 11)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("error", [None, *ERRORS], ids=["killed", *(errno.errorcode[code] for code in ERRORS)])
@pytest.mark.parametrize("scene", ["apply", "change", "restore"])
def test_no_call_is_one_too_many(machine: Machine, scene: str, error: int | None) -> None:
    if machine.library is None:
        pytest.skip("no C compiler")
    found = machine.state()
    arguments = {
        "apply": ("apply", machine.decision(0)),
        "change": ("apply", machine.decision(1)),
        "restore": ("restore",),
    }

    def prepare() -> None:
        if scene != "apply":
            assert machine.apply(0).returncode == 0

    machine.restore()  # the state directory is there from now on
    prepare()
    assert machine.run(*arguments[scene]).returncode == 0
    wanted = machine.state()
    calls = machine.calls()
    assert calls > 12
    machine.restore()
    for at in range(1, calls + 1):
        prepare()
        before = machine.state()
        done = machine.run(*arguments[scene], at=at, error=error)
        if error is None:
            assert done.returncode == -signal.SIGKILL, at
        elif done.returncode != 0 and scene != "restore" and "rolled_back" in done.stdout:
            assert machine.state() == before, f"call {at} failed: {done.stdout}"
        elif done.returncode == 0 and scene == "restore":
            assert machine.state() == found, f"restored, it says: call {at}"
        elif done.returncode == 0:
            # An interrupt that cannot be moved holds no decision up: it stays where it was. A plain file is empty then.
            now = machine.state()
            strange = {name for name in now if now[name] not in (before[name], wanted[name])}
            assert strange <= {place for place in INTERRUPTS if not now[place]}, f"call {at}: {now}"
        machine.restore()
        assert machine.state() == found, at
