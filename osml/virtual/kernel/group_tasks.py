"""The tasks file of a resctrl group."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from osml.virtual.kernel import numbers
from osml.virtual.kernel.kernfs import Caller

if TYPE_CHECKING:
    from osml.virtual.kernel.resctrl import Group, Resctrl


def show(resctrl: Resctrl, group: Group) -> str:
    """Thread ids: of the whole control group with its monitoring groups, or of one monitoring group."""
    return "".join(
        f"{task.tid}\n"
        for task in resctrl.tasks.all()
        if task.closid == group.closid and (group.parent is None or task.rmid == group.rmid)
    )


def write(resctrl: Resctrl, group: Group, text: str, caller: Caller) -> None:
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
            raise resctrl.status.refuse(errno.EINVAL, f"Task list parsing error pid {name}\n") from None
        if tid < 0:
            raise resctrl.status.refuse(errno.EINVAL, f"Invalid pid {tid}\n")
        try:
            _move(resctrl, group, tid or caller.pid, caller)
        except OSError:
            resctrl.status.put(f"Error while processing task {tid}\n")
            raise


def _move(resctrl: Resctrl, group: Group, tid: int, caller: Caller) -> None:
    task = resctrl.tasks.find(tid)
    if task is None:
        raise resctrl.status.refuse(errno.ESRCH, f"No task {tid}\n")
    if caller.uid not in (0, task.uid):
        raise resctrl.status.refuse(errno.EPERM, f"No permission to move task {tid}\n")
    if group.parent is not None and task.closid != group.closid:
        raise resctrl.status.refuse(errno.EINVAL, "Can't move task to different control group\n")
    task.closid, task.rmid = group.closid, group.rmid
