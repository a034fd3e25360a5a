"""cgroup v2 with the controllers that a node agent uses: cpuset, cpu, memory."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from osml.domain.cpulist import format_cpulist
from osml.simulator.kernel import numbers
from osml.simulator.kernel.counter import Clock, Counter
from osml.simulator.kernel.kernfs import Caller, Directory, Tree, directory, error, file
from osml.simulator.kernel.tasks import SimulatedTasks

CONTROLLERS = ("cpuset", "cpu", "memory")
_PERIOD_US = (1000, 1_000_000)


@dataclass(eq=False)
class Cgroup:
    """One group. `cpus` is what was asked for (empty: the parent's), `quota_us` None means max."""

    name: str
    parent: Cgroup | None
    usage_us: Counter
    throttled_us: Counter
    directory: Directory = field(default_factory=directory)
    children: dict[str, Cgroup] = field(default_factory=dict[str, "Cgroup"])
    pids: set[int] = field(default_factory=set[int])
    enabled: set[str] = field(default_factory=set[str])
    cpus: frozenset[int] = frozenset()
    mems: str = ""
    quota_us: int | None = None
    period_us: int = 100_000
    weight: int = 100
    memory_bytes: int = 0
    memory_max: int | None = None
    periods: float = 0.0
    throttled_periods: float = 0.0

    @property
    def path(self) -> str:
        """Path below the root, '/' for the root itself."""
        if self.parent is None:
            return "/"
        return f"{self.parent.path.rstrip('/')}/{self.name}"


class CgroupV2:
    """One mounted cgroup2 hierarchy."""

    def __init__(self, n_cpus: int, tasks: SimulatedTasks, clock: Clock) -> None:
        self._all = frozenset(range(n_cpus))
        self._tasks = tasks
        self._clock = clock
        self.root = self._new("", None)
        self.tree = Tree(self.root.directory)

    # -- for the node --------------------------------------------------------------------------------------------

    def find(self, path: str) -> Cgroup:
        """The group at a path below the root; ENOENT."""
        group = self.root
        for name in path.strip("/").split("/"):
            if name and name not in group.children:
                raise error(errno.ENOENT, path)
            group = group.children[name] if name else group
        return group

    def make(self, path: str) -> Cgroup:
        """Create a group with all controllers, and its parents."""
        group = self.root
        for name in path.strip("/").split("/"):
            self._enable(group, set(CONTROLLERS))
            if name not in group.children:
                self._make_child(group, name, Caller())
            group = group.children[name]
        return group

    def group_of(self, pid: int) -> Cgroup:
        """The group of a process."""
        return self._search(self.root, pid) or self.root

    def _search(self, group: Cgroup, pid: int) -> Cgroup | None:
        if pid in group.pids:
            return group
        return next((found for child in group.children.values() if (found := self._search(child, pid))), None)

    def effective_cpus(self, group: Cgroup) -> frozenset[int]:
        """What is asked for within the parent's effective set; the parent's set where nothing remains."""
        if group.parent is None:
            return self._all
        above = self.effective_cpus(group.parent)
        return (group.cpus & above) or above

    def quota_cpus(self, group: Cgroup) -> float | None:
        """The tightest CPU quota on the way to the root, in CPUs."""
        above = self.quota_cpus(group.parent) if group.parent else None
        if group.quota_us is None:
            return above
        own = group.quota_us / group.period_us
        return own if above is None else min(own, above)

    def account(self, group: Cgroup, cpu_s: float, throttled_s: float, dt: float) -> None:
        """CPU time used in a step, for the group and all above it."""
        step: Cgroup | None = group
        while step is not None:
            step.usage_us.add(cpu_s * 1e6, dt)
            step.throttled_us.add(throttled_s * 1e6 if step is group else 0.0, dt)
            step = step.parent
        if group.quota_us is not None:
            group.periods += dt * 1e6 / group.period_us
            group.throttled_periods += throttled_s * 1e6 / group.period_us

    # -- the tree ------------------------------------------------------------------------------------------------

    def _new(self, name: str, parent: Cgroup | None) -> Cgroup:
        group = Cgroup(name, parent, Counter(self._clock), Counter(self._clock))
        here = group.directory
        here.make = lambda child, caller: self._make_child(group, child, caller)
        here.remove = lambda child: self._remove_child(group, child)
        self._add(group, "cgroup.controllers", lambda: self._list(self._available(group)))
        self._add(group, "cgroup.subtree_control", lambda: self._list(group.enabled), self._write_control)
        pids = lambda: "".join(f"{pid}\n" for pid in sorted(group.pids))  # noqa: E731
        self._add(group, "cgroup.procs", pids, self._write_procs)
        self._add(group, "cgroup.threads", lambda: self._threads(group), self._write_threads)
        self._add(group, "cpu.stat", lambda: self._cpu_stat(group), live=True)
        if parent is None:
            self._add(group, "cpuset.cpus.effective", lambda: format_cpulist(self.effective_cpus(group)) + "\n")
            self._add(group, "cpuset.mems.effective", lambda: "0\n")
            return group
        self._add(group, "cgroup.type", lambda: "domain\n", self._write_type)
        self._add(group, "cgroup.events", lambda: f"populated {int(self._populated(group))}\nfrozen 0\n")
        for controller in parent.enabled:
            self._controller_files(group, controller)
        return group

    def _add(
        self,
        group: Cgroup,
        name: str,
        show: Callable[[], str],
        command: Callable[[Cgroup, str], None] | None = None,
        *,
        live: bool = False,
    ) -> None:
        """One file. Commands get trimmed text; a write of nothing is no command."""

        def store(text: str, _: Caller) -> None:
            if text and command is not None:
                command(group, text.strip())

        group.directory.add(name, file(show, store if command else None, live=live, strict=False))

    def _controller_files(self, group: Cgroup, controller: str) -> None:
        add = self._add
        if controller == "cpuset":
            effective = lambda: format_cpulist(self.effective_cpus(group)) + "\n"  # noqa: E731
            cpus = lambda: format_cpulist(group.cpus) + "\n"  # noqa: E731
            add(group, "cpuset.cpus", cpus, self._write_cpus)
            add(group, "cpuset.cpus.effective", effective)
            add(group, "cpuset.mems", lambda: group.mems + "\n", self._write_mems)
            add(group, "cpuset.mems.effective", lambda: "0\n")
        elif controller == "cpu":
            quota = lambda: f"{'max' if group.quota_us is None else group.quota_us} {group.period_us}\n"  # noqa: E731
            add(group, "cpu.max", quota, self._write_max)
            add(group, "cpu.weight", lambda: f"{group.weight}\n", self._write_weight)
        elif controller == "memory":
            limit = lambda: f"{'max' if group.memory_max is None else group.memory_max}\n"  # noqa: E731
            add(group, "memory.current", lambda: f"{self._memory(group)}\n")
            add(group, "memory.max", limit, self._write_memory_max)

    def _make_child(self, parent: Cgroup, name: str, caller: Caller) -> None:
        if "\n" in name:
            raise error(errno.EINVAL)
        group = self._new(name, parent)
        parent.children[name] = group
        parent.directory.add(name, group.directory, caller)
        for entry in group.directory.children.values():
            entry.uid, entry.gid = caller.uid, caller.gid

    def _remove_child(self, parent: Cgroup, name: str) -> None:
        group = parent.children[name]
        if group.pids or group.children:
            raise error(errno.EBUSY)
        del parent.children[name]
        parent.directory.drop(name)

    # -- contents ------------------------------------------------------------------------------------------------

    def _available(self, group: Cgroup) -> set[str]:
        return set(CONTROLLERS) if group.parent is None else group.parent.enabled

    @staticmethod
    def _list(controllers: set[str]) -> str:
        return " ".join(name for name in CONTROLLERS if name in controllers) + "\n"

    def _populated(self, group: Cgroup) -> bool:
        return bool(group.pids) or any(self._populated(child) for child in group.children.values())

    def _threads(self, group: Cgroup) -> str:
        return "".join(f"{task.tid}\n" for task in self._tasks.all() if task.pid in group.pids)

    def _memory(self, group: Cgroup) -> int:
        return group.memory_bytes + sum(self._memory(child) for child in group.children.values())

    def _cpu_stat(self, group: Cgroup) -> str:
        usage = int(group.usage_us.value())
        text = f"usage_usec {usage}\nuser_usec {usage * 9 // 10}\nsystem_usec {usage - usage * 9 // 10}\n"
        if group.parent is not None and "cpu" in group.parent.enabled:
            text += f"nr_periods {int(group.periods)}\nnr_throttled {int(group.throttled_periods)}\n"
            text += f"throttled_usec {int(group.throttled_us.value())}\nnr_bursts 0\nburst_usec 0\n"
        return text

    # -- commands ------------------------------------------------------------------------------------------------

    def _enable(self, group: Cgroup, names: set[str]) -> None:
        new = names - group.enabled
        group.enabled |= names
        for child in group.children.values():
            for name in new:
                self._controller_files(child, name)

    def _write_control(self, group: Cgroup, text: str) -> None:
        on: set[str] = set()
        off: set[str] = set()
        for word in text.split():
            if word[0] not in "+-" or word[1:] not in CONTROLLERS:
                raise error(errno.EINVAL)
            (on if word[0] == "+" else off).add(word[1:])
        if not on <= self._available(group):
            raise error(errno.ENOENT)
        if "memory" in on and group.pids and group.parent is not None:
            raise error(errno.EBUSY)
        if any(off & child.enabled for child in group.children.values()):
            raise error(errno.EBUSY)
        self._enable(group, on)
        group.enabled -= off
        for child in group.children.values():
            for name in [n for n in child.directory.children if n.split(".")[0] in off and n != "cpu.stat"]:
                child.directory.drop(name)

    def _write_procs(self, group: Cgroup, text: str) -> None:
        pid = numbers.signed_any_base(text)
        task = self._tasks.find(pid)
        if pid < 0:
            raise error(errno.EINVAL)
        if task is None:
            raise error(errno.ESRCH)
        if group.parent is not None and group.enabled & {"memory"}:
            raise error(errno.EBUSY)
        self.group_of(task.pid).pids.discard(task.pid)
        group.pids.add(task.pid)

    def _write_threads(self, group: Cgroup, text: str) -> None:
        task = self._tasks.find(numbers.signed_any_base(text))
        if task is None:
            raise error(errno.ESRCH)
        if task.pid not in group.pids:
            raise error(errno.EOPNOTSUPP)  # single threads move only within a threaded domain

    @staticmethod
    def _write_type(group: Cgroup, text: str) -> None:
        del group
        raise error(errno.EOPNOTSUPP if text == "threaded" else errno.EINVAL)

    def _write_cpus(self, group: Cgroup, text: str) -> None:
        group.cpus = numbers.cpu_list(text, len(self._all))

    @staticmethod
    def _write_mems(group: Cgroup, text: str) -> None:
        if text not in ("", "0"):
            raise error(errno.EINVAL)
        group.mems = text

    @staticmethod
    def _write_max(group: Cgroup, text: str) -> None:
        words = text.split()
        if not words or not all(re.fullmatch(r"max|[0-9]+", word) for word in words[:2]) or "max" in words[1:2]:
            raise error(errno.EINVAL)
        quota = None if words[0] == "max" else int(words[0])
        period = int(words[1]) if len(words) > 1 else group.period_us
        if not _PERIOD_US[0] <= period <= _PERIOD_US[1] or (quota is not None and quota < _PERIOD_US[0]):
            raise error(errno.EINVAL)
        group.quota_us, group.period_us = quota, period

    @staticmethod
    def _write_weight(group: Cgroup, text: str) -> None:
        weight = numbers.unsigned(text, 10)
        if not 1 <= weight <= 10000:
            raise error(errno.ERANGE)
        group.weight = weight

    @staticmethod
    def _write_memory_max(group: Cgroup, text: str) -> None:
        match = re.fullmatch(r"([0-9]+)([KMGkmg]?)", text)
        if text != "max" and match is None:
            raise error(errno.EINVAL)
        if match is None:
            group.memory_max = None
            return
        scale = {"": 0, "k": 10, "m": 20, "g": 30}[match[2].lower()]
        group.memory_max = (int(match[1]) << scale) // 4096 * 4096
