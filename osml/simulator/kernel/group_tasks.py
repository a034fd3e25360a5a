"""The tasks file of a resctrl group."""

from __future__ import annotations

import errno

from osml.simulator.kernel import numbers
from osml.simulator.kernel.groups import Group, Status
from osml.simulator.kernel.kernfs import Caller
from osml.simulator.kernel.tasks import TaskTable


def show(tasks: TaskTable, group: Group) -> str:
    """Thread ids: of the whole control group with its monitoring groups, or of one monitoring group."""
    return "".join(
        f"{task.tid}\n"
        for task in tasks.all()
        if task.closid == group.closid and (group.parent is None or task.rmid == group.rmid)
    )


def write(tasks: TaskTable, status: Status, group: Group, text: str, caller: Caller) -> None:
    """Move the named threads, left to right; the first that fails ends the command, earlier ones stay moved."""
    left = text
    while left and not left.startswith("\n"):
        head, comma, left = left.partition(",")
        if not comma:
            left = ""
        name = head.strip()
        try:
            tid = numbers.signed_any_base(name)
        except OSError:
            raise status.refuse(errno.EINVAL, f"Task list parsing error pid {name}\n") from None
        if tid < 0:
            raise status.refuse(errno.EINVAL, f"Invalid pid {tid}\n")
        try:
            _move(tasks, status, group, tid or caller.pid, caller)
        except OSError:
            status.put(f"Error while processing task {tid}\n")
            raise


def _move(tasks: TaskTable, status: Status, group: Group, tid: int, caller: Caller) -> None:
    task = tasks.find(tid)
    if task is None:
        raise status.refuse(errno.ESRCH, f"No task {tid}\n")
    if caller.uid not in (0, task.uid):
        raise status.refuse(errno.EPERM, f"No permission to move task {tid}\n")
    if group.parent is not None and task.closid != group.closid:
        raise status.refuse(errno.EINVAL, "Can't move task to different control group\n")
    task.closid, task.rmid = group.closid, group.rmid
