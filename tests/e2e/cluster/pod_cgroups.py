"""Pods on this machine's own cgroup trees (v1), with a real process in each container."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
TOP = f"osml{os.getpid()}-kubepods"  # as kind names it, with a prefix
# An agent looks for pods in the whole tree, where those of a test beside this one are too.
UIDS = tuple(f"0b1e2c3d-000{number}-4000-8000-{os.getpid():012x}" for number in (1, 2))
WEB = {"app": "web"}
UNLIMITED = "-1"


def why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    if not all((CGROUPS / controller / "tasks").exists() for controller in ("cpu", "cpuset")):
        return "needs the controllers cpu and cpuset of cgroup v1"
    return ""


@dataclass
class Pods:
    """Cgroups as the kubelet makes them with the driver cgroupfs, and a process in each container."""

    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, "subprocess.Popen[bytes]"])

    def path(self, uid: str, container: str) -> str:
        return f"{TOP}/burstable/pod{uid}/{container}"

    def make(self, uid: str, container: str) -> None:
        """The cgroup alone, as the runtime makes it."""
        path = self.path(uid, container)
        for controller in ("cpu", "cpuset"):
            for parent in [*reversed(Path(path).parents[:-1]), Path(path)]:
                made = CGROUPS / controller / parent
                if made.exists():
                    continue
                made.mkdir()
                if controller == "cpuset":
                    for name in ("cpuset.cpus", "cpuset.mems"):
                        (made / name).write_text((made.parent / name).read_text())

    def start(self, uid: str, container: str) -> None:
        self.make(uid, container)
        path = self.path(uid, container)
        process = subprocess.Popen(["sleep", "1000"])
        for controller in ("cpu", "cpuset"):
            (CGROUPS / controller / path / "cgroup.procs").write_text(str(process.pid))
        self.running[path] = process

    def stop(self, uid: str, container: str) -> None:
        path = self.path(uid, container)
        process = self.running.pop(path)
        process.kill()
        process.wait()
        for controller in ("cpu", "cpuset"):
            remove(CGROUPS / controller / path)

    def cpus(self, uid: str, container: str) -> str:
        return (CGROUPS / "cpuset" / self.path(uid, container) / "cpuset.cpus").read_text().strip()

    def quota(self, uid: str, container: str) -> str:
        return (CGROUPS / "cpu" / self.path(uid, container) / "cpu.cfs_quota_us").read_text().strip()


def remove(group: Path) -> None:
    """rmdir(2), which waits until the last process has left."""
    deadline = time.monotonic() + 5
    while True:
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
