"""The simulated processes and threads of a node: who is where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

FIRST_PID = 4_200_001
"""Above 2^22, the highest pid of a real kernel: a system call on a simulated pid fails with ESRCH and hits nobody."""


@dataclass
class Task:
    """One thread. `pid` is its process, `closid` and `rmid` its resctrl labels."""

    tid: int
    pid: int
    comm: str
    uid: int = 0
    closid: int = 0
    rmid: int = 0


class TaskTable(Protocol):
    """What the file systems need to know of tasks."""

    def find(self, tid: int) -> Task | None:
        """The task, or None where there is none."""
        ...

    def all(self) -> Iterable[Task]:
        """Every task, by id."""
        ...


@dataclass
class SimulatedTasks:
    """One process per tenant, with its threads."""

    tasks: dict[int, Task] = field(default_factory=dict[int, Task])

    def spawn(self, comm: str, threads: int, uid: int = 0) -> int:
        """A new process; returns its pid, which is also the id of its first thread."""
        pid = max(self.tasks, default=FIRST_PID - 1) + 1
        for tid in range(pid, pid + threads):
            self.tasks[tid] = Task(tid, pid, comm, uid)
        return pid

    def find(self, tid: int) -> Task | None:
        """The task, or None."""
        return self.tasks.get(tid)

    def all(self) -> Iterable[Task]:
        """Every task, by id."""
        return self.tasks.values()
