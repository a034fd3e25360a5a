"""A cgroup for each web server that holds it to its share of a core, `osml-dispatch/<server>`: v1 or v2."""

from __future__ import annotations

from pathlib import Path

from osml.base.failure import Failure
from osml.lab.trials.live.cgroups import Hierarchies, end_tasks

ROOT_NAME = "osml-dispatch"
PERIOD_US = 10_000  # the kernel's 100 ms would stop a server for longer than a request takes


class ServerGroups:
    """The groups of one trial. `remove()` also clears what a killed trial left."""

    def __init__(self, hierarchies: Hierarchies) -> None:
        self._v2 = hierarchies.v2 is not None
        self._top = (hierarchies.v2 or hierarchies.v1["cpu"]) / ROOT_NAME

    def create(self, server: str, share: float) -> Path:
        """The group of one server; share is CPU time over time. Up to that it comes before everybody else's work: its
        only neighbour shall be the burner.
        """
        group = self._top / server
        for directory in (self._top, group):
            if self._v2:
                (directory.parent / "cgroup.subtree_control").write_text("+cpu")
            directory.mkdir(exist_ok=True)
            (directory / ("cpu.weight" if self._v2 else "cpu.shares")).write_text("10000" if self._v2 else "102400")
        quota = int(share * PERIOD_US)
        if self._v2:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        return group

    def remove(self) -> None:
        """End every task in the groups and remove them. Raises Failure, naming the group, where one stays."""
        if not self._top.is_dir():
            return
        for group in [*(path for path in self._top.iterdir() if path.is_dir()), self._top]:
            end_tasks(group)
            try:
                group.rmdir()
            except OSError as error:
                raise Failure(f"cgroup {group} can't be removed: {error.strerror}") from None
