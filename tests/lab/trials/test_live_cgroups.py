"""The trial's cgroups on fake hierarchies, v1 and v2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from osml.base.failure import MachineError
from osml.lab.trials.live import cgroups
from osml.lab.trials.live.cgroups import Hierarchies, LiveGroups, end_tasks, find_hierarchies

V1 = """tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0
cgroup /sys/fs/cgroup/blkio cgroup rw,relatime,blkio 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""


def test_v1_controllers_are_found_where_they_are_mounted() -> None:
    found = find_hierarchies(V1)
    assert found.v2 is None
    assert found.v1["cpu"] == found.v1["cpuacct"] == Path("/sys/fs/cgroup/cpu,cpuacct")
    assert found.roots == [Path("/sys/fs/cgroup/cpu,cpuacct"), Path("/sys/fs/cgroup/cpuset")]
    assert "blkio" not in found.v1


def test_v2_is_taken_where_it_has_the_cpu_controller(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    found = find_hierarchies(f"cgroup2 {tmp_path} cgroup2 rw 0 0\n")
    assert found.v2 == tmp_path
    assert found.label == "cgroup v2"


def test_machine_without_a_cpu_controller_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("hugetlb\n")
    with pytest.raises(MachineError, match="no cgroup hierarchy with the cpu controller"):
        find_hierarchies(f"garbage\ncgroup2 {tmp_path} cgroup2 rw 0 0\n")


def _kernel_makes_files(directory: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A cgroup directory has its files from the start."""
    make = Path.mkdir

    def mkdir(self: Path, *args: object, **kwargs: object) -> None:
        make(self, *args, **kwargs)  # type: ignore[arg-type]
        if directory in self.parents:
            for name, text in files.items():
                if not (self / name).exists():
                    (self / name).write_text(text)

    monkeypatch.setattr(Path, "mkdir", mkdir)


def test_v1_groups_get_cpus_before_anything_and_weigh_what_their_threads_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _kernel_makes_files(
        tmp_path, {"cpuset.cpus": "\n", "cpuset.mems": "\n", "cpu.shares": "1024\n", "cgroup.procs": ""}, monkeypatch
    )
    (tmp_path / "cpuset.cpus").write_text("0-3\n")
    (tmp_path / "cpuset.mems").write_text("0\n")
    groups = LiveGroups(Hierarchies({"cpu": tmp_path, "cpuset": tmp_path}, None), "0-1")
    assert groups.create("redis", 1) == [tmp_path / "osml-live/redis"]
    groups.create("stress", 10)
    for name in ("osml-live", "osml-live/redis", "osml-live/stress"):
        assert (tmp_path / name / "cpuset.cpus").read_text().strip() == "0-1"
        assert (tmp_path / name / "cpuset.mems").read_text() == "0\n"
    weights = {
        n: (tmp_path / n / "cpu.shares").read_text() for n in ("osml-live", "osml-live/redis", "osml-live/stress")
    }
    assert weights == {"osml-live": "11264", "osml-live/redis": "1024", "osml-live/stress": "10240"}


def test_v2_groups_get_their_controllers_enabled_above_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"cgroup.controllers": "cpu memory\n", "cpu.weight": "100\n", "cgroup.subtree_control": ""}
    _kernel_makes_files(tmp_path, files, monkeypatch)
    (tmp_path / "cgroup.controllers").write_text("cpu memory io\n")
    groups = LiveGroups(Hierarchies({}, tmp_path))
    groups.create("stress", 200)
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (tmp_path / "osml-live/cgroup.subtree_control").read_text() == "+cpu +memory"
    assert (tmp_path / "osml-live/stress/cpu.weight").read_text() == "10000"  # the kernel's most


def test_cpu_time_is_read_in_seconds_from_both_versions(tmp_path: Path) -> None:
    group = tmp_path / "osml-live/stress"
    group.mkdir(parents=True)
    (group / "cpuacct.usage").write_text("2500000000\n")
    (group / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    assert LiveGroups(Hierarchies({"cpuacct": tmp_path}, None)).cpu_seconds("stress") == 2.5
    assert LiveGroups(Hierarchies({}, tmp_path)).cpu_seconds("stress") == 1.5


def test_nothing_to_remove_is_fine(tmp_path: Path) -> None:
    LiveGroups(Hierarchies({"cpu": tmp_path}, None)).remove()


def test_tasks_that_are_to_end_may_run_before_they_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed task of an idle or throttled group would keep the kernel's locks until it gets a CPU."""
    before = {"cpu.idle": "1", "cpu.shares": "2", "cpu.cfs_quota_us": "1000"}
    for name, value in before.items():
        (tmp_path / name).write_text(value)
    (tmp_path / "cgroup.procs").write_text("4194399\n")
    seen: list[dict[str, str]] = []

    def kill(pid: int, number: int) -> None:
        del pid, number
        seen.append({name: (tmp_path / name).read_text() for name in before})
        (tmp_path / "cgroup.procs").write_text("")

    monkeypatch.setattr("os.kill", kill)
    end_tasks(tmp_path)
    assert seen == [{"cpu.idle": "0", "cpu.shares": "65536", "cpu.cfs_quota_us": "-1"}]
    assert not (tmp_path / "cpu.max").exists()


def test_a_process_whose_home_is_gone_ends_in_the_root_and_is_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under `systemd-run --scope`: systemd removes the scope as soon as it is empty."""
    (tmp_path / "cgroup.procs").write_text("")
    (tmp_path / "osml-live-control").mkdir()
    (tmp_path / "osml-live-control/cgroup.procs").write_text("")
    (tmp_path / "osml-live-control/cpu.shares").write_text("1024")
    groups = LiveGroups(Hierarchies({"cpu": tmp_path}, None))
    monkeypatch.setattr(cgroups, "_own_group", lambda *_: "run-1.scope")  # which is not there
    with groups.in_control():
        assert (tmp_path / "osml-live-control/cgroup.procs").read_text() == "0\n"
    assert (tmp_path / "cgroup.procs").read_text() == "0\n"
    (tmp_path / "osml-live-control/cgroup.procs").write_text(f"{os.getpid()}\n")
    end_tasks(tmp_path / "osml-live-control")
