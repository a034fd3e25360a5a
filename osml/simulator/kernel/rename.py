"""rename(2) in resctrl: monitoring groups only, within or between mon_groups directories."""

from __future__ import annotations

import errno

from osml.simulator.kernel.groups import Group
from osml.simulator.kernel.kernfs import Directory, error
from osml.simulator.kernel.resctrl import Resctrl


def _group_at(resctrl: Resctrl, entry: Directory) -> Group | None:
    for group in resctrl.groups.values():
        for candidate in (group, *group.monitors.values()):
            if candidate.directory is entry:
                return candidate
    return None


def rename(resctrl: Resctrl, old: str, new: str) -> None:
    """Move or rename a monitoring group; its tasks take the new parent's CLOSID."""
    source = resctrl.tree.lookup(old)
    target_parent, name = resctrl.tree.parent(new)
    if name in target_parent.children:
        raise error(errno.EEXIST, new)
    status = resctrl.status
    status.clear()
    if not isinstance(source, Directory):
        raise status.refuse(errno.EPERM, "Source and destination must be directories")
    group = _group_at(resctrl, source)
    if group is None or group.parent is None:
        raise status.refuse(errno.EPERM, "Source must be a MON group\n")
    parent = next((g for g in resctrl.groups.values() if g.directory.children["mon_groups"] is target_parent), None)
    if parent is None:
        raise status.refuse(errno.EPERM, "Destination must be a mon_groups subdirectory\n")
    if group.cpus and parent is not group.parent:
        raise status.refuse(errno.EPERM, "Cannot move a MON group that monitors CPUs\n")
    for task in resctrl.tasks.all():
        if task.closid == group.closid and task.rmid == group.rmid:
            task.closid = parent.closid
    old_parent = group.parent
    holder = old_parent.directory.children["mon_groups"]
    assert isinstance(holder, Directory)  # noqa: S101 - for the type checker
    del holder.children[group.name], old_parent.monitors[group.name]
    group.name, group.parent, group.closid, group.values = name, parent, parent.closid, parent.values
    parent.monitors[name] = group
    target_parent.children[name] = group.directory
