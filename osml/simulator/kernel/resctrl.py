"""The resctrl file system: groups, and what may be done with them.

Behaviour of Linux 6.18 with kernel-mode details that an agent can see: errno values, the texts of
info/last_cmd_status, atomic schemata writes, defaults of new groups, what a removed group leaves behind.
Not there: CDP, L2, pseudo-locking, software MBA control, assignable counters.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable

from osml.domain.cpulist import format_cpulist
from osml.simulator.kernel import group_tasks, numbers, rdt_info, schemata
from osml.simulator.kernel.groups import Group, Status
from osml.simulator.kernel.kernfs import Caller, Directory, Tree, directory, error, file
from osml.simulator.kernel.rdt import RdtProfile
from osml.simulator.kernel.tasks import TaskTable

Reading = Callable[[Group, int, str], str]
"""(group, domain, event) -> what the event file shows."""


class Resctrl:
    """One mounted resctrl. `groups` are the control groups by name, the default one under ''."""

    def __init__(self, profile: RdtProfile, tasks: TaskTable, reading: Reading | None = None) -> None:
        self.profile = profile
        self.tasks = tasks
        self.status = Status()
        self.reading: Reading = reading or (lambda group, domain, event: "0")
        self._free_rmids = deque(range(1, profile.n_rmids))
        root = Group("", 0, 0, schemata.full_values(profile), cpus=frozenset(range(profile.n_cpus)))
        root.directory = directory(0o555)
        self.groups: dict[str, Group] = {"": root}
        self.root = root
        self.tree = Tree(root.directory)
        root.directory.make, root.directory.remove = self._make_control, self._remove_control
        self._fill(root, Caller())
        root.directory.add("info", rdt_info.info_directory(profile, self.groups, self.status))

    # -- lookups -------------------------------------------------------------------------------------------------

    def group_of(self, closid: int) -> Group:
        """The control group with this CLOSID; the default group where none has it."""
        return next((group for group in self.groups.values() if group.closid == closid), self.root)

    def others(self, group: Group) -> schemata.Others:
        """Cache masks of all other control groups."""
        rest = [other for other in self.groups.values() if other is not group]
        return schemata.Others(
            [other.values["L3"] for other in rest], [g.values["L3"] for g in rest if g.mode == "exclusive"]
        )

    # -- files of a group ----------------------------------------------------------------------------------------

    def _fill(self, group: Group, owner: Caller) -> None:
        """All files and directories of a group."""
        here = group.directory
        n = self.profile.n_cpus
        here.add(
            "tasks", file(lambda: group_tasks.show(self.tasks, group), self._writer(group, self._write_tasks)), owner
        )
        cpus = file(lambda: numbers.format_mask(group.cpus, n) + "\n", self._writer(group, self._write_cpus(False)))
        cpu_list = file(lambda: format_cpulist(group.cpus) + "\n", self._writer(group, self._write_cpus(True)))
        here.add("cpus", cpus, owner)
        here.add("cpus_list", cpu_list, owner)
        if group.parent is None:
            show_values = lambda: schemata.render(group.values)  # noqa: E731
            here.add("schemata", file(show_values, lambda text, _: self._write_schemata(group, text)), owner)
            here.add("mode", file(lambda: group.mode + "\n", lambda text, _: self._write_mode(group, text)), owner)
            here.add("size", file(lambda: self._sizes(group)), owner)
            monitors = directory(0o755)
            monitors.make = lambda name, caller: self._make_monitor(group, name, caller)
            monitors.remove = lambda name: self._remove_monitor(group, name)
            here.add("mon_groups", monitors, owner)
        data = directory(0o555)
        here.add("mon_data", data, owner)
        for domain, _ in self.profile.domains:
            events = data.add(f"mon_L3_{domain:02d}", directory(0o555), owner)
            assert isinstance(events, Directory)  # noqa: S101 - for the type checker
            for event in self.profile.events:
                show = lambda d=domain, e=event: self.reading(group, d, e) + "\n"  # noqa: E731
                events.add(event, file(show, live=True), owner)

    def _writer(self, group: Group, command: Callable[[Group, str, Caller], None]) -> Callable[[str, Caller], None]:
        """A command that starts with a clean status."""

        def write(text: str, caller: Caller) -> None:
            self.status.clear()
            command(group, text, caller)

        return write

    def _write_tasks(self, group: Group, text: str, caller: Caller) -> None:
        group_tasks.write(self.tasks, self.status, group, text, caller)

    def _write_schemata(self, group: Group, text: str) -> None:
        if not text.endswith("\n"):
            raise error(errno.EINVAL)
        self.status.clear()
        try:
            staged = schemata.stage(text[:-1], self.profile, self.others(group), group.mode == "exclusive")
        except schemata.Refused as refused:
            raise self.status.refuse(errno.EINVAL, str(refused)) from None
        for resource, domains in staged.items():
            group.values[resource].update(domains)

    def _write_mode(self, group: Group, text: str) -> None:
        if not text.endswith("\n"):
            raise error(errno.EINVAL)
        self.status.clear()
        wanted = text[:-1]
        if wanted == group.mode:
            return
        if wanted == "pseudo-locksetup":
            raise self.status.refuse(errno.EINVAL, "Pseudo-locking not supported\n")
        if wanted not in ("shareable", "exclusive"):
            raise self.status.refuse(errno.EINVAL, "Unknown or unsupported mode\n")
        if wanted == "exclusive":
            masks = self.others(group).masks
            for domain, mask in group.values["L3"].items():
                if mask & self.profile.shareable_bits or schemata.overlaps(mask, domain, masks):
                    raise self.status.refuse(errno.EINVAL, "Schemata overlaps\n")
        group.mode = wanted

    def _sizes(self, group: Group) -> str:
        per_bit = self.profile.cache_bytes // self.profile.cbm_bits
        sizes = {domain: str(per_bit * mask.bit_count()) for domain, mask in group.values["L3"].items()}
        return schemata.render(group.values, {"L3": sizes})

    def _write_cpus(self, as_list: bool) -> Callable[[Group, str, Caller], None]:
        def write(group: Group, text: str, caller: Caller) -> None:
            del caller
            parse = numbers.cpu_list if as_list else numbers.cpu_mask
            try:
                cpus = parse(text, self.profile.n_cpus)
            except OSError as failure:
                raise self.status.refuse(failure.errno or errno.EINVAL, "Bad CPU list/mask\n") from None
            self._assign_cpus(group, cpus)

        return write

    def _assign_cpus(self, group: Group, cpus: frozenset[int]) -> None:
        if group.parent is not None:
            if not cpus <= group.parent.cpus:
                raise self.status.refuse(errno.EINVAL, "Can only add CPUs to mongroup that belong to parent\n")
            for sibling in group.parent.monitors.values():
                sibling.cpus -= cpus
            group.cpus = cpus
            return
        if group is self.root and not group.cpus <= cpus:
            raise self.status.refuse(errno.EINVAL, "Can't drop CPUs from default group\n")
        dropped, added = group.cpus - cpus, cpus - group.cpus
        for other in self.groups.values():
            if other is not group and other.cpus & added:
                other.cpus -= added
                for monitor in other.monitors.values():
                    monitor.cpus -= added
        if group is not self.root:
            self.root.cpus |= dropped
        group.cpus = cpus
        for monitor in group.monitors.values():
            monitor.cpus = frozenset()

    # -- groups come and go --------------------------------------------------------------------------------------

    def _take_rmid(self) -> int:
        if not self._free_rmids:
            raise self.status.refuse(errno.ENOSPC, "Out of RMIDs\n")
        return self._free_rmids.popleft()

    def _make_control(self, name: str, caller: Caller) -> None:
        if "\n" in name:
            raise error(errno.EINVAL)
        self.status.clear()
        taken = {group.closid for group in self.groups.values()}
        closid = next((n for n in range(self.profile.n_closids) if n not in taken), None)
        if closid is None:
            raise self.status.refuse(errno.ENOSPC, "Out of CLOSIDs\n")
        values = schemata.full_values(self.profile)
        groups = list(self.groups.values())
        shareable = [group.values["L3"] for group in groups if group.mode == "shareable"]
        for domain, _ in self.profile.domains:
            used = 0
            for group in groups:
                used |= group.values["L3"][domain]
            mask = schemata.default_mask(self.profile, domain, shareable, used)
            if mask.bit_count() < max(1, self.profile.min_cbm_bits):
                raise self.status.refuse(errno.ENOSPC, f"No space on L3:{domain}\n")
            values["L3"][domain] = mask
        group = Group(name, closid, self._take_rmid(), values)
        self.groups[name] = group
        self._fill(group, caller)
        self.root.directory.add(name, group.directory, caller)

    def _make_monitor(self, parent: Group, name: str, caller: Caller) -> None:
        if "\n" in name:
            raise error(errno.EINVAL)
        if name == "mon_groups":
            raise error(errno.EPERM)
        self.status.clear()
        group = Group(name, parent.closid, self._take_rmid(), parent.values, parent=parent)
        parent.monitors[name] = group
        self._fill(group, caller)
        holder = parent.directory.children["mon_groups"]
        assert isinstance(holder, Directory)  # noqa: S101 - for the type checker
        holder.add(name, group.directory, caller)

    def _remove_control(self, name: str) -> None:
        group = self.groups.get(name)
        if group is None or group is self.root:
            raise error(errno.EPERM)
        for task in self.tasks.all():
            if task.closid == group.closid:
                task.closid, task.rmid = 0, 0
        self.root.cpus |= group.cpus
        for monitor in group.monitors.values():
            self._free_rmids.append(monitor.rmid)
        self._free_rmids.append(group.rmid)
        del self.groups[name]
        self.root.directory.drop(name)

    def _remove_monitor(self, parent: Group, name: str) -> None:
        group = parent.monitors.pop(name)
        for task in self.tasks.all():
            if task.closid == parent.closid and task.rmid == group.rmid:
                task.rmid = parent.rmid
        self._free_rmids.append(group.rmid)
        holder = parent.directory.children["mon_groups"]
        assert isinstance(holder, Directory)  # noqa: S101 - for the type checker
        holder.drop(name)
