"""The trial's own cgroups, `osml-live/<service>`, on machines with cgroup v1 controllers or cgroup v2.

Dividing is the agent's work, or the conditions of a cell: at first the groups only say which tasks are which service.
Group scheduling alone would already favour a service with few threads, so every group gets the weight that its threads
would have without groups. Then "unmanaged" means what it says.

All of them together weigh as much as their threads, too. More would starve kernel threads that serve the network and
the disk, and with them the services. Server, agent and trial sit in a group beside them that weighs more: who shall end
an overload must get through in it. Nice values would not do that, the kernel compares those only within a session.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from osml.base.failure import Failure, MachineError

ROOT_NAME = "osml-live"
CONTROL_NAME = "osml-live-control"
CONTROL_THREADS = 64  # weighs as many threads
WANTED = ("cpu", "cpuset", "cpuacct", "memory")
V1_WEIGHT = 1024  # cpu.shares of one thread at nice 0
V2_WEIGHT = 100  # cpu.weight of the same
EMPTY_WITHIN_S = 5.0
WEIGHTS = (("cpu.shares", str(V1_WEIGHT * CONTROL_THREADS)), ("cpu.weight", str(V2_WEIGHT * CONTROL_THREADS)))
"""What a group weighs whose tasks are to end."""


@dataclass(frozen=True)
class Hierarchies:
    """Mount points by controller (v1), or the one of cgroup v2."""

    v1: dict[str, Path]
    v2: Path | None

    @property
    def roots(self) -> list[Path]:
        """Each mount point once."""
        return [self.v2] if self.v2 is not None else list(dict.fromkeys(self.v1.values()))

    @property
    def label(self) -> str:
        """How it is called in summaries."""
        return "cgroup v2" if self.v2 is not None else "cgroup v1 (" + ", ".join(self.v1) + ")"


def find_hierarchies(mounts: str) -> Hierarchies:
    """Out of the text of /proc/mounts. v1 wins where it has the cpu controller (a hybrid machine).

    Raises MachineError where neither has one.
    """
    v1: dict[str, Path] = {}
    unified: Path | None = None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        _, path, kind, options = fields[:4]
        if kind == "cgroup":
            v1.update({name: Path(path) for name in WANTED if name in options.split(",")})
        elif kind == "cgroup2":
            unified = Path(path)
    if "cpu" in v1:
        return Hierarchies({name: v1[name] for name in WANTED if name in v1}, None)
    if unified is not None and "cpu" in (unified / "cgroup.controllers").read_text().split():
        return Hierarchies({}, unified)
    raise MachineError("no cgroup hierarchy with the cpu controller is mounted, neither v1 nor v2: see /proc/cgroups")


class LiveGroups:
    """The groups of one trial. `remove()` also clears what a killed trial left behind."""

    def __init__(self, hierarchies: Hierarchies, cpus: str | None = None, precedence: int = 1) -> None:
        self.hierarchies = hierarchies
        self._precedence = precedence  # how many times the weight of its threads the whole has
        self._cpus = cpus  # kernel list that the services are confined to; None = all
        self._threads: dict[str, int] = {}

    def create(self, name: str, threads: int) -> list[Path]:
        """Group of one service in every hierarchy; `threads` is how many of its threads want to run at once."""
        self._threads[name] = threads
        for root in self.hierarchies.roots:
            self._make(root, root / ROOT_NAME, self._precedence * sum(self._threads.values()))
            if self._cpus is not None and (root / ROOT_NAME / "cpuset.cpus").exists():
                (root / ROOT_NAME / "cpuset.cpus").write_text(self._cpus)
            self._make(root / ROOT_NAME, root / ROOT_NAME / name, threads)
        return self.directories(name)

    def create_control(self) -> list[Path]:
        """The group of server, agent and trial: CPU time only."""
        root = self.hierarchies.v2 or self.hierarchies.v1["cpu"]
        self._make(root, root / CONTROL_NAME, CONTROL_THREADS)
        return [root / CONTROL_NAME]

    @contextmanager
    def in_control(self) -> Generator[None]:
        """This process in the control group, and back where it came from at the end."""
        control = self.create_control()[0]
        home = control.parent / _own_group(Path("/proc/self/cgroup").read_text(), self.hierarchies.v2 is not None)
        (control / "cgroup.procs").write_text("0\n")
        try:
            yield
        finally:
            try:
                (home / "cgroup.procs").write_text("0\n")
            except OSError:  # whoever made it has removed it, as systemd does with an empty scope
                (control.parent / "cgroup.procs").write_text("0\n")

    @property
    def outside(self) -> list[Path]:
        """Where the load generator belongs: the root, whose tasks may have real-time priority."""
        return [self.hierarchies.v2 or self.hierarchies.v1["cpu"]]

    def directories(self, name: str) -> list[Path]:
        """The service's directory in every hierarchy."""
        return [root / ROOT_NAME / name for root in self.hierarchies.roots]

    def cpu_seconds(self, name: str) -> float:
        """CPU time that the service has used so far."""
        if self.hierarchies.v2 is not None:
            text = (self.hierarchies.v2 / ROOT_NAME / name / "cpu.stat").read_text()
            return int(text.split()[1]) / 1e6  # usage_usec is the first line
        return int((self.hierarchies.v1["cpuacct"] / ROOT_NAME / name / "cpuacct.usage").read_text()) / 1e9

    def set_weight(self, name: str, weight: float) -> None:
        """Weight of a group, relative to that of one thread."""
        v2 = self.hierarchies.v2
        if v2 is not None:
            (v2 / ROOT_NAME / name / "cpu.weight").write_text(str(max(1, round(V2_WEIGHT * weight))))
        else:
            (self._cpu(name) / "cpu.shares").write_text(str(max(2, round(V1_WEIGHT * weight))))

    def set_quota(self, name: str, cpus: float | None, period_ms: float) -> None:
        """CPU time that a group may use, in CPUs a period; None is no limit."""
        period_us = round(1000 * period_ms)
        if self.hierarchies.v2 is not None:
            quota = "max" if cpus is None else str(round(cpus * period_us))
            (self._cpu(name) / "cpu.max").write_text(f"{quota} {period_us}")
            return
        (self._cpu(name) / "cpu.cfs_quota_us").write_text("-1")  # first: not every pair of old and new is legal
        (self._cpu(name) / "cpu.cfs_period_us").write_text(str(period_us))
        if cpus is not None:
            (self._cpu(name) / "cpu.cfs_quota_us").write_text(str(round(cpus * period_us)))

    def set_idle(self, name: str, idle: bool) -> None:
        """Whether all tasks of a group are SCHED_IDLE to others. MachineError where the kernel lacks cpu.idle."""
        file = self._cpu(name) / "cpu.idle"
        if not file.exists():
            raise MachineError("this kernel has no cpu.idle in its cgroups: it needs Linux 5.15 or later")
        file.write_text("1" if idle else "0")

    def set_cpus(self, name: str, cpus: str) -> None:
        """The CPUs that a group may use, as a kernel list."""
        root = self.hierarchies.v2 or self.hierarchies.v1["cpuset"]
        (root / ROOT_NAME / name / "cpuset.cpus").write_text(cpus)

    def throttled_periods(self, name: str) -> int:
        """Periods in which the group ran out of its quota, so far."""
        for line in (self._cpu(name) / "cpu.stat").read_text().splitlines():
            if line.startswith("nr_throttled "):
                return int(line.split()[1])
        return 0

    def _cpu(self, name: str) -> Path:
        return (self.hierarchies.v2 or self.hierarchies.v1["cpu"]) / ROOT_NAME / name

    def _make(self, parent: Path, directory: Path, threads: int) -> None:
        v2 = self.hierarchies.v2 is not None
        if v2:
            offered = (parent / "cgroup.controllers").read_text().split()
            (parent / "cgroup.subtree_control").write_text(" ".join(f"+{n}" for n in WANTED if n in offered))
        directory.mkdir(exist_ok=True)
        # A new v1 cpuset is empty and takes no task before it has CPUs and memory nodes.
        for file in () if v2 else ("cpuset.cpus", "cpuset.mems"):
            if (directory / file).exists():
                (directory / file).write_text((parent / file).read_text())
        weight, unit, most = ("cpu.weight", V2_WEIGHT, 10_000) if v2 else ("cpu.shares", V1_WEIGHT, 262_144)
        if (directory / weight).exists():
            (directory / weight).write_text(str(min(unit * threads, most)))

    def remove(self) -> None:
        """End every task in the groups and remove them. Raises Failure, naming the group, where one stays."""
        for root in self.hierarchies.roots:
            for top in (root / ROOT_NAME, root / CONTROL_NAME):
                groups = sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True)
                for group in [*groups, top] if top.is_dir() else []:
                    end_tasks(group)
                    try:
                        group.rmdir()
                    except OSError as error:
                        raise Failure(f"cgroup {group} can't be removed: {error.strerror}") from None


def _own_group(text: str, v2: bool) -> str:
    """Path of this process below the mount point, out of /proc/self/cgroup."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if (v2 and not controllers) or (not v2 and "cpu" in controllers.split(",")):
            return path.lstrip("/")
    return ""


def _let_run(group: Path) -> None:
    """Take back what keeps a group from the CPU: a killed task needs it to end, and holds locks of the kernel until it
    has ended.
    """
    for name, value in (("cpu.idle", "0"), ("cpu.cfs_quota_us", "-1"), ("cpu.max", "max"), *WEIGHTS):
        with contextlib.suppress(OSError):  # the root of a hierarchy has no limits, and each version its own files
            (group / name).open("r+").close()  # never create one
            (group / name).write_text(value)


def end_tasks(group: Path) -> None:
    """Kill every task of a group, whose CPU limits and weight are lifted for it; Failure, naming them, where some
    stay.
    """
    _let_run(group)
    deadline = time.monotonic() + EMPTY_WITHIN_S
    while pids := [pid for pid in (group / "cgroup.procs").read_text().split() if int(pid) != os.getpid()]:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        if time.monotonic() > deadline:
            raise Failure(f"cgroup {group} still has tasks {', '.join(pids)} {EMPTY_WITHIN_S:g} s after SIGKILL")
        time.sleep(0.02)
